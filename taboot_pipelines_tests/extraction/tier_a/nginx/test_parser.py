"""The parser: nginx's lexical rules, exact offsets, and what stands after an error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.nginx.parser import MAX_DEPTH, Directive, parse
from taboot_pipelines_tests.needs import files

Tree = list[tuple[str, list[str], "Tree | None"]]


def tree(directives: list[Directive]) -> Tree:
    return [(d.name, d.args, None if d.children is None else tree(d.children)) for d in directives]


def walk(directives: list[Directive]) -> list[Directive]:
    return [x for d in directives for x in (d, *walk(d.children or []))]


def args(text: str) -> list[str]:
    directives, notes = parse(text)
    assert notes == []
    (directive,) = directives
    return directive.args


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c;", ["b", "c"]),
        ("a\n  b # x; {\n  c\n;", ["b", "c"]),
        ("a 'x y' \"p;{}q\";", ["x y", "p;{}q"]),
        (r"""a "q\"q" 'q\'q' "t\tn\nr\rs\\d\d";""", ['q"q', "q'q", "t\tn\nr\rs\\d\\d"]),
        (r"a b\ c\;d\{ ;", [r"b\ c\;d\{"]),
        ("a ${x}y$z/${w};", ["${x}y$z/${w}"]),
        ('a mid"quo"te b}c;', ['mid"quo"te', "b}c"]),
        ("a b#c;", ["b#c"]),
        ("a '';", [""]),
        ("\ufeffa b;", ["b"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert args(text) == expected


def test_a_block_may_touch_its_neighbours() -> None:
    directives, notes = parse("location /a{}location /b{x 1;}")
    assert tree(directives) == [("location", ["/a"], []), ("location", ["/b"], [("x", ["1"], None)])]
    assert notes == []


def test_if_keeps_its_parentheses_and_a_quote_may_end_at_one() -> None:
    directives, notes = parse('if ($a ~ "x{2}") { b; }')
    assert tree(directives) == [("if", ["($a", "~", "x{2}", ")"], [("b", [], None)])]
    assert notes == []


LUA = r"""
  -- a comment with } and " and '
  local s = "}" .. '}' .. "\"}" .. [[ } ]] .. [==[ ]] } ]==]
  --[[ } ]] --[=[ } ]] ]=]
  if x then y = { a = { } } end
