"""Kubernetes' manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gold.check import DATA
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Interpretation
from taboot_pipelines_tests.extraction.tier_a.config.reading import edges, facts, interpret, one, shown

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: acme/web:1.2
          ports: [{containerPort: 8080, name: http}]
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: http, nodePort: 30080}]
"""
INGRESS = """\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
    - host: web.example.com
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: front, port: {number: 80}}}}
"""


def test_a_selector_leads_to_the_workload_of_its_file_or_of_its_folder() -> None:
    together = one("all.yaml", f"{DEPLOYMENT}---\n{SERVICE}")
    apart = interpret({"a/web.yaml": DEPLOYMENT, "a/front.yml": SERVICE, "b/web.yaml": DEPLOYMENT})
    for said in (together, apart["a/front.yml"]):
        (leads,) = edges(said, "CONNECTS_TO")
        assert shown(leads) == ("CONNECTS_TO", "front", "web")
        assert leads.properties == {"protocol": "tcp", "port": 8080}
        assert edges(said, "BINDS")[0].properties["targetPort"] == 8080
    alone = one("front.yaml", SERVICE)
    assert edges(alone, "CONNECTS_TO") == [] and "targetPort" not in edges(alone, "BINDS")[0].properties


def test_namespaces_are_scopes_and_a_selector_does_not_leave_its_own() -> None:
    other = SERVICE.replace("{name: front}", "{name: front, namespace: prod}")
    said = one("all.yaml", f"{DEPLOYMENT}---\n{other}", host="cluster.lan")
    assert edges(said, "CONNECTS_TO") == []
    scopes = {n.node.key for n in said.nodes if n.node.label == "Service"}
    assert scopes == {("cluster.lan/default", "web"), ("cluster.lan/prod", "front")}
    (bound,) = edges(said, "BINDS")
    assert bound.end.name == "cluster.lan"


def test_a_selector_that_is_not_met_in_full_leads_nowhere() -> None:
    for selector in ("{app: web, tier: x}", "{app: other}", "{}"):
        said = one("a.yaml", f"{DEPLOYMENT}---\n{SERVICE.replace('{app: web}', selector)}")
        assert edges(said, "CONNECTS_TO") == []


def test_yaml_json_and_lists_say_the_same() -> None:
    objects = list(yaml.safe_load_all(f"{DEPLOYMENT}---\n{SERVICE}---\n{INGRESS}"))
    plain = facts(one("a.yaml", f"{DEPLOYMENT}---\n{SERVICE}---\n{INGRESS}"))
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    assert facts(one("a.yaml", yaml.safe_dump(listed))) == plain
    assert facts(one("a.json", json.dumps(listed, indent="\t"))) == plain


@pytest.mark.parametrize(
    ("proxy", "spec", "name"),
    [
        (None, "", "src"),
        ("edge", "", "edge"),
        ("edge", "  ingressClassName: nginx\n", "nginx"),
    ],
)
def test_the_proxy_of_an_ingress_is_its_class_or_that_of_the_source(
    proxy: str | None, spec: str, name: str
) -> None:
    (route,) = edges(one("i.yaml", INGRESS + spec, proxy=proxy), "ROUTES_TO")
    assert (route.start.name, route.end.key, route.properties["tls"]) == (
        name,
        ("src/default", "front"),
        False,
    )


@pytest.mark.parametrize(
    ("tls", "secure"),
    [
        ("[{hosts: [web.example.com]}]", True),
        ("[{hosts: ['*.example.com']}]", True),
        ("[{hosts: [other.example.com]}]", False),
        ("[{secretName: all}]", True),
        ("[]", False),
    ],
)
def test_a_route_is_secure_where_its_host_has_a_certificate(tls: str, secure: bool) -> None:
    (route,) = edges(one("i.yaml", f"{INGRESS}  tls: {tls}\n"), "ROUTES_TO")
    assert route.properties["tls"] is secure


def test_templates_say_nothing_and_are_told() -> None:
    for text in (
        DEPLOYMENT.replace("web}", "{{ .Release.Name }}-web}"),
        DEPLOYMENT.replace("acme/web:1.2", "{{ .Values.image }}"),
        "{{- if .Values.on }}\n" + DEPLOYMENT + "{{- end }}\n",
    ):
        said = one("templates/a.yaml", text)
        assert said.nodes == said.edges == ()
        assert [p.code for p in said.problems] == ["E_UNRESOLVED"]
    quoted = one("a.yaml", DEPLOYMENT.replace("acme/web:1.2", '"{{ image }}:1"'))
    assert edges(quoted, "BUILDS") == [] and quoted.nodes[0].properties["unresolved"] == ["image"]
    # What a text of a ConfigMap holds is no template of the manifest.
    config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |\n    {{ $labels.x }}\n"
    assert edges(one("a.yaml", DEPLOYMENT + config), "BUILDS") != []


