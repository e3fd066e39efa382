"""Values of configuration files: key path, value and place, of every format."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.answering.words import one_off
from taboot_pipelines.retrieval.queries.config_files import ConfigFile, config_entries, read
from taboot_pipelines_tests.world import World

YAML, NGINX, INI, TOML, JSON = (
    "application/yaml",
    "text/x-nginx-conf",
    "text/x-ini",
    "application/toml",
    "application/json",
)


def values(file: ConfigFile) -> dict[str, tuple[str, int]]:
    return {v.key: (v.value, v.line) for v in file.values}


@pytest.mark.parametrize("text", ["- LOG_LEVEL\n- other\n", "LOG_LEVEL\n", '["LOG_LEVEL"]'])
def test_what_has_no_key_is_no_value_and_no_question_fails_of_it(text):
    assert all(value.path for value in read("d", "list.yaml", YAML, text).values)


def test_compose_values_have_the_keys_by_which_people_name_them():
    text = """\
services:
  app:
    environment:
      - TZ=Europe/Berlin   # where the house is
      - "MODE=a=b"
    command: ["serve", "--max", "5", "--level=info"]
    env:
      ARGS: --keep-daily 7 --tag x
    # the metrics
    ports: ["9000:9000"]
    token: *********
    volumes:
      - ./a:/b
      - data:/c:ro
  other:
    extends: {file: ../base.yaml, service: base}
"""
    file = read("d", "compose.yaml", YAML, text)
    found = values(file)
    assert found["services.app.environment.TZ"] == ("Europe/Berlin", 4)
    assert found["services.app.environment.MODE"] == ("a=b", 5)
    assert found["services.app.command.--max"] == ("5", 6)
    assert found["services.app.command.--level"] == ("info", 6)
    assert found["services.app.env.ARGS.--keep-daily"] == ("7", 8)
    assert [v.value for v in file.values if v.key == "services.app.volumes"][1:] == ["./a:/b", "data:/c:ro"]
    assert file.extends == {"other": ("../base.yaml", "base")}
    comments = {v.key: v.comment for v in file.values}
    assert comments["services.app.environment.TZ"] == "where the house is"
    assert comments["services.app.ports"] == "the metrics"
    assert set(found["services.app.token"][0]) == {"•"}, "a masked value is no alias of YAML"
    for value in file.values:
        assert text.count("\n", 0, value.start) + 1 == value.line


def test_nginx_values_stand_under_their_blocks():
    text = """\
server {
    listen 443 ssl;
    server_name app.*;
    location /api {
        set $upstream_port 8080;  # the second port
        proxy_read_timeout 60s;
    }
}
"""
    found = values(read("d", "app.conf", NGINX, text))
    assert found["server app.*.listen"] == ("443 ssl", 2)
    assert found["server app.*.location /api.set.upstream_port"] == ("8080", 5)
    assert found["server app.*.location /api.proxy_read_timeout"] == ("60s", 6)


@pytest.mark.parametrize("mime", [INI, TOML])
def test_sections_lead_to_their_values(mime):
    text = '; kept\ntop = 1\n[server]\n# a remark\nport = 8080\nname = "x"\n'
    assert values(read("d", "a.ini", mime, text)) == {
        "top": ("1", 2),
        "server.port": ("8080", 5),
        "server.name": ("x", 6),
    }


def test_json_is_read_with_its_lines():
    assert values(read("d", "a.json", JSON, '{"a":\n {"b": 5}}'))["a.b"] == ("5", 2)


@pytest.mark.parametrize(
    "text", ["a: [", "\t- x: y", "a: &a [*a]", "{" * 5000, "server {" * 5000, "\x00", "'"]
)
@pytest.mark.parametrize("mime", [YAML, NGINX, INI, JSON])
def test_a_broken_file_gives_what_can_be_read_and_never_raises(mime, text):
    read("d", "x", mime, text)


scalars = st.text("abcdefgh0123", min_size=1, max_size=6)
trees = st.recursive(
    scalars, lambda inner: st.dictionaries(scalars, inner, min_size=1, max_size=4), max_leaves=12
)


@given(st.dictionaries(scalars, trees, min_size=1, max_size=4))
def test_every_scalar_of_a_mapping_is_found_at_its_path(tree):
    def walk(node, path):
        if isinstance(node, dict):
            for key, value in node.items():
                yield from walk(value, (*path, key))
        else:
            yield path, node

    file = read("d", "x.yaml", YAML, yaml.safe_dump(tree, default_style='"'))
    assert {(v.path, v.value) for v in file.values} == set(walk(tree, ()))


@given(st.text("abcde", min_size=5, max_size=9), st.integers(0, 8), st.sampled_from("xyz"))
def test_one_slip_is_seen_and_two_are_not(word, at, letter):
    at %= len(word)
    assert one_off(word, word[:at] + letter + word[at:])
    assert one_off(word, word[:at] + word[at + 1 :])
    assert one_off(word, word[:at] + letter + word[at + 1 :])
    assert not one_off(word, word)
    assert not one_off(word, letter + word + letter)


PLAYBOOK = """\
- hosts: all
  vars:
    exporter_port: "9100"
  tasks:
    - name: start it
      docker_container:
        image: "quay.io/acme/exporter:{{ exporter_version }}"
        published: "{{ exporter_port }}:{{ exporter_port }}"
        level: "{{ unknown }}"
        token: "{{ exporter_token }}"
        several: "{{ twice }}"
"""


def test_variables_of_templates_are_told_by_what_ansible_reads(world: World) -> None:
    source = world.source("house", interpret=True)
    files = {
        "play.yml": PLAYBOOK,
        "group_vars/all.yml": 'exporter_version: v1.8.2\nexporter_port: "1"\nexporter_token: "********"\n',
        "host_vars/nas.yml": "twice: a\n",
        "roles/x/defaults/main.yml": "twice: b\n",
        "notes/other.yml": "unknown: c\n",
    }
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    world.ingest()
    entries = config_entries(world.kb()._session.view())
    (play,) = (d for d in entries.house.documents.values() if d.path == "play.yml")
    shown = {e.value.path[-1]: e for e in entries.of_document(play.doc_id)}
    assert shown["image"].shown == "quay.io/acme/exporter:v1.8.2"
    assert [entries.house.documents[s.doc_id].path for s in shown["image"].also] == ["group_vars/all.yml"]
    # What the file itself sets goes before what holds for all.
    assert shown["published"].shown == "9100:9100"
    for name in ("level", "token", "several"):
        assert "{{" in shown[name].shown, name
