"""Every secret setting planted, every server unreachable or hostile: no secret in logs, in Dagster's storage,
on the terminal.

The hostile server sends back what it was sent: credentials come back as the server's own words, in whatever
error they end.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest import mock

import pytest
from pydantic import BaseModel, SecretStr

from taboot_pipelines.cli import main
from taboot_pipelines.defs import materialize
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import SOURCE_KINDS
from taboot_pipelines.stores.catalog import database
from taboot_pipelines.stores.leases import postgres as leases
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, holding

PLANTED = "planted"


def _servers() -> dict[str, str]:
    """The servers of the settings at ``{at}``, each with its secrets planted, waited for briefly.

    The embedder is a scenario of its own, since nothing behind it is asked where it fails.
    """
    bounds = {"timeout_seconds": "2", "max_retries": "0"}
    found = {}
    for group, its in Settings.model_fields.items():
        fields = getattr(its.annotation, "model_fields", {})
        if "url" not in fields or group == "tei":
            continue
        for name, field in fields.items():
            secret = (
                f"planted-{group}-{name}" if SecretStr in getattr(field.annotation, "__args__", ()) else None
            )
            if value := "http://{at}" if name == "url" else secret or bounds.get(name):
                found[f"TABOOT_{group}__{name}".upper()] = value
    return found


#: What each scenario sets; ``{at}`` is host and port of the server that does not do what it should.
#: ``planted-…`` may not be seen.
SCENARIOS: dict[str, dict[str, str]] = {
    "catalog": {
        "TABOOT_CATALOG_URL": "postgresql+psycopg://taboot:planted-catalog@{at}/taboot",
        "TABOOT_CATALOG_ADMIN_URL": "postgresql+psycopg://owner:planted-admin@{at}/taboot",
    },
    "object store": {
        "TABOOT_TABLE_URL": "s3://bucket/tables",
        "TABOOT_STORAGE__ENDPOINT": "http://{at}",
        "TABOOT_STORAGE__REGION": "us-east-1",
        "TABOOT_STORAGE__ACCESS_KEY_ID": "planted-access-key",
        "TABOOT_STORAGE__SECRET_ACCESS_KEY": "planted-secret-key",
        "TABOOT_STORAGE__MAX_RETRIES": "0",
        "TABOOT_STORAGE__TIMEOUT_SECONDS": "2",
    },
    "embedder": {
        "TABOOT_TEI__URL": "http://{at}",
        "TABOOT_TEI__API_KEY": "planted-tei-key",
        "TABOOT_TEI__MAX_RETRIES": "0",
        "TABOOT_TEI__TIMEOUT_SECONDS": "2",
    },
    "embedder by OpenAI's API": {
        "TABOOT_EMBEDDING__OPENAI__URL": "http://{at}",
        "TABOOT_EMBEDDING__OPENAI__MODEL": "m",
        "TABOOT_EMBEDDING__OPENAI__API_KEY": "planted-openai-key",
        "TABOOT_EMBEDDING__OPENAI__MAX_RETRIES": "0",
        "TABOOT_EMBEDDING__OPENAI__TIMEOUT_SECONDS": "2",
    },
    "servers": {
        **_servers(),
        "TABOOT_NEO4J__URL": "bolt://{at}",
        "TABOOT_REDIS__URL": "redis://user:planted-redis-pw@{at}/0",
        "TABOOT_LLM__URL": "http://{at}/v1",
        "TABOOT_EXECUTOR": "celery",
        "TABOOT_CELERY__BROKER": "redis://:planted-broker-pw@{at}/1",
        "TABOOT_MCP__TOKEN": "planted-token-of-assistants-0123456789",
        "TABOOT_SERVE__TOKEN": "planted-token-of-programs-0123456789",
        "TABOOT_CELERY__BACKEND": "redis://:planted-backend-pw@{at}/2",
    },
    # Where no credentials belong, and operators put them all the same.
    "user parts": {
        "TABOOT_QDRANT__URL": "http://me:planted-1@{at}",
        "TABOOT_NEO4J__URL": "bolt://me:planted-2@{at}",
        "TABOOT_LLM__URL": "http://me:planted-3@{at}/v1",
        "TABOOT_RERANKER__URL": "http://me:planted-4@{at}",
        "TABOOT_TEI__URL": "http://me:planted-5@{at}",
        "TABOOT_BLOB_URL": "s3://me:planted-6@bucket/x",
        "TABOOT_TEI__MAX_RETRIES": "0",
        "TABOOT_NEO4J__TIMEOUT_SECONDS": "1",
    },
    # A bare slash or hash in a password breaks the URL for every parser, and parsers like to quote where it
    # broke.
    "broken URLs": {
        "TABOOT_REDIS__URL": "redis://:planted/a#b@{at}/0",
        "TABOOT_CATALOG_URL": "postgresql+psycopg://taboot:planted/c#d@{at}:e/taboot",
        "TABOOT_CELERY__BROKER": "redis://:planted/f#g@{at}/0",
        "TABOOT_EXECUTOR": "celery",
    },
}


#: Entries of sources with an API at ``{at}``; each secret is in the variable of its name.
APIS: dict[str, dict[str, object]] = {
    "github": {"repositories": ["a/b"], "base_url": "http://{at}", "token_env": "PLANT_GITHUB"},
    "reddit": {
        "subreddits": ["homelab"],
        "base_url": "http://{at}",
        "token_url": "http://{at}/token",
        "client_id_env": "PLANT_REDDIT_ID",
        "client_secret_env": "PLANT_REDDIT",
        "user_agent": "linux:test:1.0 (by /u/nobody)",
    },
    "youtube": {
        "playlists": ["PLplanned"],
        "base_url": "http://{at}",
        "api_url": "http://{at}",
        "key_env": "PLANT_YOUTUBE",
    },
    "gmail": {
        "base_url": "http://{at}",
        "token_url": "http://{at}/token",
        "client_id_env": "PLANT_GMAIL_ID",
        "client_secret_env": "PLANT_GMAIL",
        "refresh_token_env": "PLANT_GMAIL_REFRESH",
    },
    "elasticsearch": {
        "base_url": "http://{at}",
        "index": ["logs-*"],
        "username": "reader",
        "password_env": "PLANT_ELASTICSEARCH",
    },
    "tailscale": {"base_url": "http://{at}", "token_env": "PLANT_TAILSCALE"},
    "runtime": {"base_url": "http://{at}", "token_env": "PLANT_RUNTIME"},
    "unifi": {
        "base_url": "http://{at}",
        "flavor": "classic",
        "username": "reader",
        "password_env": "PLANT_UNIFI",
    },
}


@contextmanager
def echo() -> Iterator[str]:
    """Host and port of a server that answers every connection with what it was sent, in an error's
    clothes.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection:
                connection.settimeout(3)
                try:
                    told = connection.recv(65536)
                    if told.split(b" ", 1)[0] in (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE"):
                        body = b'{"error": ' + json.dumps(told.decode("latin-1")).encode() + b"}"
                        told = (
                            b"HTTP/1.1 401 "
                            + told.split(b"\r\n", 1)[0]
                            + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
                            + body
                        )
                    elif told.startswith(b"*"):
                        told = b"-ERR " + told.replace(b"\r\n", b" ") + b"\r\n"
                    connection.sendall(told)
                except OSError:
                    return

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def closed() -> Iterator[str]:
    yield "127.0.0.1:1"


def test_every_secret_setting_is_planted() -> None:
    def secret(model: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            kinds = getattr(field.annotation, "__args__", (field.annotation,))
            if SecretStr in kinds:
                yield f"{prefix}{name.upper()}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield from secret(field.annotation, f"{prefix}{name.upper()}__")

    assert set(secret(Settings, "TABOOT_")) <= {
        n for scenario in SCENARIOS.values() for n, v in scenario.items() if PLANTED in v
    }


@pytest.mark.slow
@pytest.mark.parametrize("server", [closed, echo])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_secret_is_seen_whatever_a_server_does(
    world: World, tei: FakeTei, monkeypatch: pytest.MonkeyPatch, scenario: str, server: object
) -> None:
    (world.source("guides") / "guide.md").write_text(
        "# Guide\n\nThe web server keeps its sessions in cache.\n"
    )
    # One further try shows how a retry is stored; the waits of more, and for a database to come back, would
    # only take time.
    monkeypatch.setattr(materialize, "MAX_RETRIES", 1 if scenario == "embedder" and server is closed else 0)
    for module in (database, leases):
        monkeypatch.setattr(module, "OUTAGE_SECONDS", 1.0)
    seen: dict[str, str] = {}
    with server() as at:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_", "AWS_"))},
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": world.tei,
            "TABOOT_LOG__FORMAT": "json",
            "TABOOT_LOG__LEVEL": "DEBUG",
            **{name: value.replace("{at}", at) for name, value in SCENARIOS[scenario].items()},
        }
        if "TABOOT_EMBEDDING__OPENAI__URL" in environment:
            del environment["TABOOT_TEI__URL"]
        for arguments in (
            ("ingest",),
            ("status", "--json"),
            ("status",),
            ("ask", "Where does the web server keep its sessions?"),
        ):
            out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
            with (
                mock.patch.dict(os.environ, environment, clear=True),
                redirect_stdout(out),
                redirect_stderr(err),
                pytest.raises(SystemExit) as end,
            ):
                main(arguments)
                sys.exit(0)
            seen[" ".join(arguments[:2])] = (
                f"{end.value.code}\n{out.buffer.getvalue().decode()}\n{err.getvalue()}"
            )
            assert "E_INTERNAL" not in seen[" ".join(arguments[:2])], seen
    assert seen["status"].startswith("1\n"), seen["status"]
    assert {name: text for name, text in seen.items() if PLANTED in text} == {}
    assert holding(world.home, PLANTED) == []


def test_every_type_with_a_secret_is_planted() -> None:
    named = {
        type_
        for type_, kind in SOURCE_KINDS.items()
        if any(field.endswith("_env") for field in kind.entry.model_fields)
    }
    assert named == set(APIS)


@pytest.mark.slow
@pytest.mark.parametrize("server", [closed, echo])
def test_no_credential_of_a_source_is_seen_whatever_its_api_does(world: World, server: object) -> None:
    (world.source("guides") / "guide.md").write_text("# Guide\n\nThe web server keeps sessions in cache.\n")
    seen: dict[str, str] = {}
    with server() as at:
        for type_, fields in APIS.items():
            told = {k: v.replace("{at}", at) if isinstance(v, str) else v for k, v in fields.items()}
            world.source(type_, type_, path=None, **told)
        variables = {
            value: f"{PLANTED}-{value.lower()}"
            for fields in APIS.values()
            for name, value in fields.items()
            if name.endswith("_env") and isinstance(value, str)
        }
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": world.tei,
            "TABOOT_LOG__FORMAT": "json",
            "TABOOT_LOG__LEVEL": "DEBUG",
            **variables,
        }
        for arguments in (("ingest",), ("status",), *(("plan", type_) for type_ in APIS)):
            out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
            with (
                mock.patch.dict(os.environ, environment, clear=True),
                redirect_stdout(out),
                redirect_stderr(err),
                pytest.raises(SystemExit),
            ):
                main(arguments)
                sys.exit(0)
            seen[" ".join(arguments)] = f"{out.buffer.getvalue().decode()}\n{err.getvalue()}"
    assert {name: text for name, text in seen.items() if PLANTED in text or "E_INTERNAL" in text} == {}
    assert holding(world.home, PLANTED) == []
    for type_ in APIS:
        assert "E_" in seen[f"plan {type_}"], "each was asked, and said why it failed"