def test_kustomize_is_noted_and_its_patches_are_no_objects() -> None:
    files = {
        "kustomization.yaml": "resources: [web.yaml]\npatches: [{path: patch.yaml}]\nnamespace: prod\n",
        "web.yaml": DEPLOYMENT,
        "patch.yaml": DEPLOYMENT.replace("1.2", "9.9"),
    }
    said = interpret(files)
    assert [p.code for p in said["kustomization.yaml"].problems] == ["E_UNRESOLVED"]
    assert said["patch.yaml"].nodes == ()
    assert [e.end.name for e in edges(said["web.yaml"], "BUILDS")] == ["docker.io/acme/web:1.2"]
    plain = interpret({**files, "kustomization.yaml": "resources: [web.yaml]\n"})
    assert plain["kustomization.yaml"].problems == ()


def test_names_of_the_cluster_are_connections_and_others_are_not() -> None:
    env = (
        "          env:\n"
        "            - {name: A, value: 'http://front:80'}\n"
        "            - {name: B, value: 'redis://pod-0.cache.data.svc.cluster.local:6379'}\n"
        "            - {name: C, value: 'https://example.com/ mysql:3306'}\n"
        "            - {name: BASE_IMAGE, value: 'front:1'}\n"
    )
    said = one("a.yaml", f"{DEPLOYMENT}{env}---\n{SERVICE}")
    found = [(e.end.key, e.properties["protocol"], e.confidence) for e in edges(said, "CONNECTS_TO")]
    assert found == [
        (("src/default", "front"), "http", 0.9),
        (("src/data", "cache"), "redis", 0.9),
        (("src/default", "web"), "tcp", 1.0),
    ]


def test_secrets_are_not_read() -> None:
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {URL: 'http://front:80'}\n"
    env = "          envFrom: [{secretRef: {name: s}}, {configMapRef: {name: s}}]\n"
    said = one("a.yaml", f"{DEPLOYMENT}{env}{secret}---\n{SERVICE}")
    assert [e.method for e in edges(said, "CONNECTS_TO")] == ["kubernetes_selector"]


def test_broken_objects_cost_only_themselves() -> None:
    said = one(
        "a.yaml",
        f"{DEPLOYMENT}---\nkind: Service\n---\n[1]\n---\n{SERVICE.replace('80', '99999')}---\n{INGRESS}",
    )
    assert {e.type for e in said.edges} >= {"BUILDS", "ROUTES_TO", "CONNECTS_TO"}
    broken = one("b.yaml", f"{DEPLOYMENT}---\n a: [\n")
    assert broken.nodes == () and [p.code for p in broken.problems] == ["E_PARSE"]


@pytest.mark.needs("data")
def test_ingresses_of_traefiks_own_tests_are_routes_of_their_classes() -> None:
    folder = DATA / "traefik-configs" / "integration" / "fixtures" / "k8s"
    said = interpret({path.name: path.read_text() for path in sorted(folder.glob("*.yml"))}, proxy="edge")
    found = [
        (e.start.name, e.properties["host"], e.properties["path"], e.end.key, e.properties.get("port"))
        for name in ("03-ingress.yml", "08-ingressclass.yml")
        for e in edges(said[name], "ROUTES_TO")
    ]
    end = ("src/default", "whoami")
    assert found == [
        # Its port has a name, which a Service that is not here gives a number.
        ("edge", "whoami.test", "/whoami", end, None),
        ("traefik-keep", "whoami.test.keep", "/keep", end, 80),
        ("traefik-drop", "whoami.test.drop", "/drop", end, 80),
        ("traefik-not-ingress-controller", "whoami.test.not.ingress", "/ingress", end, 80),
    ]


@pytest.mark.needs("data")
def test_a_release_of_knative_is_read_among_its_resource_definitions() -> None:
    path = "traefik-configs/integration/fixtures/knative/03-knative-serving-v1.20.0.yaml"
    said = one("serving.yaml", (DATA / path).read_text())
    built = {e.start.name: e.end.name.rpartition("/")[2].partition("@")[0] for e in edges(said, "BUILDS")}
    assert built == {name: name for name in ("activator", "autoscaler", "controller", "webhook")}
    exposed = [e.end.name for e in edges(said, "EXPOSES_ENDPOINT")]
    assert [name for name in exposed if name.startswith("activator-service:")] == [
        f"activator-service:{port}" for port in (9090, 8008, 80, 81, 443)
    ]
    assert [shown(e) for e in edges(said, "CONNECTS_TO")] == [
        ("CONNECTS_TO", "activator-service", "activator")
    ]
    assert len(said.edges) == 18 and said.problems == ()


def test_a_host_with_a_variable_that_flux_puts_in_is_a_route_of_its_raw_name() -> None:
    backend = "{service: {name: git, port: {number: 3000}}}"
    said = one(
        "git.yaml",
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: git}\nspec:\n  rules:\n"
        "  - host: git.${SECRET_DOMAIN}\n"
        f"    http: {{paths: [{{path: /, pathType: Prefix, backend: {backend}}}]}}\n",
    )
    (route,) = edges(said, "ROUTES_TO")
    assert route.properties["host"] == "git.${SECRET_DOMAIN}"
    assert route.properties["unresolved"] == ["SECRET_DOMAIN"]
    assert [p.code for p in said.problems] == ["E_UNRESOLVED"]


