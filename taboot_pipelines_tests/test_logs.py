"""Log records: their context, their two forms, and that no secret is in one, wherever it came from."""

from __future__ import annotations

import io
import json
import logging
from contextlib import redirect_stderr
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines import logs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import RedisSettings, Settings, load_settings

LOG = logging.getLogger("taboot_pipelines.somewhere")


def written(settings: Settings, *, quiet: bool = False) -> tuple[io.StringIO, Any]:
    err = io.StringIO()
    with (
        redirect_stderr(err),
        logs.writing(settings, quiet=quiet),
        logs.bind(run="r-1", source="guides", stage=None),
    ):
        LOG.info("stage ends", extra={"counts": {"new": 2}, "seconds": 0.5, "document": "d-1"})
        LOG.debug("not asked for")
        try:
            raise ValueError("broken")
        except ValueError:
            LOG.exception("it failed\nbadly")
    return err, err.getvalue().splitlines()


def test_json_is_one_object_a_line_with_its_context() -> None:
    _, (first, second) = written(load_settings(log={"format": "json"}))
    told = json.loads(first)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "INFO",
        "logger": "taboot_pipelines.somewhere",
        "message": "stage ends",
        "run": "r-1",
        "source": "guides",
        "document": "d-1",
        "counts": {"new": 2},
        "seconds": 0.5,
    }
    told = json.loads(second)
    assert (
        told["message"] == "it failed\nbadly"
        and "ValueError: broken" in told["exception"]
        and told["run"] == "r-1"
    )


def test_text_is_one_line_a_record() -> None:
    _, (first, second, *trace) = written(load_settings())
    assert (
        first.split(" ", 1)[1]
        == 'INFO stage ends run=r-1 source=guides document=d-1 counts={"new": 2} seconds=0.5'
    )
    assert second.split(" ", 1)[1] == "ERROR it failed�badly run=r-1 source=guides" and trace[0].startswith(
        "Traceback"
    )


def test_what_is_bound_ends_with_its_block_and_inner_blocks_add_to_it() -> None:
    err = io.StringIO()
    with redirect_stderr(err), logs.writing(load_settings(log={"format": "json"})):
        with logs.bind(source="a"):
            with logs.bind(stage="chunks", source="b"):
                LOG.info("1")
            LOG.info("2")
        LOG.info("3")
    assert [
        {k: v for k, v in json.loads(line).items() if k in ("source", "stage")}
        for line in err.getvalue().splitlines()
    ] == [{"source": "b", "stage": "chunks"}, {"source": "a"}, {}]


def test_nothing_is_written_outside_and_a_terminal_stays_quiet_unless_somebody_asks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    err = io.StringIO()
    with redirect_stderr(err):
        LOG.error("before")
        with logs.writing(load_settings(), quiet=True):
            LOG.error("quiet")
        with logs.writing(load_settings(log={"level": "WARNING"}), quiet=True):
            LOG.warning("asked for")
            with logs.writing(load_settings(log={"level": "DEBUG"})):
                LOG.info("the outer block decides")
            LOG.warning("still")
            logging.getLogger("neo4j.session").warning("theirs")
            logging.getLogger("httpx").info("each request")
        LOG.error("after")
    assert [line.split()[2] for line in err.getvalue().splitlines()] == ["asked", "still", "theirs"]
    # Python's own logging has the rest, and none of what was written.
    assert [r.message for r in caplog.records] == ["before", "after"]
    assert LOG.parent is not None and logging.getLogger("taboot_pipelines").handlers == []


def test_a_record_that_does_not_fit_its_arguments_is_written_as_it_is() -> None:
    err = io.StringIO()
    with redirect_stderr(err), logs.writing(load_settings()):
        LOG.warning("%d of %d", "one")
    assert "%d of %d" in err.getvalue() and "Traceback" not in err.getvalue()


secrets = st.text(st.characters(codec="utf-8"), min_size=6, max_size=24).filter(
    lambda s: s.strip() and not set(s) <= set("*. ")
)


