"""Ingress rules of Cloudflare Tunnels as routes."""

from __future__ import annotations

import pytest

from taboot_pipelines_tests.extraction.tier_a.proxies.reading import auths, codes, interpret, quotes, rows

RULES = """
    tunnel: house
    credentials-file: /etc/cloudflared/house.json
    originRequest:
      access: {required: true, teamName: us}
    ingress:
      # Public names.
      - hostname: git.example.com
        service: http://gitea:3000
        originRequest:
          access:
            required: false
      - hostname: "*.example.com"
        path: \\.(jpg|png)$
        service: https://10.0.0.5
      - hostname: shell.example.com
        service: ssh://box.lan
      - hostname: hello.example.com
        service: hello_world
      - hostname: open.example.com
        service: http://$BACKEND:${PORT}
      - service: http_status:404
"""


def test_rules_are_routes_of_the_tunnel_by_its_own_name() -> None:
    said = interpret({"cloudflared/config.yml": RULES}, "cloudflared/config.yml", proxy="traefik")
    assert rows(said) == {
        ("git.example.com", None, "/", True, "http gitea:3000"),
        ("*.example.com", r"\.(jpg|png)$", None, True, "https 10.0.0.5:443"),
        ("shell.example.com", None, "/", True, "tcp box.lan:22"),
    }
    (proxy,) = {e.start for e in said.edges if e.type == "ROUTES_TO"}
    (node,) = [n for n in said.nodes if n.node == proxy]
    assert proxy.name == "house" and node.properties["type"] == "cloudflared"
    assert auths(said) == {"gitea": ("none", None)} and codes(said) == ["E_UNRESOLVED"]
    guarded = {n.node.key[1]: n.properties["authRequired"] for n in said.nodes if n.node.label == "Endpoint"}
    assert guarded == {"gitea": False, "10.0.0.5": True, "box.lan": True}
    assert "http://gitea:3000" in quotes(said, {"cloudflared/config.yml": RULES})


def test_what_the_api_tells_of_a_tunnel_is_read_alike() -> None:
    answer = """{"success": true, "result": {"tunnel_id": "c1744f8b-faa1-48a4-9e5c-02ac921467fa", "config": {
        "ingress": [{"hostname": "a.example.com", "service": "http://a:80", "id": "0"},
                    {"service": "http_status:404"}]}}}"""
    said = interpret({"tunnel.json": answer}, "tunnel.json")
    assert rows(said) == {("a.example.com", None, "/", True, "http a:80")}
    assert {e.start.name for e in said.edges if e.type == "ROUTES_TO"} == {
        "c1744f8b-faa1-48a4-9e5c-02ac921467fa"
    }


@pytest.mark.parametrize(
    "text",
    [
        "ingress:\n  enabled: true\n  hosts:\n    - host: a.lan\n",
        "tunnel: house\nother:\n  - service: x\n",
        "ingress:\n  - service: http://a:80\n    hostname: a.lan\n",
    ],
)
def test_other_files_with_such_keys_are_none(text: str) -> None:
    assert interpret({"values.yaml": text}, "values.yaml").format == ""