def of_flux(kind: str, name: str, waits: str, namespace: str = "") -> str:
    group = {"HelmRelease": "helm.toolkit.fluxcd.io/v2", "Kustomization": "kustomize.toolkit.fluxcd.io/v1"}
    within = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: {group[kind]}\nkind: {kind}\nmetadata: {{name: {name}{within}}}\n"
        f"spec:\n  interval: 1h\n  dependsOn: {waits}\n"
    )


def test_what_flux_waits_for_is_needed() -> None:
    release = of_flux(
        "HelmRelease", "wiki", "[{name: cache}, {name: pg, namespace: data}, {name: wiki}]", "apps"
    )
    folder = of_flux("Kustomization", "apps", "[{name: storage, readyExpr: x}, {name: 'x-${CLUSTER}'}, {}]")
    said = one("all.yaml", f"{release}---\n{folder}")
    found = [(e.start.key, e.end.key, e.end_basis.value, e.properties) for e in edges(said, "DEPENDS_ON")]
    need = {"kind": "need", "condition": "ready"}
    assert found == [
        (("src/apps", "wiki"), ("src/apps", "cache"), "bytes", need),
        (("src/apps", "wiki"), ("src/data", "pg"), "bytes", need),
        (("src/default", "apps"), ("src/default", "storage"), "bytes", need),
    ]
    assert [n.node.name for n in said.nodes if n.declared] == ["wiki"]
    assert [p.code for p in said.problems] == ["E_UNRESOLVED"]


def test_a_kustomization_that_waits_for_nothing_and_waves_say_nothing() -> None:
    wave = "annotations: {argocd.argoproj.io/sync-wave: '1'}"
    application = (
        f"apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a, {wave}}}\nspec: {{}}\n"
    )
    said = one("all.yaml", f"{of_flux('Kustomization', 'apps', '[]')}---\n{application}")
    assert said.nodes == said.edges == said.problems == ()


VALUES = """\
image: {repository: "registry:5000/wiki", tag: v1}
imageRegistry: registry:5000
ingress: {host: wiki.example.org, className: traefik}
metrics: prometheus.watch.svc.cluster.local
database: {type: postgres, host: pg, user: cache, url: "postgres://u:p@pg.data.svc:5432/wiki"}
controllers:
  main:
    env: {DB_HOST: pg, DB_NAME: cache}
    extraEnv: [{name: MAILER, value: cache}, {name: BUILD_IMAGE, value: "cache:1"}]
config: |
  # host: nothing
  [mail]
  server = relay  # here
  image: "cache:2"
"""


def uses(said: Interpretation, files: Mapping[str, str]) -> set[tuple[str, str, float, str]]:
    quotes = ((u, files[u.evidence.path][u.evidence.start : u.evidence.end]) for u in said.uses)
    return {(u.host, u.method, u.confidence, quote) for u, quote in quotes}


#: The hosts that values name: by what, how sure that is, and what is quoted.
NAMED = {
    (ids.host_id(quote.partition(" ")[0]), "helm_value_host", sure, quote)
    for quote, sure in (
        ("prometheus.watch.svc.cluster.local", 0.9),
        ("wiki.example.org", 0.8),
        ("pg", 0.8),
        ("pg", 0.9),
        ("cache", 0.8),
        ("relay  # here", 0.8),
    )
} | {(ids.host_id("pg.data.svc"), "helm_value_url", 0.9, '"postgres://u:p@pg.data.svc:5432/wiki"')}


def test_values_of_a_release_are_connections_as_an_environment_is() -> None:
    values = "".join(f"    {line}\n" for line in VALUES.splitlines())
    release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n"
    release += "metadata: {name: wiki, namespace: flux}\nspec:\n"
    more = "metadata: {name: more, namespace: flux}"
    application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: wiki}\nspec:\n"
    application += "  destination: {namespace: apps}\n  source:\n   helm:\n    valuesObject:\n"
    files = {
        "release.yaml": f"{release}  targetNamespace: apps\n  values:\n{values}",
        "app.yaml": application + values.replace("    ", "      "),
        "from.yaml": f"{release}  valuesFrom: [{{kind: ConfigMap, name: more}}, {{kind: Secret, name: x}}]\n",
        "map.yaml": f"apiVersion: v1\nkind: ConfigMap\n{more}\ndata:\n  values.yaml: |\n{values}",
    }
    said = interpret(files)
    for name, scope, names in (
        ("release.yaml", "src/flux", ("wiki", "apps-wiki")),
        ("app.yaml", "src/apps", ("wiki",)),
    ):
        (edge,) = edges(said[name], "CONNECTS_TO")
        assert (edge.start.key, edge.end.key) == ((scope, "wiki"), ("src/data", "pg"))
        assert edge.properties == {"protocol": "postgres", "port": 5432} and edge.confidence == 0.9
        assert uses(said[name], files) == NAMED
        assert [n.node.key for n in said[name].nodes if n.declared] == [(scope, "wiki")]
        networks = {r.network: r.names for r in said[name].reaches}
        assert networks["src/apps.svc.cluster.local"] == names
    (edge,) = edges(said["from.yaml"], "CONNECTS_TO")
    assert edge.evidence.path == "map.yaml" and edge.end.name == "pg"


