"""Secrets are masked in every notation that gives a name its value, and what only looks like one stays."""

from __future__ import annotations

import pytest

from taboot_pipelines.documents.html_content import page_content
from taboot_pipelines.documents.html_markdown import join
from taboot_pipelines.documents.html_tree import parse
from taboot_pipelines.documents.secrets.masking import find_secrets, mask
from taboot_pipelines_tests.documents.corpus import files

YAML, MD, INI, NGINX, JSON, HTML, SH, TOML, XML, ENV, CSV, DOCKER, PLAIN = (
    "application/yaml",
    "text/markdown",
    "text/x-ini",
    "text/x-nginx-conf",
    "application/json",
    "text/html",
    "text/x-shellscript",
    "application/toml",
    "text/xml",
    "text/x-dotenv",
    "text/csv",
    "text/x-dockerfile",
    "text/plain",
)
S = "hunter2Correct"
W = "swordfish"

#: (type, text, the secrets in it): none of them may remain.
LEADS_TO_A_SECRET = [
    # YAML: a value that begins below its key, an explicit key, items that hold a name and a value.
    (YAML, f"db:\n  password:\n    {W}\n  port: 5432\n", [W]),
    (YAML, f'db:\n  password:\n    "{W} and more"\n  port: 5432\n', [f"{W} and more"]),
    (YAML, f"password:\n  {W}\n  goes on\nport: 5432\n", [W, "goes on"]),
    (YAML, f"password: # of the database\n  {W}\nport: 1\n", [W]),
    (YAML, f"password: {W}\n  goes on\nport: 1\n", [W, "goes on"]),
    (YAML, f'password: "{W}\n  goes on"\nport: 1\n', [W, "goes on"]),
    (YAML, f"? password\n: {W}\n", [W]),
    (YAML, f'? "password"\n: "{W}"\n', [W]),
    (YAML, f"  ? db_password\n  : |\n    {W}\n", [W]),
    (YAML, f"password: !!str {W}\n", [W]),
    (YAML, f"password: &anchor\n  {W}\n", [W]),
    (YAML, f"env:\n  - value: {W}\n    name: DB_PASSWORD\n", [W]),
    (YAML, f"env:\n  - name: DB_PASSWORD\n    value: {W}\n", [W]),
    (YAML, f"env:\n  - name: DB_PASSWORD\n    required: true\n    value: '{W}'\n", [W]),
    (YAML, f"env:\n  - {{name: DB_PASSWORD, value: {W}}}\n", [W]),
    (YAML, f"env:\n  - {{value: {W}, name: DB_PASSWORD}}\n", [W]),
    (YAML, f"parameters:\n  - ParameterKey: DbPassword\n    ParameterValue: {W}\n", [W]),
    (YAML, f'environment: ["POSTGRES_PASSWORD={W}", "A=b"]\n', [W]),
    (YAML, f"environment:\n  ? POSTGRES_PASSWORD\n  : {W}\n", [W]),
    (YAML, f"JWT: {W}\nport: 1\n", [W]),
    (YAML, f"auth:\n  jwt: {S}\n", [S]),
    (YAML, f"labels:\n  - traefik.http.middlewares.a.basicauth.users=admin:{W}\n", [W]),
    (YAML, f"  - 'traefik.http.middlewares.a.basicauth.users=admin:{W},bob:{S}'\n", [W, S]),
    (YAML, f"      basicAuth:\n        users:\n          - 'admin:{W}'\n          - \"bob:{S}\"\n", [W, S]),
    (
        TOML,
        f'  [http.middlewares.a.basicAuth]\n    users = [\n      "admin:{W}",\n      "bob:{S}",\n    ]\n',
        [W, S],
    ),
    (YAML, f'args: ["--password", "{W}"]\nother: [\'--token={S}\']\n', [W, S]),
    # JSON: the name as a value.
    (JSON, f'{{"name":"DB_PASSWORD","value":"{W}"}}', [W]),
    (JSON, f'{{"value":"{W}","name":"DB_PASSWORD"}}', [W]),
    (JSON, f'{{"key":"password","value":"{W}"}}', [W]),
    (JSON, f'{{"Key": "DB_PASSWORD", "Type": "String", "Value": "{W}"}}', [W]),
    (JSON, f'[\n  {{\n    "value": "{W}",\n    "enabled": true,\n    "name": "password"\n  }}\n]', [W]),
    (JSON, f'{{\n  "password":\n    "{W}"\n}}', [W]),
    (JSON, f'{{"passwords": ["{W}", "{S}"]}}', [S]),
    # Signs of other scripts.
    (MD, f"Password：{S}\n", [S]),
    (YAML, f"password： {W}\n", [W]),
    (PLAIN, f"API_TOKEN＝{S}\n", [S]),
    # Tables.
    (MD, f"| User | Password |\n|---|---|\n| admin | {W} |\n| bob | `{S}` |\n", [W, S]),
    (MD, f"User | Password\n--- | ---\nadmin | {W}\n", [W]),
    (MD, f"| Host | API key | Note |\n|:--|:-:|--:|\n| a | {S}9x | none |\n", [S]),
    (MD, f"| Password | User |\n| --- | --- |\n| {W} | admin |\n", [W]),
    (CSV, f'user,password,host\nadmin,{W},db\nbob,"{S}",db2\n', [W, S]),
    ("text/tab-separated-values", f"user\tpassword\nadmin\t{W}\n", [W]),
    # TOML, properties, ini.
    (TOML, f'[db]\npassword = \'{W}\'\n"api-key" = "{S}"\n', [W, S]),
    (TOML, f'password = """\n{W}\n{S}"""\nport = 1\n', [W, S]),
    (TOML, f'db = {{ user = "a", password = "{W}" }}\n', [W]),
    (INI, f"db.password={W}\ndb.user: x\n", [W]),
    (INI, f"db.password: {W}\n", [W]),
    (INI, f"db.password {W}\n", [W]),
    (INI, f"password = {W}\\\n    {S}\nuser = x\n", [W, S]),
    (INI, f"[smtp]\npassword = {W}\n    {S}\nuser = x\n", [W, S]),
    (ENV, f"export DB_PASSWORD='{W} x'\nTOKEN={W}\n", [W]),
    # Commands.
    (SH, f"docker run -e POSTGRES_PASSWORD={W} -e 'A_TOKEN={S}' postgres\n", [W, S]),
    (SH, f"docker run --env POSTGRES_PASSWORD={W} postgres\n", [W]),
    (SH, f"docker login -u bob -p {W} registry.example.org\n", [W]),
    (SH, f"echo 'admin:{W}' | sudo chpasswd\n", [W]),
    (SH, f"sshpass -p {W} ssh host\nPGPASSWORD={S} psql -h db\n", [W, S]),
    (SH, f"mongosh -u root -p {W} --quiet\nldapsearch -x -D cn=admin -w {S} -b dc=x\n", [W, S]),
    (SH, f"smbclient //nas/share -U 'bob%{W}'\nmosquitto_pub -h broker -u bob -P {S} -t x\n", [W, S]),
    (SH, f"htpasswd -nb admin {W}\nhtpasswd -cb file admin {S}\n", [W, S]),
    (SH, f"curl --user 'bob:{W}' http://x\ncurl -H 'X-Api-Key: {S}' http://x\n", [W, S]),
    (SH, f'curl -H "Cookie: session={S}9" http://x\n', [S]),
    (YAML, f'test: ["CMD", "curl", "-u", "bob:{W}", "http://x"]\n', [W]),
    (DOCKER, f"ENV DB_PASSWORD={W} A=b\nENV API_TOKEN {S}\n", [W, S]),
    # XML.
    (XML, f'<add key="DbPassword" value="{W}" />', [W]),
    (XML, f"<property value='{W}' name='db.password'/>", [W]),
    (XML, f'<entry key="password">{W}</entry>', [W]),
    (XML, f'<user name="bob" password="{W}" roles="admin"/>', [W]),
    (XML, f"<db:password>{W}</db:password>\n<Token type='x'>{S}</Token>", [W, S]),
    (XML, f"<password><![CDATA[{W}]]></password>", [W]),
    (XML, f"<password>\n  {W}\n</password>", [W]),
    # Headers, URLs, files of accounts and keys.
    (PLAIN, f"GET / HTTP/1.1\nAuthorization: Bearer {S}{S}\n", [S]),
    (PLAIN, f"Set-Cookie: session={S}abc; Path=/; HttpOnly\n", [S]),
    (PLAIN, "Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==\n", ["dXNlcjpwYXNzd29yZA"]),
    (PLAIN, f"amqp://bob:{W}@broker:5672/vhost and https://{S}{S}@git.example.org/x.git\n", [W, S]),
    (SH, f"machine mail.example.org login bob password {W}\n", [W]),
    (PLAIN, "bob:$apr1$OG3Xybp$ckL0FHDAkoXYIlH9.cysT0\n", ["ckL0FHDAkoXYIlH9"]),
    (PLAIN, "bob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", ["W6ph5Mm5Pz8GgiULbPgzG37mj9g"]),
    (PLAIN, "pbkdf2_sha256$600000$abcdEFGH1234$" + "a1B2" * 10 + "a=\n", ["a1B2a1B2"]),
    (
        PLAIN,
        "md5 SCRAM-SHA-256$4096:c2FsdHNhbHQ=$" + "Q" * 43 + "=:" + "R" * 43 + "=\n",
        ["Q" * 43, "R" * 43],
    ),
    (
        PLAIN,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ["MIIEowIBAAKCAQEA"],
    ),
    (
        PLAIN,
        "Private-Lines: 2\nAAAAgQDCabcd1234\nEFGH5678abcd==\nPrivate-MAC: ab\n",
        ["AAAAgQDC", "EFGH5678"],
    ),
    # Pages.
    (HTML, f"<table><tr><th>User<th>Password<tr><td>admin<td>{W}</table>", [W]),
    (
        HTML,
        f"<table><thead><tr><th>Password</th></tr></thead><tbody><tr><td><code>{W}</code></td></tr></table>",
        [W],
    ),
    (HTML, f'<input type="password" name="password" value="{W}">', [W]),
    (HTML, f"<!-- password={S} --><p>x</p>", [S]),
    (HTML, f'<script>var cfg = {{"password": "{W}", "user": "x"}};</script>', [W]),
    (HTML, f"<pre><code>password:\n  {W}\nport: 1\n</code></pre>", [W]),
    (HTML, f"<pre>- name: DB_PASSWORD\n  <b>value</b>: <i>{W}</i></pre>", [W]),
    (HTML, f"<pre>{{&quot;value&quot;:&quot;{W}&quot;,&quot;name&quot;:&quot;DB_PASSWORD&quot;}}</pre>", [W]),
    (HTML, f"<password>{W}</password>", [W]),
]