"""


def test_lua_blocks_are_passed_over_by_luas_own_rules() -> None:
    directives, notes = parse(
        f"location / {{ content_by_lua_block {{{LUA}}}\n set_by_lua_block $x {{ return '}}' }} proxy_pass"
        " http://a; } b;"
    )
    assert notes == []
    assert tree(directives) == [
        (
            "location",
            ["/"],
            [
                ("content_by_lua_block", [], None),
                ("set_by_lua_block", ["$x"], None),
                ("proxy_pass", ["http://a"], None),
            ],
        ),
        ("b", [], None),
    ]


@pytest.mark.parametrize(
    ("text", "line", "what", "kept"),
    [
        ("a 1;\n}\nb 2;", 2, "unexpected '}'", [("a", ["1"], None), ("b", ["2"], None)]),
        ("a 1;\n;\nb 2;", 2, "unexpected ';'", [("a", ["1"], None), ("b", ["2"], None)]),
        ("s {\n a 1;\n", 1, "never closed", [("s", [], [("a", ["1"], None)])]),
        ("s {\n a 1\n}\nb;", 2, "not ended by ';'", [("s", [], [("a", ["1"], None)]), ("b", [], None)]),
        (
            "set $a 1\nproxy_pass http://b;",
            1,
            "not ended by ';'",
            [("set", ["$a", "1"], None), ("proxy_pass", ["http://b"], None)],
        ),
        (
            "listen 80\nlocation / { root /x; }",
            1,
            "not ended by ';'",
            [("listen", ["80"], None), ("location", ["/"], [("root", ["/x"], None)])],
        ),
        ("a 1", 1, "not ended by ';'", [("a", ["1"], None)]),
        ("{ a; }", 1, "unexpected '{'", [("", [], [("a", [], None)])]),
        ("a 1;\nb 'x;\nc 2;", 2, "a quote is never closed", [("a", ["1"], None), ("c", ["2"], None)]),
        ("a 'x'y;", 1, "after a closing quote", [("a", ["x", "y"], None)]),
        ('x_by_lua_block { "}" ', 1, "Lua block is never closed", [("x_by_lua_block", [], None)]),
    ],
)
def test_an_error_is_noted_with_its_line_and_the_rest_stands(
    text: str, line: int, what: str, kept: Tree
) -> None:
    directives, notes = parse(text)
    assert tree(directives) == kept
    (note,) = notes
    assert note.line == line
    assert what in note.message


def test_a_known_word_among_arguments_on_one_line_is_an_argument() -> None:
    assert args("return 200 server location;") == ["200", "server", "location"]
    assert args("add_header X\n 'location';") == ["X", "location"]


def test_offsets_are_those_of_the_statement_in_code_points() -> None:
    text = "# é🙂\nhttp { # ü\n  set $a 'é';  server {\n listen 80; } }"
    spans = {d.name: text[d.start : d.end] for d in walk(parse(text)[0])}
    assert spans == {
        "http": text[text.index("http") :],
        "set": "set $a 'é';",
        "server": "server {\n listen 80; }",
        "listen": "listen 80;",
    }


def test_depth_is_bounded_and_said() -> None:
    directives, notes = parse("a {" * 500 + "b;" + "}" * 500 + "c;")
    depth, level = 0, directives
    while level:
        depth, level = depth + 1, level[0].children or []
    assert depth == MAX_DEPTH
    assert directives[-1].name == "c"
    assert [n.message for n in notes] == [f"blocks are nested deeper than {MAX_DEPTH}"]


REAL = [
    p
    for folder in ("nginx-crossplane", "swag-reverse-proxy-confs")
    for p in files(folder, "*")
    if p.suffix in (".conf", ".sample")
]


@pytest.mark.needs("data")
def test_real_confs_parse_without_an_error_but_those_made_wrong() -> None:
    noted = {}
    for path in REAL:
        text = path.read_text("utf-8", "replace")
        directives, notes = parse(text)
        for d in walk(directives):
            assert text[d.start : d.end].endswith((";", "}")) or notes
        if notes:
            noted[path.parent.name + "/" + path.name] = {n.message for n in notes}
    # Prose instead of directives, and quotes that nginx refuses too. One SWAG template has no valid tokens of
    # its own.
    unended = {"the directive is not ended by ';'"}
    assert noted == {
        "conf.d/bar.conf": unended,
        "conf.d/foo.conf": unended,
        "locations/not-included.conf": unended,
        "quote-behavior/nginx.conf": {"a blank, ';' or '{' is missing after a closing quote"},
    }


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        ";",
        "{",
        "}",
        "'",
        '"',
        "\\",
        "$",
        "${",
        "#",
        "[[",
        "]]",
        "--",
        "=",
        "x_by_lua_block ",
        "set ",
        "é",
        "server",
        "\n proxy_pass ",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_parses_and_spans_nest(text: str) -> None:
    directives, notes = parse(text)
    assert parse(text) == (directives, notes)

    def check(level: list[Directive], low: int, high: int) -> None:
        for d in level:
            assert low <= d.start <= d.end <= high
            low = d.end
            if d.children is not None:
                check(d.children, d.start, d.end)

    check(directives, 0, len(text))
    assert all(1 <= n.line <= text.count("\n") + 1 for n in notes)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\\"), max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_quoted_words_come_back_as_they_are(words: list[str]) -> None:
    quoted = " ".join('"' + w.replace('"', '\\"') + '"' for w in words)
    assert args(f"a {quoted};") == words