@pytest.mark.parametrize(
    ("kind", "group", "spec", "chart"),
    [
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chart: {spec: {chart: wiki}}", "wiki"),
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chart: {spec: {chart: ./charts/wiki/}}", "wiki"),
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chart: {spec: {chart: '${CHART}'}}", None),
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chartRef: {kind: OCIRepository, name: x}", None),
        ("Application", "argoproj.io/v1alpha1", "source: {chart: wiki, helm: {values: 'a: 1'}}", "wiki"),
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chartRef: {kind: OCIRepository, name: wikis}", "wiki"),
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", "chartRef: {name: wikis, namespace: far}", None),
        ("Application", "argoproj.io/v1alpha1", "sources: [{ref: x}, {chart: wiki, helm: {}}]", "wiki"),
    ],
)
def test_a_release_says_which_chart_it_installs(kind: str, group: str, spec: str, chart: str | None) -> None:
    repository = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: wikis}\n"
    repository += "spec: {url: oci://registry.example.org/charts/wiki/, ref: {tag: 1.2.3}}\n"
    files = {
        "one.yaml": f"apiVersion: {group}\nkind: {kind}\nmetadata: {{name: one}}\nspec:\n  {spec}\n",
        "two.yaml": repository,
    }
    (release,) = [n for n in interpret(files)["one.yaml"].nodes if n.declared]
    assert release.properties.get("chart") == chart


def test_values_of_a_chart_are_those_of_its_name_and_less_sure() -> None:
    files = {
        "wiki/Chart.yaml": "apiVersion: v2\nname: wiki\nversion: 1.0.0\n",
        "wiki/values.yaml": VALUES,
        "wiki/charts/inner/Chart.yaml": "apiVersion: v2\nname: inner\nversion: 1.0.0\n",
        "wiki/charts/inner/values.yaml": VALUES,
        "lib/Chart.yaml": "apiVersion: v2\nname: lib\ntype: library\nversion: 1.0.0\n",
        "lib/values.yaml": VALUES,
        "values.yaml": VALUES,
    }
    said = interpret(files)
    assert "wiki/values.yaml" not in said
    (edge,) = edges(said["wiki/Chart.yaml"], "CONNECTS_TO")
    assert (edge.start.key, edge.end.key, edge.confidence) == (
        ("src/default", "wiki"),
        ("src/data", "pg"),
        0.8,
    )
    wanted = {(host, method, 0.8, quote) for host, method, _, quote in NAMED}
    assert uses(said["wiki/Chart.yaml"], files) == wanted
    assert not any(n.declared for n in said["wiki/Chart.yaml"].nodes)
    rest = [one for name, one in said.items() if name != "wiki/Chart.yaml"]
    assert not any(one.edges or one.uses for one in rest)


#: Values in the form of the common library: two controllers, one of them by a service of its own, one off.
LIBRARY = """\
controllers:
  shop:
    containers:
      app:
        image: {repository: ghcr.io/acme/shop, tag: 2.1.0@sha256:AAAA}
        env:
          CACHE_URL: redis://shop-cache:6379
          WAREHOUSE: {value: "http://stock.goods:8081"}
      exporter: {image: {repository: acme/exporter, tag: "3"}}
  cache:
    type: statefulset
    containers: {main: {image: {repository: redis, tag: 7.2-alpine}}}
  old:
    enabled: false
    containers: {main: {image: {repository: acme/old, tag: "1"}}}
service:
  shop:
    type: LoadBalancer
    annotations: {metallb.io/loadBalancerIPs: 10.4.0.7}
    ports: {http: {port: &port 8080, protocol: HTTP}, admin: {enabled: false, port: 9000}}
  cache: {controller: cache, ports: {redis: {port: 6379}}}
ingress:
  main:
    className: inner
    hosts:
      - host: "{{ .Release.Name }}.example.com"
        paths: [{path: /, pathType: Prefix, service: {identifier: shop, port: http}}]
    tls: [{hosts: [shop.example.com]}]
route:
  out:
    hostnames: [buy.example.com, "${OTHER}"]
    parentRefs: [{name: edge, sectionName: https}]
    rules:
      - matches: [{path: {value: /v1}}, {path: {type: RegularExpression, value: "/v[2-3]"}}]
        backendRefs: [{identifier: shop, port: *port}]
  plain: {kind: TCPRoute, parentRefs: [{name: edge}], rules: [{backendRefs: [{name: other, port: 22}]}]}
""".replace("AAAA", "a" * 64)


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}" for line in text.splitlines(keepends=True))


def release_of(values: str, more: str = "") -> str:
    begin = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n"
    return f"{begin}metadata: {{name: shop, namespace: apps}}\nspec:\n{more}  values:\n{indented(values, 4)}"


def said_of(said: Interpretation, type_: str) -> set[tuple[object, ...]]:
    keys = ("host", "location", "path", "port", "tls", "scheme")
    return {
        (e.start.key[-1], e.end.key[-1], *(e.properties.get(k) for k in keys if k in e.properties))
        for e in edges(said, type_)
    }