#: (type, text): to be left exactly as it is.
NO_SECRET = [
    (YAML, "password:\n  secretKeyRef:\n    name: db\n    key: password\n"),
    (YAML, "password:\n  # from the vault\n  valueFrom: x\n"),
    (YAML, "token:\nport: 80\n"),
    (YAML, "secrets:\n  db-password:\n    file: x.txt\n"),
    (
        YAML,
        "env:\n  - name: DB_PASSWORD\n    valueFrom:\n      secretKeyRef: {name: db, key: pw}\n"
        "  - name: A\n    value: b\n",
    ),
    (
        YAML,
        "env:\n  - name: A\n    value: b\n"
        "  - name: DB_PASSWORD\n    valueFrom: {secretKeyRef: {name: db, key: x}}\n",
    ),
    (
        JSON,
        '{"env":[{"name":"A","value":"b"},{"name":"DB_PASSWORD","valueFrom":"x"},{"value":"c","name":"D"}]}',
    ),
    (YAML, "nginx.ingress.kubernetes.io/auth-secret: basic-auth\n"),
    (YAML, "apiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\n\napiVersion: v1\nkind: Secret\n"),
    (
        MD,
        "| Parameter | Password | Type |\n|---|---|---|\n"
        "| a | required | string |\n| b | The password of the user | x |\n",
    ),
    (MD, "| Token | Meaning |\n|---|---|\n| WORD | a word |\n| NUMBER | a number |\n"),
    (MD, "| Secret | Namespace |\n|---|---|\n| db-credentials | apps |\n"),
    (
        MD,
        "Usage:\n\n```\n--token string   Bearer token for authentication\n"
        "--client-key string   Path to a key\n```\n",
    ),
    (MD, "JWT: a token format.\n\nThe ratio is 1/2 and 3/4; see RFC 7519 (JWT).\n"),
    (XML, '<add key="PasswordFile" value="/etc/x" /><add key="Title" value="Hello" />'),
    (
        HTML,
        "<a href=\"../user/\">user</a><p>Host: foo.bar.com</p><pre>curl -u '$USER:$PASS'"
        " http://foo.bar.com</pre>",
    ),
    (HTML, "<pre>-----BEGIN RSA PRIVATE KEY-----\n&lt;REDACTED&gt;\n-----END RSA PRIVATE KEY-----</pre>"),
    (PLAIN, "commit 3f786850e387550fdab836ed7e6dc881de23001b, image sha256:" + "ab12" * 16 + "\n"),
    (PLAIN, "id 123e4567-e89b-12d3-a456-426614174000 and 3f786850e387550fdab836ed7e6dc881\n"),
    (PLAIN, "Read sk-learn-contrib-and-other-packages, task-scheduler-interface, pat.docs and s.example.\n"),
    (PLAIN, "integrity sha512-" + "Ab1+" * 21 + "Ab==\n"),
]