def test_the_stages_of_an_ingest_are_logged_once_each(world: World) -> None:
    (world.source("guides") / "guide.md").write_text(
        "# Guide\n\nThe web server keeps its sessions in cache.\n"
    )
    (world.directory / "guides" / "bad.md").write_bytes(b"\x00\x01\x02")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
        "TABOOT_LOG__FORMAT": "json",
    }
    err = io.StringIO()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit),
    ):
        main(["ingest"])
    from taboot_pipelines.stages.chain import CHAIN

    told = [json.loads(line) for line in err.getvalue().splitlines()]
    for what in ("stage begins", "stage ends"):
        records = [t for t in told if t["message"] == what]
        assert [t["stage"] for t in records] == list(dict.fromkeys(t["stage"] for t in records)) and {
            t["stage"] for t in records
        } == set(CHAIN.names)
        assert {t["source"] for t in records} == {"guides"}
        # The command line's ingest is no run of Dagster's.
        assert not any("run" in t for t in records)
    ends = {t["stage"]: t for t in told if t["message"] == "stage ends"}
    assert (
        ends["raw_blobs"]["counts"]["discovered"] == 2
        and ends["raw_blobs"]["namespace"] == "default"
        and ends["raw_blobs"]["seconds"] >= 0
    )
    (problem,) = [t for t in told if "document" in t]
    assert (
        problem["message"] == "E_BINARY" and problem["level"] == "WARNING" and "bad.md" not in err.getvalue()
    )