def test_what_a_chart_of_the_common_library_brings_is_read_out_of_its_values() -> None:
    said = one("release.yaml", release_of(LIBRARY))
    images = {(e.start.key, e.end.name) for e in edges(said, "BUILDS")}
    assert {(key, name.split("@")[0]) for key, name in images} == {
        (("src/apps", "shop"), "ghcr.io/acme/shop:2.1.0"),
        (("src/apps", "shop"), "docker.io/acme/exporter:3"),
        (("src/apps", "shop-cache"), "docker.io/library/redis:7.2-alpine"),
    }
    declared = {n.node.key: n.properties for n in said.nodes if n.declared}
    assert set(declared) == {("src/apps", "shop"), ("src/apps", "shop-cache")}
    assert declared["src/apps", "shop"]["version"] == "2.1.0"
    assert declared["src/apps", "shop"]["port"] == 8080
    assert said_of(said, "CONNECTS_TO") == {("shop", "shop-cache", 6379)}
    assert [(u.method, u.port) for u in said.uses] == [
        ("kubernetes_env_url", 6379),
        ("kubernetes_env_url", 8081),
    ]
    assert {(e.start.name, e.end.key) for e in edges(said, "BINDS")} == {("shop", ("10.4.0.7",))}
    assert said_of(said, "ROUTES_TO") == {
        ("inner", "shop", "shop.example.com", "/", "/", 8080, True),
        ("edge", "shop", "buy.example.com", "/v1", "/v1", 8080, True),
        ("edge", "shop", "buy.example.com", "/v[2-3]", 8080, True),
        ("edge", "shop", "${OTHER}", "/v1", "/v1", 8080, True),
        ("edge", "shop", "${OTHER}", "/v[2-3]", 8080, True),
        ("edge", "other", 22, False),
    }
    assert {p.code for p in said.problems} == {"E_UNRESOLVED"}


def test_a_chart_with_a_dependency_says_what_a_release_with_its_values_says() -> None:
    chart = "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n"
    chart += "  - {name: app-template, version: 3.0.0}\n  - {name: other, alias: front, version: 1.0.0}\n"
    front = "front: {ingress: {enabled: true, hosts: [front.example.com]}}\n"
    files = {
        "shop/Chart.yaml": chart,
        "shop/values.yaml": f"app-template:\n{indented(LIBRARY, 2)}{front}",
    }
    said = interpret(files)["shop/Chart.yaml"]
    alone = one("release.yaml", release_of(LIBRARY))
    for type_ in ("BUILDS", "CONNECTS_TO", "BINDS"):
        assert said_of(said, type_) == said_of(alone, type_)
    more = {("src", "shop-front", "front.example.com", "/", False)}
    assert said_of(said, "ROUTES_TO") == said_of(alone, "ROUTES_TO") | more


SCAFFOLD = """\
image: {registry: ghcr.io, repository: acme/wiki, tag: 4.2.0}
service: {type: ClusterIP, port: 3000}
ingress:
  enabled: true
  className: nginx
  hosts:
    - host: wiki.example.com
      paths: [{path: /, pathType: ImplementationSpecific}]
  tls: [{hosts: [wiki.example.com]}]
server:
  ingress: {enabled: true, ingressClassName: nginx, hostname: admin.example.com, path: /admin}
metrics:
  image: {repository: acme/off, tag: "1"}
  ingress: {enabled: false, hosts: [off.example.com]}
"""


def test_what_helm_create_lays_out_is_read_at_the_top_and_of_components() -> None:
    said = one("release.yaml", release_of(SCAFFOLD))
    assert [(e.start.name, e.end.name) for e in edges(said, "BUILDS")] == [
        ("shop", "ghcr.io/acme/wiki:4.2.0")
    ]
    assert said_of(said, "ROUTES_TO") == {
        ("nginx", "shop", "wiki.example.com", "/", "/", 3000, True),
        ("nginx", "shop-server", "admin.example.com", "/admin", "/admin", False),
    }
    (exposes,) = edges(said, "EXPOSES_ENDPOINT")
    assert exposes.end.key == ("tcp", "shop", 3000, "/")


ROUTED = """\
httpRoute: {enabled: true, hostnames: [wiki.example.com], parentRefs: [{name: edge, sectionName: https}]}
service: {port: 3000}
server:
  route:
    main: {enabled: true, hostnames: ["a.example.com", "b.example.com"], parentRefs: [{name: inner}]}
    off: {enabled: false, hostnames: [c.example.com], parentRefs: [{name: inner}]}
    other: {enabled: true, receiver: chat}
alerts: {route: {receiver: chat, routes: [{receiver: mail}]}}
"""


def test_routes_of_the_gateway_api_in_values_of_any_chart_lead_to_what_they_are_of() -> None:
    assert said_of(one("release.yaml", release_of(ROUTED)), "ROUTES_TO") == {
        ("edge", "shop", "wiki.example.com", "/", 3000, True),
        ("inner", "shop-server", "a.example.com", "/", False),
        ("inner", "shop-server", "b.example.com", "/", False),
    }


