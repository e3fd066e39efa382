"""``capture``: what one page looks like, prints like, and answers to a script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import emit_json, json_option, plain
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.crawl.captures import Capture, Captured, PageReply
    from taboot_pipelines.crawl.client import Client
    from taboot_pipelines.crawl.urls import WebUrl
    from taboot_pipelines.settings import Settings

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("url")
@click.option("--screenshot", metavar="F", type=_FILE, help="Write a picture of the page here (PNG).")
@click.option("--pdf", metavar="F", type=_FILE, help="Write the page as it prints here (PDF).")
@click.option(
    "--script",
    "scripts",
    metavar="F",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run this file of JavaScript in the page and print its value as JSON; may be given several times.",
)
@click.option("--viewport", is_flag=True, help="A picture of the first screen only, not of the whole page.")
@click.option("--wait-for", metavar="CSS", help="Wait until an element that this selector finds is visible.")
@click.option("--wait", "seconds", type=float, default=2.0, show_default=True, help="Seconds to wait then.")
@click.option(
    "--allow-cidr", "cidrs", metavar="NET", multiple=True, help="A private network that may be connected to."
)
@json_option
def capture(
    url: str,
    screenshot: Path | None,
    pdf: Path | None,
    scripts: tuple[Path, ...],
    viewport: bool,
    wait_for: str | None,
    seconds: float,
    cidrs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Open URL in headless Chromium and capture it; nothing is ingested."""
    import ipaddress

    from pydantic import ValidationError

    from taboot_pipelines.crawl.browser import Browser
    from taboot_pipelines.crawl.captures import Capture
    from taboot_pipelines.crawl.urls import parse_url
    from taboot_pipelines.settings import load_settings

    if screenshot is None and pdf is None and not scripts:
        raise click.UsageError("Say what is to be captured: --screenshot, --pdf, --script.")
    try:
        wanted = Capture(
            screenshot=screenshot is not None,
            full_page=not viewport,
            pdf=pdf is not None,
            scripts=tuple(_text(s) for s in scripts),
            wait_for=wait_for,
            wait_seconds=seconds,
        )
        allowed = [ipaddress.ip_network(c) for c in cidrs]
    except ValidationError as error:
        raise click.UsageError(
            "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors(include_url=False))
        ) from None
    except ValueError:
        raise click.UsageError("--allow-cidr is no network such as 192.168.1.0/24.") from None
    settings = load_settings()
    asked = parse_url(url)
    client = Browser(settings.browser, allowed)
    try:
        final, reply = _open(client, asked, wanted, settings)
    finally:
        client.close()
    places = {"screenshot": screenshot, "pdf": pdf}
    shown = [_keep(c, places.get(c.kind)) for c in reply.captured]
    if as_json:
        emit_json({"url": asked.text, "final_url": final.text, "status": reply.status, "captures": shown})
    else:
        for entry in shown:
            if "error" in entry:
                click.echo(f"{entry['error']['code']}: {entry['error']['message']}", err=True)
            elif "value" in entry:
                plain(json.dumps(entry["value"], ensure_ascii=False, indent=2))
            else:
                plain(f"{entry['file']}: {entry['kind']} of {final.text}, {entry['bytes']:,} bytes")
    sys.exit(1 if any("error" in entry for entry in shown) else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise TabootError("E_ENCODING", f"{path} is not UTF-8.", path=str(path)) from None


def _open(client: Client, url: WebUrl, wanted: Capture, settings: Settings) -> tuple[WebUrl, PageReply]:
    """The page at the end of the redirects of ``url``, and its URL. A person asked for this one page, so that
    neither robots.txt nor a turn is waited for.
    """
    from taboot_pipelines.crawl.captures import PageReply, PageRequest
    from taboot_pipelines.crawl.client import Timeouts
    from taboot_pipelines.crawl.urls import parse_url

    http = settings.http
    timeouts = Timeouts(http.connect_timeout_seconds, http.read_timeout_seconds, http.total_timeout_seconds)
    current, seen = url, [url.text]
    while True:
        client.start(
            0,
            PageRequest(
                url=current,
                headers=(("User-Agent", http.user_agent),),
                max_bytes=settings.limits.max_blob_bytes,
                timeouts=timeouts,
                capture=wanted,
            ),
        )
        answers = client.finished(float("inf"))
        reply = answers[0][1]
        if isinstance(reply, TabootError):
            raise reply
        assert isinstance(reply, PageReply)
        if 300 <= reply.status < 400 and "location" in reply.headers:
            current = parse_url(reply.headers["location"], current.text)
            if current.text in seen or len(seen) > http.max_redirects:
                raise TabootError(
                    "E_REDIRECT", f"The redirects of {url.text} loop or are too many.", url=url.text
                )
            seen.append(current.text)
            continue
        if not 200 <= reply.status < 300:
            missing = reply.status in (404, 410)
            code = "E_NOT_FOUND" if missing else "E_5XX_ORIGIN" if reply.status >= 500 else "E_FORBIDDEN"
            raise TabootError(code, f"{current.text} could not be captured (status {reply.status}).")
        if not reply.captured:
            raise TabootError("E_MIME", f"{current.text} is no page that can be captured.", url=current.text)
        return current, reply


def _keep(captured: Captured, place: Path | None) -> dict[str, Any]:
    """What is told of a capture, whose bytes are written to ``place`` if there is one."""
    from taboot_pipelines.model.ids import sha256_hex

    if isinstance(captured.data, TabootError):
        return {"kind": captured.kind, **captured.data.to_response()}
    found: dict[str, Any] = {
        "kind": captured.kind,
        "bytes": len(captured.data),
        "sha256": sha256_hex(captured.data),
    }
    if place is None:
        return {**found, "value": json.loads(captured.data)}
    try:
        place.write_bytes(captured.data)
    except OSError:
        raise TabootError("E_STORAGE", f"{place} cannot be written.", path=str(place)) from None
    return {**found, "file": str(place)}