@pytest.mark.parametrize(("mime", "text", "secrets"), LEADS_TO_A_SECRET, ids=range(len(LEADS_TO_A_SECRET)))
def test_every_notation_leads_to_its_secret(mime: str, text: str, secrets: list[str]) -> None:
    masked = mask(text, mime)
    assert len(masked) == len(text)
    for secret in secrets:
        assert secret in text
        assert secret not in masked, masked


@pytest.mark.parametrize(("mime", "text"), NO_SECRET, ids=range(len(NO_SECRET)))
def test_what_only_looks_like_a_secret_stays(mime: str, text: str) -> None:
    assert mask(text, mime) == text


#: What is masked in the pages of ingress-nginx: examples of passwords, all in their places.
_INGRESS_NGINX = {
    "Zm9vOiRhcHIxJE9GRzNYeWJwJGNrTDBGSERBa29YWUlsSDkuY3lzVDAK",
    "Zm9vOmJhcg==",
    "dXNlcjpwYXNzd2Q=",
    "dXNlcjp1c2Vy",
    "a9907b79b248140b56bb13723f72b67697baac3d",
    "LS0tLS1CRUdJTiBESCBQQVJBTUVURVJ...",
    "bar",
    "passwd",
    "user",
    "admin",
}


def test_real_pages_lose_nothing_but_their_secrets() -> None:
    """In 213,000 words eleven values are masked, each once."""
    masked = [
        text[a:b]
        for _, data in files("site-ingress-nginx", "**/*.html")
        for text in [data.decode()]
        for a, b in find_secrets(text, HTML)
    ]
    assert set(masked) <= _INGRESS_NGINX
    assert len(masked) <= 11


@pytest.mark.parametrize("name", ["site-ingress-nginx", "linuxserver-docs-html-sample"])
def test_a_page_and_the_document_that_it_becomes_are_masked_alike(name: str) -> None:
    for path, data in files(name, "**/*.html"):
        page = data.decode()
        shown = mask(page, HTML)
        document, _ = join(page_content(page, parse(page)).blocks)
        for a, b in find_secrets(document, MD):
            secret = document[a:b]
            # As often as the document has it masked, the page has lost it.
            assert shown.count(secret) < page.count(secret) or secret not in page, path