@pytest.mark.parametrize(
    "values",
    [
        "ingress: {enabled: false, hosts: [x.example.com]}\nimage: {repository: acme/web}\n",
        "ingress: {hosts: [x.example.com]}\nservice: {type: ClusterIP}\n",
        "controllers: {a: {enabled: false, containers: {b: {image: {repository: x, tag: y}}}}}\n",
        "controllers: [a]\nservice: x\ningress: 3\nroute: {a: b}\n",
        "controllers: {a: {containers: {b: {image: {repository: '{{ x }}', tag: y}}}}}\n",
        "image: {repository: [], tag: {}}\nservice: {port: many, ports: [1]}\n",
    ],
)
def test_what_is_off_not_given_or_malformed_brings_nothing(values: str) -> None:
    said = one("release.yaml", release_of(values))
    assert not edges(said, "BUILDS") and not edges(said, "ROUTES_TO") and not edges(said, "EXPOSES_ENDPOINT")
    assert [n.node.key for n in said.nodes if n.declared][-1] in {("src/apps", "shop"), ("src/apps", "a")}


def test_a_route_of_the_gateway_api_is_one_of_its_gateways() -> None:
    text = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: apps}
spec:
  parentRefs: [{name: inner, namespace: net}, {name: mesh, kind: Service}]
  hostnames: [web.example.com]
  rules:
    - backendRefs: [{name: web, port: 80}, {name: store, kind: Bucket}, {name: b, namespace: back}]
"""
    said = one("route.yaml", text)
    found = [(e.start.key, e.end.key, e.properties.get("port")) for e in edges(said, "ROUTES_TO")]
    assert found == [(("inner",), ("src/apps", "web"), 80), (("inner",), ("src/back", "b"), None)]
    quotes = {text[e.evidence.start : e.evidence.end] for e in edges(said, "ROUTES_TO")}
    assert quotes == {"web.example.com"}


KUSTOMIZE = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: web, namespace: flux-system}
spec: {path: ./cluster/apps/web/app, targetNamespace: site}
"""


@pytest.mark.parametrize(
    ("more", "namespace"),
    [
        ({}, "default"),
        ({"apps/web/app/kustomization.yaml": f"{KUSTOMIZE}namespace: inner\n"}, "inner"),
        (
            {
                "apps/web/app/kustomization.yaml": f"{KUSTOMIZE}namespace: inner\n",
                "apps/web/kustomization.yaml": f"{KUSTOMIZE}namespace: outer\nresources: [./app]\n",
            },
            "outer",
        ),
        ({"apps/web/kustomization.yaml": f"{KUSTOMIZE}namespace: o\nresources: [app/ks.yaml]\n"}, "default"),
        ({"apps/kustomization.yaml": f"{KUSTOMIZE}namespace: o\nresources: [web/app/web.yaml]\n"}, "o"),
        ({"apps/kustomization.yaml": f"{KUSTOMIZE}namespace: o\nresources: [./web/app/]\n"}, "o"),
        ({"apps/kustomization.yaml": f"{KUSTOMIZE}namespace: o\nresources: [web/a]\n"}, "default"),
        ({"apps/web/app/kustomization.yaml": f"{KUSTOMIZE}namespace: '${{X}}'\n"}, "default"),
        ({"apps/web/app/kustomization.yaml": "namespace: [\n"}, "default"),
        (
            {
                "apps/web/ks.yaml": FLUX,
                "apps/web/app/kustomization.yaml": f"{KUSTOMIZE}namespace: inner\n",
            },
            "site",
        ),
        ({"apps/web/ks.yaml": FLUX.replace("web/app", "mail/app")}, "default"),
    ],
)  # fmt: skip
def test_what_names_no_namespace_is_in_that_of_its_folder(more: dict[str, str], namespace: str) -> None:
    said = interpret({"apps/web/app/web.yaml": DEPLOYMENT, **more})["apps/web/app/web.yaml"]
    assert [n.node.key for n in said.nodes if n.declared] == [(f"src/{namespace}", "web")]


BASE = {
    "web/base/kustomization.yaml": f"{KUSTOMIZE}resources: [web.yaml]\n",
    "web/base/web.yaml": DEPLOYMENT.replace("acme/web:1.2", "app"),
    "web/prod/kustomization.yaml": f"{KUSTOMIZE}namespace: prod\nresources: [../base]\n"
    "images: [{name: app, newName: acme/web, newTag: '7'}]\n",
    "web/dev/kustomization.yaml": f"{KUSTOMIZE}namespace: dev\nbases: [../base/]\n",
    "web/qa/kustomization.yaml": f"{KUSTOMIZE}namespace: qa\nresources: [../dev]\n",
}