@given(
    secret=secrets,
    form=st.sampled_from(["text", "json"]),
    where=st.sampled_from(["message", "argument", "extra", "nested", "exception", "cause", "key"]),
    spelling=st.sampled_from([str, quote, quote_plus, repr, json.dumps, lambda s: quote(s, safe="")]),
)
def test_no_record_holds_a_secret(secret: str, form: Any, where: str, spelling: Any) -> None:
    settings = load_settings(tei={"api_key": secret}, log={"format": form})
    words = f"the server said <{spelling(secret)}> and no more"
    error: TabootError | ValueError = ValueError(words)
    if where == "cause":
        error = TabootError("E_EMBEDDER", "It failed.")
        error.__cause__ = ValueError(words)
    record = logging.LogRecord(
        "taboot_pipelines.x",
        logging.ERROR,
        __file__,
        1,
        words if where == "message" else "said %s",
        (words,) if where == "argument" else ("nothing",) if where != "message" else (),
        (type(error), error, None) if where in ("exception", "cause") else None,
    )
    if where in ("extra", "nested", "key"):
        record.told = {"extra": words, "nested": {"of": [words]}, "key": {words: 1}}[where]
    line = logs.Formatter(settings).format(record)
    shown = json.dumps(json.loads(line), ensure_ascii=False) if form == "json" else line
    for spelled in (
        secret,
        quote(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    ):
        assert f"<{spelled}>" not in shown and f"<{json.dumps(spelled)[1:-1]}>" not in shown
    assert logs.MASK in shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa/ss#word?x@redis.lan:6379/0",
        "redis://user:pa%2Fss%23word%3Fx@redis.lan:6379/0",
        "postgresql+psycopg://u:pa@ss@word@db:5432/taboot",
        "postgresql+psycopg://u:top-secret-pw@db:5432/taboot?sslmode=require",
    ],
)
def test_passwords_of_urls_are_secrets_whole_and_in_the_pieces_a_parser_quotes(url: str) -> None:
    # Not by load_settings, which refuses an address that is none.
    redact = logs.Redaction(Settings(redis=RedisSettings(url=SecretStr(url))))
    pieces = {
        "redis://:pa/ss#word?x": ["pa/ss#word?x", "ss#word", "word"],
        "redis://user": ["pa/ss#word?x"],
        "postgresql+psycopg://u:pa": ["pa@ss@word", "word"],
    }
    found = next((v for k, v in pieces.items() if url.startswith(k)), ["top-secret-pw"])
    for piece in [url, *found]:
        assert piece not in redact(f"cannot use '{piece}' as a port"), piece
    assert "redis.lan" not in redact(url)


def test_the_user_part_of_any_url_is_masked_and_ordinary_text_is_not() -> None:
    redact = logs.Redaction(load_settings())
    assert redact("GET http://user:pw@example.org/a?b=c failed") == "GET http://***@example.org/a?b=c failed"
    for harmless in (
        "mail me@example.org",
        "http://example.org/@user",
        "12:30 a@b",
        "s3://bucket/key",
        "https://example.org:8080/x?u=a@b",
    ):
        assert redact(harmless) == harmless


def test_an_error_is_kept_without_its_secrets_and_without_what_lay_behind_it() -> None:
    settings = load_settings(neo4j={"password": "planted-pw"})
    try:
        try:
            raise OSError("planted-pw")
        except OSError as cause:
            raise TabootError(
                "E_NEO4J", "planted-pw is wrong.", at="bolt://neo4j:planted-pw@db", rows=["planted-pw", 3]
            ) from cause
    except TabootError as error:
        kept = logs.redacted(error, settings)
    assert (
        kept.code == "E_NEO4J"
        and "planted-pw" not in str(kept) + str(kept.details)
        and kept.__cause__ is None
        and kept.__context__ is None
    )
    assert kept.details["rows"] == ["***", 3]
