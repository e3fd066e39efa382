"""Tokens of services are known by their shape alone, and nothing else is."""

from __future__ import annotations

import random
import re
import string
from importlib.resources import files as package_files
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines.documents.secrets.tokens import tokens
from taboot_pipelines_tests.documents.corpus import files

_LETTERS = string.ascii_letters
_ALPHABETS = {
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": string.hexdigits,
    "k": string.ascii_lowercase,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "c": _LETTERS,
    "a": _LETTERS + string.digits,
    "t": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b": _LETTERS + string.digits + "+/",
    "w": _LETTERS + string.digits + "-_",
    "v": _LETTERS + string.digits + "-_.",
    "p": _LETTERS + string.digits + "-_.=",
}
_PROSE = (
    "We rotated {} last week, so the old one is gone.",
    "Paste {} into the form and press save.",
    "It said {}.",
    "- {}\n",
    "He sent me `{}` by mail ({}), of all things.",
    'echo "{}\\n"',
    "<b>{}</b>",
)


def published() -> list[tuple[str, str]]:
    """(service, template) of each published token."""
    lines = Path(__file__).with_name("published_tokens.txt").read_text("utf-8").splitlines()
    return [(x.split()[0], x.split()[1]) for x in lines if x and not x.startswith("#")]


def table() -> list[tuple[str, str]]:
    """(template, check) of each shape that the product knows, one for each choice of words."""
    text = package_files("taboot_pipelines.documents.secrets").joinpath("token_shapes.txt").read_text("utf-8")
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            _, template, *check = line.split()
            parts = re.split(r"(<[^<>]*\|[^<>]*>)", template)
            choices = [p[1:-1].split("|") if re.fullmatch(r"<[^<>]*\|[^<>]*>", p) else [p] for p in parts]
            found += [("".join(x), check[0] if check else "") for x in product(*choices)]
    return found


def token(template: str, source: random.Random) -> str:
    """A token of a template, as a generator would draw it."""

    def part(m: re.Match[str]) -> str:
        if m[0] == "<g>":
            return str(UUID(int=source.getrandbits(128), version=4))
        alphabet, least = _ALPHABETS[m[1]], int(m[2])
        return "".join(source.choice(alphabet) for _ in range(least))

    return re.sub(r"<([a-zH])(\d+)(?:=|-\d+)?>|<g>", part, template)


def varied(template: str, source: random.Random) -> str:
    """A token whose variable part has lower case, upper case and a digit, as far as its alphabet allows, and
    which does not end in a dot."""
    for _ in range(1000):
        drawn = token(template, source)
        if re.search(r"\d", drawn) and re.search("[a-z].*[A-Z]|[A-Z].*[a-z]", drawn) and drawn[-1] != ".":
            return drawn
    return drawn


def secret_of(drawn: str) -> str:
    """What must not remain of a token: its second half."""
    return drawn[len(drawn) // 2 :].rstrip("=.")


def test_published_tokens_are_masked_bare_in_prose() -> None:
    source = random.Random(20240901)
    missed: dict[str, str] = {}
    shapes = published()
    for service, template in shapes:
        for prose in _PROSE:
            drawn = token(template, source)
            text = prose.replace("{}", drawn)
            for mime in ("text/markdown", "text/plain", "text/html"):
                if secret_of(drawn) in mask(text, mime):
                    missed[service] = text
    assert len(shapes) > 220
    assert len(missed) <= 0.03 * len(shapes), missed


@pytest.mark.parametrize(("template", "check"), table(), ids=lambda x: x or "-")
def test_each_shape_is_found_where_it_stands(template: str, check: str) -> None:
    source = random.Random(template)
    drawn = varied(template, source)
    text = f"before {drawn} after, {drawn}"
    name = re.match(r"\w+=", drawn)  # it names the token
    skip = len(name[0]) if name and template.startswith(name[0]) else 0
    first = 7 + skip
    second = len(text) - len(drawn) + skip
    covered = {i for a, b in tokens(text) for i in range(a, b)}
    assert covered == {*range(first, 7 + len(drawn)), *range(second, len(text))}


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=40),
    st.sampled_from(published()),
    st.sampled_from(['"', "'", "`", " ", "\n", "(", "ß ", "𝄞 ", "=", ":", ">", "\\n", "%3D", ","]),
    st.sampled_from(['"', "'", "`", " ", "\n", ")", ", ß", "<", ";", "\\n"]),
    st.text(max_size=40),
    st.randoms(use_true_random=False),
)
def test_a_token_is_found_wherever_it_stands(
    before: str, shape: tuple[str, str], opens: str, closes: str, after: str, source: random.Random
) -> None:
    service, template = shape
    drawn = token(template, source)
    if template.startswith("https:") or not tokens(f" {drawn} "):
        return  # of the few that are missed, the test above keeps count
    text = f"{before}{opens}{drawn}{closes}{after}"
    covered = {i for a, b in tokens(text) for i in range(a, b)}
    start = len(before) + len(opens)
    tail = range(start + len(drawn) // 2, start + len(drawn.rstrip("=.")))
    assert covered.issuperset(tail), (service, text)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("linuxserver-docs-md", "**/*.md"),
        ("site-ingress-nginx", "**/*.html"),
        ("linuxserver-docs-html-sample", "**/*.html"),
        ("swag-reverse-proxy-confs", "**/*"),
        ("awesome-compose", "**/*"),
    ],
)
def test_real_documentation_has_no_tokens(name: str, pattern: str) -> None:
    """But for the examples that AWS and Traefik give, none of these texts holds one."""
    for path, data in files(name, pattern):
        text = data.decode("utf-8", "replace")
        assert [text[a:b] for a, b in tokens(text)] == [], path