def test_a_base_is_what_its_overlays_make_of_it() -> None:
    said = interpret(BASE)["web/base/web.yaml"]
    declared = {n.node.key for n in said.nodes if n.declared}
    assert declared == {("src/prod", "web"), ("src/qa", "web")}
    images = {e.start.key[0]: e for e in edges(said, "BUILDS")}
    assert {k: e.end.name for k, e in images.items()} == {
        "src/prod": "docker.io/acme/web:7",
        "src/qa": "docker.io/library/app:latest",
    }
    tag = images["src/prod"].evidence
    assert BASE[tag.path][tag.start : tag.end].strip("'") == "7"
    # A component that nothing names is no base, and one that is taken in by itself is where that says.
    alone = interpret({k: v for k, v in BASE.items() if "base/" in k})["web/base/web.yaml"]
    assert {n.node.key for n in alone.nodes if n.declared} == {("src/default", "web")}
    named = {**BASE, "web/base/web.yaml": DEPLOYMENT.replace("name: web}", "name: web, namespace: own}")}
    own = interpret(named)["web/base/web.yaml"]
    assert [n.node.key for n in own.nodes if n.declared] == [("src/own", "web")]


@pytest.mark.parametrize(
    ("image", "said", "runs"),
    [
        ("acme/web:1.2", "{name: acme/web, newTag: '3'}", "docker.io/acme/web:3"),
        ("host:5000/web:1.2", "{name: 'host:5000/web', newName: acme/web}", "docker.io/acme/web:1.2"),
        ("acme/web:1.2", "{name: web, newTag: '3'}", "docker.io/acme/web:1.2"),
    ],
)
def test_an_overlay_changes_images_by_their_whole_names(image: str, said: str, runs: str) -> None:
    overlay = f"{KUSTOMIZE}resources: [../base]\nnamespace: prod\nimages: [{said}]\n"
    files = {
        "web/base/kustomization.yaml": BASE["web/base/kustomization.yaml"],
        "web/base/web.yaml": DEPLOYMENT.replace("acme/web:1.2", f"'{image}'"),
        "web/prod/kustomization.yaml": overlay,
    }
    assert [e.end.name for e in edges(interpret(files)["web/base/web.yaml"], "BUILDS")] == [runs]


APPLICATION = "apiVersion: argoproj.io/v1alpha1\nkind: Application\n"
GENERATED = """\
  generators: {}
  template:
    metadata: {{name: "{}"}}
    spec:
      destination: {{namespace: "{}"}}
      source: {{path: "{}"}}
"""
SET = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: all}\nspec:\n"
FOUND = "[{git: {directories: [{path: cluster/apps/*}]}}]"
PLACED = {
    "Application": APPLICATION
    + "metadata: {name: web}\nspec: {destination: {namespace: site}, source: {path: cluster/apps/web}}\n",
    "several sources": APPLICATION + "metadata: {name: web}\nspec:\n  destination: {namespace: site}\n"
    "  sources: [{chart: x}, {path: ./apps/web/}]\n",
    "directories": SET + GENERATED.format(FOUND, "{{path.basename}}", "site", "{{path}}"),
    "templates of Go": SET + GENERATED.format(FOUND, "{{ .path.basename }}", "site", "{{ .path.path }}"),
    "a list": SET
    + GENERATED.format(
        "[{list: {elements: [{name: web, at: apps/web, ns: site}, {name: x, at: apps/x, ns: y}]}}]",
        "{{name}}",
        "{{ .ns }}",
        "{{at}}",
    ),
    "a product": SET
    + GENERATED.format(
        f"[{{matrix: {{generators: [{FOUND[1:-1]}, {{list: {{elements: [{{ns: site}}]}}}}]}}}}]",
        "{{path[2]}}",
        "{{ns}}",
        "{{path}}",
    ),
    "values of a chart": "argocd-apps:\n  applicationsets:\n    root:\n"
    + indented(GENERATED.format(FOUND, "{{path.basename}}", "site", "{{path}}"), 4),
}


@pytest.mark.parametrize("text", PLACED.values(), ids=PLACED)
def test_argo_cd_puts_manifests_and_charts_into_namespaces(text: str) -> None:
    """Paths are from the root of the repository, above that of the source."""
    files = {
        "system/argocd/values.yaml": text,
        "apps/web/web.yaml": DEPLOYMENT,
        "apps/web/more/front.yaml": SERVICE,
        "apps/other/web.yaml": DEPLOYMENT,
        "apps/web/Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
        "apps/web/values.yaml": "image: {repository: acme/web, tag: '1'}\nDB_HOST: pg\n",
    }
    said = interpret(files)
    for name, keys in (("web.yaml", "web"), ("more/front.yaml", "front")):
        assert [n.node.key for n in said[f"apps/web/{name}"].nodes if n.declared] == [("src/site", keys)]
    assert {u.service.key for u in said["apps/web/Chart.yaml"].uses} == {("src/site", "web")}
    (other,) = (n.node.key for n in said["apps/other/web.yaml"].nodes if n.declared)
    assert (other == ("src/site", "web")) == ("*" in text)


