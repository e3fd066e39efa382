"""The sources file: what it says, and every way to get it wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import taboot_pipelines.connectors
from taboot_pipelines.connectors.compose import ComposeSource
from taboot_pipelines.connectors.files import FilesSource, SwagSource
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.sources import SOURCE_KINDS
from taboot_pipelines.sources.sources_file import SourcesFile, json_schema, load_sources

GOOD = """\
sources:
  - &docs
    id: docs
    type: files
    path: ./docs
    tags: [handbook]
    schedule: "0 3 * * *"
    retention_days: 90
  - {<<: *docs, id: drafts, path: ./drafts, include: ["*.md"], exclude: [old/]}
  - {id: lab, type: compose, path: compose, host: NAS.lan., proxy: swag, namespace: home}
  - {id: proxy, type: swag, path: /config/nginx/proxy-confs, languages: [en, de], schedule: "@daily"}
  - id: site
    type: web
    urls: [https://docs.example.org/]
    sitemaps: [https://docs.example.org/sitemap.xml]
    max_pages: 10
    allow_cidrs: [192.168.1.0/24, "fd00::/8"]
"""


def load(tmp_path: Path, content: str | bytes) -> SourcesFile:
    file = tmp_path / "sources.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_sources(file)


def problems(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(TabootError) as caught:
        load(tmp_path, content)
    assert caught.value.code == "E_SOURCES"
    return caught.value.message


def test_a_good_file(tmp_path: Path) -> None:
    sources = load(tmp_path, GOOD)
    assert list(sources.entries) == ["docs", "drafts", "lab", "proxy", "site"]
    assert sources.root == tmp_path
    assert sources.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    docs, drafts, lab, proxy, site = sources.entries.values()
    assert (
        isinstance(docs, FilesSource)
        and docs.schedule == "0 3 * * *"
        and docs.tags == ["handbook"]
        and docs.languages == ["en"]
    )
    assert isinstance(drafts, FilesSource) and drafts.retention_days == 90 and drafts.exclude == ["old/"]
    assert isinstance(lab, ComposeSource)
    assert lab.interpretation_fields() == {"namespace": "home", "host": "nas.lan", "proxy": "swag"}
    assert isinstance(proxy, SwagSource) and proxy.interpretation_fields() == {
        "namespace": "default",
        "host": None,
        "proxy": None,
    }
    assert (
        isinstance(site, WebSource)
        and site.max_depth == 0
        and site.allow_cidrs == ["192.168.1.0/24", "fd00::/8"]
    )
    assert load(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()).entries == sources.entries


def test_host_and_proxy_of_files_that_are_interpreted(tmp_path: Path) -> None:
    text = "sources: [{id: a, type: files, path: x, interpret: true, host: NAS.lan., proxy: edge}]"
    (entry,) = load(tmp_path, text).entries.values()
    assert entry.interprets
    assert entry.interpretation_fields() == {"namespace": "default", "host": "nas.lan", "proxy": "edge"}
    (plain,) = load(tmp_path, "sources: [{id: a, type: files, path: x}]").entries.values()
    assert not plain.interprets and set(plain.interpretation_fields().values()) == {"default", None}


def test_the_configuration_is_canonical(tmp_path: Path) -> None:
    (one,) = load(tmp_path, "sources: [{id: a, type: files, path: x}]").entries.values()
    (two,) = load(
        tmp_path, "sources:\n- path: x\n  namespace: default\n  languages: [en]\n  id: a\n  type: files\n"
    ).entries.values()
    assert one.config_json() == two.config_json()
    assert json.loads(one.config_json())["languages"] == ["en"]
    (other,) = load(tmp_path, "sources: [{id: a, type: files, path: y}]").entries.values()
    assert other.config_json() != one.config_json()


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("{type: files, path: x}", "entry 2 id"),
        ("{id: b, path: x}", "entry 2 (b) has no type"),
        ("{id: b, typ: files, path: x}", "(b) has no type (did you mean type by typ?)"),
        ("{id: b, type: compose, path: x, hosts: nas}", "unknown field hosts (did you mean host?)"),
        ("{id: b, type: files}", "(b) path"),
        ("{id: 'B!', type: files, path: x}", "entry 2 id"),
        ("{id: b, type: files, path: x, namespace: 'a b'}", "(b) namespace"),
        ("{id: b, type: files, path: x, colour: red}", "(b) has the unknown field colour"),
        ("{id: b, type: files, path: x, host: nas}", "unknown field host"),
        ("{id: b, type: files, path: x, proxy: edge}", "unknown field proxy"),
        ("{id: b, type: files, path: x, interpret: maybe}", "(b) interpret"),
        ("{id: b, type: files, path: x, interpret: true, host: 'a b'}", "(b) host"),
        ("{id: b, type: ftp, path: x}", "unknown type ftp"),
        ("{id: b, type: [files], path: x}", "unknown type"),
        ("{id: b, type: files, path: x, schedule: '61 * * * *'}", "(b) schedule"),
        ("{id: b, type: files, path: x, schedule: '* * * *'}", "(b) schedule"),
        ("{id: b, type: files, path: x, schedule: '0 0 31 2 *'}", "(b) schedule"),
        ("{id: b, type: files, path: x, schedule: 'every day'}", "(b) schedule"),
        ("{id: b, type: files, path: x, schedule: '*/61 * * * *'}", "a step of 61 minutes"),
        ("{id: b, type: files, path: x, schedule: '5 0,8-18/24 * * *'}", "a step of 24 hours"),
        ("{id: b, type: files, path: x, retention_days: 0}", "(b) retention_days"),
        ("{id: b, type: files, path: x, retention_days: '3'}", "(b) retention_days"),
        ("{id: b, type: files, path: x, tags: x}", "(b) tags"),
        ("{id: b, type: files, path: x, languages: []}", "(b) languages"),
        ("{id: b, type: files, path: x, languages: [English]}", "(b) languages.1"),
        ("{id: b, type: files, path: x, include: ['!x']}", "(b) include: pattern 1"),
        ("{id: b, type: files, path: 3}", "(b) path"),
        ("{id: b, type: compose, path: x, host: 'a b'}", "(b) host"),
        ("{id: b, type: web}", "(b) needs urls or sitemaps"),
        ("{id: b, type: web, urls: [http://h/], max_depth: -1}", "max_depth"),
        ("{id: b, type: web, urls: [http://h/], max_depth: 2, strategy: best_first}", "needs keywords"),
        ("{id: b, type: web, urls: [http://h/], score_threshold: 0.5}", "needs keywords"),
        ("{id: b, type: web, urls: [http://h/], keywords: ['?!']}", "keywords"),
        ("{id: b, type: web, urls: [http://h/], max_pages: 0}", "(b) max_pages"),
        ("{id: b, type: web, urls: [http://h/], allow_cidrs: [192.168.1.7/24]}", "(b) allow_cidrs.1"),
        ("{id: a, type: files, path: x}", "entry 2 (a) has the id of entry 1"),
        ("{id: a, type: files, path: x, namespace: other}", "entry 2 (a) has the id of entry 1"),
        ("just words", "entry 2 is not a mapping"),
        ("{1: x, id: b, type: files, path: x}", "name is not a text"),
        ("{id: b, type: later_type}", "unknown type later_type"),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, entry: str, named: str) -> None:
    message = problems(tmp_path, f"sources:\n- {{id: a, type: files, path: x}}\n- {entry}\n")
    assert named in message


def test_all_problems_are_listed_at_once_and_no_content_is_quoted(tmp_path: Path) -> None:
    content = (
        "sources:\n- {id: a, type: files, path: 7, hunter2 hunter2: x}\n- {id: b, type: 'pass hunter2'}\n-"
        " hunter2\n- {id: d, type: web, urls: [3], schedule: hunter2}\n"
    )
    with pytest.raises(TabootError) as caught:
        load(tmp_path, content)
    assert len(caught.value.details["problems"]) == 6
    assert "has 6 mistakes" in caught.value.message
    assert "hunter2" not in str(caught.value) + repr(caught.value.details)


def test_each_mistake_has_its_place_counted_from_one(tmp_path: Path) -> None:
    content = """\
extra: 1
sources:
  - id: a
    type: files
    path: x
    schedule: "*/61 * * * *"
  - &b {id: b, type: files}
  - <<: *b
    id: c
    colour: red
    languages: [en, English]
  - {id: d, type: gopher}
  - {id: e, type: web, urls: [http://h/], proxies: none}
domains:
  example.org: {rate_limit: fast}
"""
    with pytest.raises(TabootError) as caught:
        load(tmp_path, content)
    told = caught.value.details["problems"]
    assert [p.split(": ")[0] for p in told] == [
        "line 1, column 1",
        "line 6, column 5",
        "line 7, column 5",
        "line 8, column 5",
        "line 10, column 5",
        "line 11, column 21",
        "line 12, column 13",
        "line 13, column 43",
        "line 15, column 17",
    ]
    assert "known: files, compose" in told[6] and all(t in told[6] for t in SOURCE_KINDS)
    assert all(t in SOURCE_KINDS for t in told[6].partition("known: ")[2].rstrip(")").split(", "))
    assert caught.value.message.count("\n  line ") == 9
    assert "sources.yaml, line 2, column 1: " in problems(tmp_path, "\nsources: []")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("# nothing\n", "not a mapping"),
        ("- a\n", "not a mapping"),
        ("sources", "not a mapping"),
        ("sources: []\n", "at least one"),
        ("sources:\n", "at least one"),
        ("sources: {a: 1}\n", "needs a list"),
        ("{}\n", "needs a list"),
        (
            "sources: [{id: a, type: files, path: x}]\nextra: 1\n",
            "line 2, column 1: the file has the unknown field extra",
        ),
        ("sources: [{id: a, type: files, path: x}]\nsources: []\n", "line 2"),
        ("sources: [{id: a, id: b}]\n", "line 1"),
        ("sources: [hunter2\n", "line 2"),
        ("sources:\n\t- hunter2\n", "line 2"),
        ("sources: *hunter2\n", "line 1"),
        ("a: !!python/object/apply:os.system [hunter2]\n", "line 1"),
        ("a: !!int hunter2", "cannot be read"),
        ("a: !!bool hunter2", "cannot be read"),
        ("a: !!timestamp hunter2", "cannot be read"),
        ("a: 2024-99-99", "cannot be read"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("a: \0", "forbids"),
        (b"a: \xff\xfe hunter2", "not UTF-8"),
        ("[" * 3000, "too deeply"),
        ("a: " * 20000, "YAML"),
        ("a: &a {x: 1}\nb: {<<: [*a, *a]}\n", "line 2"),
        ("{? [hunter2] : b}\n", "line 1"),
    ],
)
def test_a_bad_file_is_refused_whole(tmp_path: Path, content: str | bytes, says: str) -> None:
    message = problems(tmp_path, content)
    assert says in message and "hunter2" not in message and str(tmp_path / "sources.yaml") in message


def test_a_missing_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none.yaml", "does not exist"), (tmp_path, "cannot be read")):
        with pytest.raises(TabootError, match="E_SOURCES") as caught:
            load_sources(path)
        assert says in caught.value.message
    (tmp_path / "huge.yaml").write_bytes(b"#" * (9 * 1024 * 1024))
    with pytest.raises(TabootError, match="larger"):
        load_sources(tmp_path / "huge.yaml")


def test_aliases_that_multiply_do_not(tmp_path: Path) -> None:
    levels = ["&a0 [x, x]"] + [f"&a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    nested = "sources:\n- {id: a, type: files, path: x, tags: [" + ", ".join(levels) + "]}\n"
    assert "tags" in problems(tmp_path, nested)
    merged = "sources:\n" + "".join(
        f"- &m{i} {{<<: *m{i - 1}, k{i}: 1}}\n" if i else "- &m0 {k0: 1}\n" for i in range(300)
    )
    assert "has no type" in problems(tmp_path, merged)


def test_a_cut_file_is_refused_or_lists_whole_entries_only(tmp_path: Path) -> None:
    """A cut that leaves valid YAML can only drop entries or shorten a last value: never take a key for
    another.
    """
    whole = load(tmp_path, GOOD).entries
    for cut in range(0, len(GOOD), 3):
        try:
            entries = load(tmp_path, GOOD[:cut]).entries
        except TabootError as error:
            assert error.code == "E_SOURCES"
            continue
        assert list(entries) == list(whole)[: len(entries)]
        assert all(entries[k] == whole[k] for k in list(entries)[:-1])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=80)
    | st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(["web", "files", "a"]),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(["sources", "id", "type", "path", "urls", "schedule"]), c, max_size=6
            )
        ),
        max_leaves=12,
    ).map(lambda v: yaml.safe_dump({"sources": [v]}).encode())
)
def test_any_file_is_sources_or_a_typed_error(tmp_path: Path, content: bytes) -> None:
    try:
        assert load(tmp_path, content).entries
    except TabootError as error:
        assert error.code == "E_SOURCES"


def test_the_shipped_schema_is_current_and_agrees_with_the_reader(tmp_path: Path) -> None:
    shipped = json.loads(
        (Path(taboot_pipelines.connectors.__file__).parent / "sources.schema.json").read_text()
    )
    assert shipped == json.loads(json.dumps(json_schema()))
    validator = jsonschema.Draft202012Validator(shipped)
    document: dict[str, Any] = yaml.safe_load(GOOD)
    validator.validate(document)
    wrong: list[dict[str, Any]] = [
        {"sources": []},
        {"sources": [{"id": "a", "type": "files"}]},
        {"sources": [{"id": "a", "type": "gitlab"}]},
        {"sources": [{"id": "A", "type": "files", "path": "x"}]},
        {"sources": [{"id": "a", "type": "files", "path": "x", "z": 1}]},
    ]
    for bad in wrong:
        assert list(validator.iter_errors(bad)), bad
        problems(tmp_path, yaml.safe_dump(bad))


WEB = "sources: [{id: site, type: web, urls: [https://docs.example.org/]}]\n"


def test_domains_and_proxies_stand_beside_the_sources(tmp_path: Path) -> None:
    sources = load(
        tmp_path,
        WEB
        + """\
domains:
  Docs.Example.ORG: {rate_limit_rps: 0.5, headers: {Authorization: "Bearer ${DOCS_TOKEN}"}}
  nas.lan:8080: {rate_limit_rps: 0}
  10.0.0.1: {blocked: true}
proxies:
  home:
    rotation: least_used
    servers:
      - url: http://proxy.lan:3128
        username: taboot
        password: ${PROXY_PASSWORD}
      - url: socks5://[fd00::1]
""",
    )
    assert list(sources.domains) == ["docs.example.org", "nas.lan:8080", "10.0.0.1"]
    assert sources.domains["docs.example.org"].headers == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert sources.domains["10.0.0.1"].blocked is True
    assert [s.url for s in sources.proxies["home"].servers] == ["http://proxy.lan:3128", "socks5://[fd00::1]"]
    assert load(tmp_path, WEB + "domains:\nproxies: {}\n").domains == {}


def test_entries_share_the_fields_of_a_profile(tmp_path: Path) -> None:
    text = """\
profiles:
  polite: {max_depth: 3, include: ["/docs/**"], allow_cidrs: [10.0.0.0/8]}
sources:
  - {id: a, type: web, urls: [http://a.lan/], profile: polite}
  - {id: b, type: web, urls: [http://b.lan/], profile: polite, max_depth: 1, allow_cidrs: []}
  - {id: c, type: web, urls: [http://c.lan/], max_depth: 3, include: ["/docs/**"], allow_cidrs: [10.0.0.0/8]}
"""
    entries = load(tmp_path, text).entries
    a, b, c = (entries[name] for name in "abc")
    assert isinstance(a, WebSource) and isinstance(b, WebSource)
    assert (a.max_depth, a.include, a.allow_cidrs) == (3, ["/docs/**"], ["10.0.0.0/8"])
    assert (b.max_depth, b.include, b.allow_cidrs) == (1, ["/docs/**"], [])
    # Who writes the fields out reads and makes the same.
    same = [json.loads(x.config_json()) | {"id": "", "urls": ""} for x in (a, c)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles: [polite]", "the profiles are not a mapping"),
        ("profiles: {Polite: {}}", "profile Polite has a name that is not"),
        ("profiles: {polite: 1}", "profile polite is not a mapping of fields"),
        ("profiles: {polite: {id: x}}", "profile polite has the field id, which is each entry's own"),
        ("profiles: {polite: {depth: 1}}", "entry 1 (site) has the unknown field depth"),
        ("profiles: {polit: {}}", "names profile polite, which the file does not list (did you mean polit?)"),
        ("", "names profile polite, which the file does not list"),
    ],
)
def test_a_profile_that_is_none_is_told(tmp_path: Path, text: str, said: str) -> None:
    entry = "sources: [{id: site, type: web, urls: [https://docs.example.org/], profile: polite}]\n"
    assert said in problems(tmp_path, entry + text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("domains: [example.org]", "the domain settings are not a mapping"),
        ("domains: {example.org: 1}", "domain example.org is not a mapping of fields"),
        ("domains: {example.org: {rps: 1}}", "domain example.org has the unknown field rps"),
        ("domains: {example.org: {rate_limit_rp: 1}}", "field rate_limit_rp (did you mean rate_limit_rps?)"),
        ("domains: {example.org: {rate_limit_rps: fast}}", "domain example.org rate_limit_rps: "),
        (
            "domains: {example.org: {}, EXAMPLE.org: {}}",
            "domain EXAMPLE.org is there twice, in two spellings",
        ),
        ("domains: {example.org: {}, example.org: {}}", "is not valid YAML"),
        ("domains: {'https://user:pw@example.org/x': {}}", "domain (not shown) is not the name of a domain"),
        ("domains: {1: {}}", "domain 1 has a name that is not a text"),
        ("domains: {example.org: {headers: {Host: x}}}", "headers: "),
        ("proxies: {Home: {servers: [{url: 'http://p:1'}]}}", "list of proxies Home has a name that is not"),
        ("proxies: {home: {servers: []}}", "list of proxies home servers: "),
        (
            "proxies: {home: {servers: [{url: 'http://u:pw@p:1'}]}}",
            "servers.1.url: is not the URL of a proxy",
        ),
        ("proxies: {home: {servers: [{url: 'ftp://p:1'}]}}", "is not the URL of a proxy"),
        ("proxies: {home: {servers: [{url: 'http://p:0'}]}}", "is not the URL of a proxy"),
        (
            "proxies: {home: {servers: [{url: 'http://p:1', password: pw}]}}",
            "servers.1.password: is not ${NAME}",
        ),
        (
            "proxies: {home: {servers: [{url: 'http://p:1'}], rotation: fair}}",
            "list of proxies home rotation: ",
        ),
    ],
)
def test_what_is_wrong_with_domains_and_proxies_is_said_without_secrets(
    tmp_path: Path, text: str, said: str
) -> None:
    message = problems(tmp_path, f"{WEB}{text}\n")
    assert said in message and "pw" not in message
    # Both the old file and every other mistake stay in sight.
    both = problems(tmp_path, f"{WEB.replace('urls', 'curls')}{text}\n")
    assert "curls" in both or "not valid YAML" in both


def test_the_schema_knows_domains_and_proxies() -> None:
    good = {"sources": [{"id": "s", "type": "web", "urls": ["https://a.example/"]}]}
    schema = json_schema()
    jsonschema.validate(good | {"domains": {"a.example": {"blocked": True}}}, schema)
    jsonschema.validate(good | {"proxies": {"home": {"servers": [{"url": "http://p:1"}]}}}, schema)
    for bad in (
        {"domains": {"a.example": {"x": 1}}},
        {"proxies": {"home": {}}},
        {"proxies": {"Home!": {"servers": [{"url": "http://p:1"}]}}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | bad, schema)


def test_collections_are_filters_by_name(tmp_path: Path) -> None:
    entries = "sources: [{id: a, type: files, path: x}, {id: b, type: files, path: y, namespace: other}]\n"
    saved = load(
        tmp_path,
        entries + "collections: {day: {source: a, type: [files], date_from: 2026-01-02, tag: [x, y]}}",
    ).collections["day"]
    assert saved.filters() == {
        "source": ["a"],
        "type": ["files"],
        "date_from": "2026-01-02",
        "tag": ["x", "y"],
    }
    for fields, said in (
        ("{}", "line 2, column 15: collection day has no filter"),
        ("{sourc: a}", "has the unknown field sourc (did you mean source?)"),
        ("{source: b}", "names source b, which the file does not list in its namespace"),
        ("{type: file}", "names type file, which is no type (did you mean files?)"),
        ("{date_to: soon}", "date_to: "),
        ("{tag: 3}", "tag: "),
        ("{tag: x, namespace: No}", "namespace: "),
    ):
        with pytest.raises(TabootError) as error:
            load(tmp_path, f"{entries}collections: {{day: {fields}}}")
        assert error.value.code == "E_SOURCES" and said in error.value.message, error.value.message
    assert load(tmp_path, f"{entries}collections: {{u: {{source: uploads}}}}").collections["u"]