@pytest.mark.parametrize(
    "text",
    [
        SET + GENERATED.format("[{git: {directories: [{path: c/*/web}]}}]", "x", "site", "{{path}}"),
        SET + GENERATED.format(FOUND, "{{path.basename}}", "{{values.ns}}", "{{path}}"),
        SET
        + GENERATED.format(FOUND.replace("*}", "*}, {path: apps/web, exclude: true}"), "x", "y", "{{path}}"),
        SET + GENERATED.format("[{clusters: {}}, {matrix: {generators: 1}}]", "x", "site", "apps/{{name}}"),
        SET + GENERATED.format("[{list: {elements: [{ns: a}, {ns: b}]}}]", "x", "{{ns}}", "apps/web"),
        SET + "  generators: {}\n  template: 1\n",
        "applicationsets: [1]\napplications: 2\n",
        "applicationsets: [\n",
    ],
)
def test_what_argo_cd_does_not_say_of_one_namespace_is_in_none(text: str) -> None:
    """A folder run twice, one left out, wildcards beyond the source's root, and what only a cluster knows."""
    said = interpret({"argocd/all.yaml": text, "apps/web/web.yaml": DEPLOYMENT})["apps/web/web.yaml"]
    assert [n.node.key for n in said.nodes if n.declared] == [("src/default", "web")]


def test_values_of_an_application_may_be_a_text_or_a_file_of_another_source() -> None:
    values = "image:\n  repository: acme/wiki\n  tag: '2'\npostgresql:\n  enabled: true\nDB_HOST: pg\n"
    begins = APPLICATION + "metadata: {name: wiki}\nspec:\n  destination: {namespace: apps}\n"
    files = {
        "a.yaml": f"{begins}  source:\n    chart: wiki\n    helm:\n      values: |\n{indented(values, 8)}",
        "b.yaml": f"{begins}  sources:\n    - {{ref: own}}\n"
        "    - {chart: wiki, helm: {valueFiles: [$own/cluster/wiki/values.yaml, $own/none.yaml, x.yaml]}}\n",
        "wiki/values.yaml": values,
    }
    said = interpret(files)
    for name, at in (("a.yaml", "a.yaml"), ("b.yaml", "wiki/values.yaml")):
        built, needed = (edges(said[name], kind)[0] for kind in ("BUILDS", "DEPENDS_ON"))
        assert shown(built)[1:] == ("wiki", "docker.io/acme/wiki:2")
        assert (needed.end.key, needed.properties) == (("src/apps", "wiki-postgresql"), {"kind": "need"})
        assert built.evidence.path == needed.evidence.path == at
        quote = files[at][needed.evidence.start : needed.evidence.end]
        assert quote == "true" and {u.host for u in said[name].uses} == {ids.host_id("pg")}
    assert [p.code for p in said["b.yaml"].problems] == ["E_NOT_FOUND"]


def test_a_cluster_of_postgresql_answers_to_the_names_of_its_services() -> None:
    cluster = "apiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nmetadata: {name: pg, namespace: data}\n"
    cluster += 'spec: {instances: 3, imageName: "ghcr.io/cloudnative-pg/postgresql:17.5"}\n'
    said = one("pg.yaml", cluster)
    (node,) = (n for n in said.nodes if n.declared)
    assert node.node.key == ("src/data", "pg") and node.aliases == ("pg-rw", "pg-ro", "pg-r")
    assert node.properties["version"] == "17.5" and node.properties["port"] == 5432
    assert {n for r in said.reaches for n in r.names} >= {"pg-rw", "pg-ro.data", "pg-r.data.svc"}
    assert len(edges(said, "BUILDS")) == 1


NAMES = """
controllers containers initContainers image repository tag env args service ports port protocol primary
enabled ingress hosts host paths path identifier name route rules backendRefs parentRefs hostnames matches
nameOverride forceRename pod hostNetwork defaultPodOptions a main tls value
"""
KEYS = st.sampled_from(re.findall(r"\w+", NAMES))
TEXTS = st.sampled_from(["", "a", "x.example.com", "{{ x }}", "${y}", "/"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-1, 70000), TEXTS)
ANY_VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


@given(ANY_VALUES)
def test_any_values_are_read_and_what_they_say_follows_the_model(values: object) -> None:
    """``one`` checks each claim against the model and its quote; nothing is E_INTERNAL."""
    for kind in (
        {"controllers": {"main": {"containers": {"a": values}}}, "service": values, "route": values},
        {"ingress": values, "service": values, "image": values},
        values,
    ):
        written = yaml.safe_dump({"values": kind}, sort_keys=False)
        said = one("release.yaml", release_of("", "").replace("  values:\n", indented(written, 2)))
        assert "E_INTERNAL" not in {p.code for p in said.problems}


def test_a_route_of_a_thousand_hosts_paths_and_backends_takes_bounded_time() -> None:
    hosts = ", ".join(f"h{n}.example.com" for n in range(1000))
    matches = ", ".join(f"{{path: {{value: /p{n}}}}}" for n in range(1000))
    backends = ", ".join(f"{{name: b{n}}}" for n in range(1000))
    said = one(
        "route.yaml",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\n"
        f"spec:\n  parentRefs: [{{name: edge}}]\n  hostnames: [{hosts}]\n"
        f"  rules: [{{matches: [{matches}], backendRefs: [{backends}]}}]\n",
    )
    assert len(edges(said, "ROUTES_TO")) <= 30_000
    assert "E_TOO_LARGE" in {p.code for p in said.problems}
