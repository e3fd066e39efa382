"""robots.txt: the rules of RFC 9309, what Google's parser documents beyond them, real files, and bad ones."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl.robots import (
    CACHE_SECONDS,
    MAX_CRAWL_DELAY_SECONDS,
    MAX_LINE_BYTES,
    MAX_ROBOTS_BYTES,
    UNREACHABLE_SECONDS,
    Robots,
    RobotsCache,
    product_token,
    read_robots,
)
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines_tests.connectors.conftest import DATA

AGENT = "FooBot/1.0 (+https://foo.example/bot)"


def allowed(text: str | bytes, path: str, agent: str = AGENT) -> bool:
    body = text.encode() if isinstance(text, str) else text
    return read_robots(200, body, agent).allows(parse_url(f"http://foo.bar{path}"))


def verdicts(text: str | bytes, paths: list[str], agent: str = AGENT) -> list[str]:
    """Those of the paths that are allowed."""
    return [p for p in paths if allowed(text, p, agent)]


GROUPS = """
allow: /foo/bar/

user-agent: FooBot
disallow: /
allow: /x/
user-agent: BarBot
disallow: /
allow: /y/


allow: /w/
user-agent: BazBot

user-agent: FooBot
allow: /z/
disallow: /
"""


@pytest.mark.parametrize(
    ("agent", "open_"),
    [
        ("FooBot", ["/x/b", "/z/d"]),
        ("BarBot", ["/w/a", "/y/c"]),
        # A list of crawlers goes on over blank lines, to the first rule.
        ("BazBot", ["/z/d"]),
        ("QuxBot", ["/w/a", "/x/b", "/y/c", "/z/d", "/foo/bar/"]),
    ],
)
def test_groups_of_one_crawler_are_one_and_rules_outside_of_any_are_none(
    agent: str, open_: list[str]
) -> None:
    assert verdicts(GROUPS, ["/w/a", "/x/b", "/y/c", "/z/d", "/foo/bar/"], agent) == open_


@pytest.mark.parametrize("line", ["Sitemap: https://foo.bar/s", "Unknown: x", "Crawl-delay: 1", "nonsense"])
def test_other_lines_do_not_end_a_list_of_crawlers(line: str) -> None:
    text = f"User-agent: BarBot\n{line}\nUser-agent: *\nDisallow: /\n"
    assert not allowed(text, "/", "FooBot") and not allowed(text, "/", "BarBot")
    text = f"User-agent: FooBot\n{line}\nUser-agent: BarBot\nDisallow: /x\n"
    assert not allowed(text, "/x", "FooBot") and not allowed(text, "/x", "BarBot")


@pytest.mark.parametrize(
    ("line", "obeyed"),
    [
        ("User-agent: FooBot", True),
        ("USER-AGENT: fOObOT", True),
        ("user-agent : FooBot", True),
        ("User agent: FooBot", True),
        ("useragent:FooBot", True),
        ("user-agent FooBot", True),
        ("User-agent: FooBot/2.1", True),
        ("User-agent: FooBot Images", True),
        ("User-agent: FooBot # ours", True),
        ("User-agent: FooBot2", True),
        ("User-agent: FooBot*", True),
        ("User-agent: 2FooBot", False),
        ("User-agent: Foo", False),
        ("User-agent: FooBotImages", False),
        ("User-agent: FooBot-Images", False),
        ("User-agent: MyFooBot", False),
        ("User-agent: *Bot", False),
        ("User-agent: BarBot", False),
        ("foo: FooBot", False),
    ],
)
def test_a_group_is_ours_by_the_whole_name(line: str, obeyed: bool) -> None:
    assert allowed(f"{line}\nDisallow: /\n", "/x") is not obeyed


def test_our_own_group_counts_alone_even_if_it_says_nothing() -> None:
    assert allowed("User-agent: FooBot\nDisallow:\n\nUser-agent: *\nDisallow: /\n", "/x")
    assert allowed("User-agent: *\nDisallow: /\n\nUser-agent: FooBot\nCrawl-delay: 2\n", "/x")
    assert not allowed("User-agent: *\nDisallow: /\nUser-agent: BarBot\nAllow: /\n", "/x")
    assert not allowed("User-agent: * baz\nDisallow: /\n", "/x")


@pytest.mark.parametrize(
    "line",
    [
        "Disallow: /x",
        "DISALLOW:/x",
        " disallow :  /x  ",
        "Disallow /x",
        "dissallow: /x",
        "dissalow: /x",
        "disalow: /x",
        "diasllow: /x",
        "disallaw: /x",
        "Disallow: /x # why",
        "\tDisallow:\t/x\t",
    ],
)
def test_a_rule_is_read_as_people_write_it(line: str) -> None:
    text = f"user-agent: FooBot\n{line}\n"
    assert not allowed(text, "/x/page") and allowed(text, "/y") and allowed(text, "/X")


@pytest.mark.parametrize(
    "line", ["Disallow", "Disallow:", "Disallow /x /y", "/x", "Disallowed?", "<p>Disallow</p>"]
)
def test_what_is_no_rule_forbids_nothing(line: str) -> None:
    assert allowed(f"user-agent: FooBot\n{line}\n", "/x")


@pytest.mark.parametrize(
    ("rules", "open_", "closed"),
    [
        # the longest match, whatever the order; of two as long, allow
        ("disallow: /x/page.html\nallow: /x/", ["/x/", "/x/y"], ["/x/page.html"]),
        ("disallow: /x/\nallow: /x/page.html", ["/x/page.html"], ["/x/", "/x/y"]),
        ("disallow: \nallow: ", ["/x/page"], []),
        ("disallow: /\nallow: /", ["/x/page"], []),
        ("disallow: /x\nallow: /x/", ["/x/"], ["/x"]),
        ("disallow: /x/page.html\nallow: /x/page.html", ["/x/page.html"], []),
        ("allow: /page\ndisallow: /*.html", ["/page"], ["/page.html"]),
        ("allow: /x/page.\ndisallow: /*.html", ["/x/page.html"], ["/x/y.html"]),
        ("allow: /p\ndisallow: /", ["/page"], ["/"]),
        ("allow: /folder\ndisallow: /folder", ["/folder/page"], []),
        ("allow: /page\ndisallow: /*.htm", [], ["/page.htm"]),
        ("allow: /$\ndisallow: /", ["/"], ["/page.htm"]),
        # wildcards and the end of the path
        (
            "disallow: /foo/bar/quz\nallow: /foo/*/qux",
            ["/foo/quz", "/foo//quz", "/foo/bax/quz"],
            ["/foo/bar/quz"],
        ),
        (
            "disallow: /foo/bar$\nallow: /foo/bar/qux",
            ["/foo/bar/qux", "/foo/bar/", "/foo/bar/baz"],
            ["/foo/bar"],
        ),
        ("# disallow: /\ndisallow: /foo/quz#qux\nallow: /", ["/foo/bar"], ["/foo/quz"]),
        (
            "disallow: /\nallow: /fish",
            ["/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fish.html?id=1"],
            ["/", "/Fish.asp", "/catfish", "/?id=fish"],
        ),
        (
            "disallow: /\nallow: /fish*",
            ["/fish", "/fishheads/yummy.html", "/fish.html?id=1"],
            ["/Fish", "/catfish"],
        ),
        (
            "disallow: /\nallow: /fish/",
            ["/fish/", "/fish/?salmon", "/fish/salmon.html"],
            ["/fish", "/fish.html"],
        ),
        (
            "disallow: /\nallow: /*.php",
            ["/a.php", "/f/a.php?p", "//f/any.php.file.html", "/a.php/", "/i?f=a.php/"],
            ["/php/", "/index?php", "/windows.PHP"],
        ),
        ("disallow: /\nallow: /*.php$", ["/a.php", "/f/a.php"], ["/a.php?p", "/a.php/", "/a.php5", "/php/"]),
        ("disallow: /\nallow: /fish*.php", ["/fish.php", "/fishheads/catfish.php?p"], ["/Fish.PHP"]),
        ("disallow: /a$b", [], ["/a$b", "/a$bc"]),
        ("disallow: /*?sort=", ["/list"], ["/list?sort=up", "/a/b?sort="]),
        ("disallow: *", [], ["/", "/x"]),
        ("disallow: /**/x", ["/x"], ["/a/x", "/a/b/x", "//x"]),
        ("disallow: foo", ["/foo", "/"], []),
        # the octets of the pattern count, not those of what it is escaped to
        ("allow: /page\ndisallow: /*?a", ["/page?a"], ["/b?a"]),
        ("allow: /pages\ndisallow: /*?a=b", ["/pages?a=b"], ["/page?a=b"]),
        ("allow: /*/a\ndisallow: /(b", ["/(b/a"], ["/(b/c"]),
        # index.html stands for its directory
        (
            "disallow: /\nallow: /dir/index.html",
            ["/dir/", "/dir/index.html"],
            ["/dir/index.htm", "/dir", "/other"],
        ),
    ],
)
def test_which_rule_decides(rules: str, open_: list[str], closed: list[str]) -> None:
    assert verdicts(f"user-agent: FooBot\n{rules}\n", open_ + closed) == open_


def test_the_order_of_rules_never_matters() -> None:
    rules = ["allow: /a/b", "disallow: /a", "allow: /a/b/c$", "disallow: /*.pdf", "disallow: /a/b/*/d"]
    paths = ["/a", "/a/b", "/a/b/c", "/a/b/c/d", "/x.pdf", "/a/b/x.pdf", "/z"]
    first = verdicts("\n".join(["user-agent: *", *rules]), paths)
    assert verdicts("\n".join(["user-agent: *", *reversed(rules)]), paths) == first
    assert first == ["/a/b", "/a/b/c", "/z"], "of /a/b and /*.pdf the latter is the longer"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/foo/bar?baz=http://foo.bar", "/foo/bar?baz=http://foo.bar"),
        ("/foo/bar?qux=taz&baz=http://foo.bar?tar&par", "/foo/bar?qux=taz&baz=http://foo.bar?tar&par"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%e3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/%62%61%7A"),
        ("/foo bar", "/foo%20bar"),
        ("/100%25", "/100%25"),
        ("/a,b;c=d", "/a,b;c=d"),
    ],
)
def test_escapes_are_compared_as_what_they_stand_for(rule: str, path: str) -> None:
    assert allowed(f"User-agent: FooBot\nDisallow: /\nAllow: {rule}\n", path)
    assert not allowed(f"User-agent: FooBot\nDisallow: {rule}\n", path)


@pytest.mark.parametrize(
    ("rule", "same", "other"),
    [
        # reserved characters stand for their escapes, and the other way round
        ("/go?to=https://foo.bar/a", "/go?to=https%3A%2F%2Ffoo.bar%2Fa", "/go?to=https:"),
        ("/go?to=https%3a%2F%2Ffoo.bar", "/go?to=https://foo.bar", "/go?to=https:foo.bar"),
        ("/price-%24", "/price-$", "/price-"),
        ("/a-%2A-b", "/a-*-b", "/a-x-b"),
        ("/a$b", "/a%24b", "/a"),
        ("/*url=http%3A%2F%2F", "/x?url=http%3A%2F%2Fy", "/x?url=ftp"),
        ("/*/print", "/x?u=/print", "/x?u=print"),
        # a slash of the path is no escape of one, and no octet stands for another
        ("/a%2Fb", "/a%2fb", "/a/b"),
        ("/caf%E9", "/caf%E9", "/caf%E8"),
        ("/%", "/%3Ca", "/a"),
        ("/*%", "/a/%22", "/a/b"),
    ],
)
def test_what_an_escape_stands_for_and_what_not(rule: str, same: str, other: str) -> None:
    for closed in (f"Disallow: {rule}", f"Disallow: /\nAllow: {rule}"):
        text = f"User-agent: FooBot\n{closed}\n"
        opens = "Allow" in closed
        assert (allowed(text, same), allowed(text, other)) == (opens, not opens)


def test_where_an_escape_may_be_read_in_two_ways_the_stricter_holds() -> None:
    for written, asked in (("%62%61%7A", "baz"), ("baz", "%62%61%7A")):
        assert not allowed(f"User-agent: FooBot\nDisallow: /\nAllow: /foo/{written}\n", f"/foo/{asked}")
        assert not allowed(f"User-agent: FooBot\nDisallow: /foo/{written}\n", f"/foo/{asked}")
    latin = b"User-agent: FooBot\nDisallow: /caf\xe9\n"
    assert not allowed(latin, "/caf%E9") and allowed(latin, "/caf%C3%A9")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"])
def test_a_byte_order_mark_is_passed_over_even_in_part(mark: bytes) -> None:
    assert not allowed(mark + b"User-Agent: FooBot\nDisallow: /x\n", "/x")


def test_a_broken_or_late_byte_order_mark_spoils_its_line_only() -> None:
    assert allowed(b"\xef\x11\xbfUser-Agent: FooBot\nDisallow: /x\n", "/x")
    assert allowed(b"User-agent: BarBot\n\xef\xbb\xbfUser-Agent: FooBot\nDisallow: /x\n", "/x")
    assert not allowed("User-Agent: FooBot\nDisallow: /x\n".encode("utf-16"), "/x")
    assert not allowed(b"\xff\xfe\n User-Agent: FooBot\n Disallow: /x", "/x")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\n", "\r\n\r\n"])
def test_lines_end_as_files_of_any_system_do(end: str) -> None:
    text = end.join(["User-Agent: foobot", "Allow: /x/y", "Disallow: /x"])
    assert verdicts(text, ["/x", "/x/y", "/z"]) == ["/x/y", "/z"]
    # These end a line for str.splitlines alone.
    for other in ("\u2028", "\x85", "\x0b", "\x1c"):
        assert allowed(f"User-Agent: FooBot\nAllow: /{other}Disallow: /x\n", "/x")


def test_a_long_line_is_cut_and_counts_as_far_as_it_goes() -> None:
    long_ = "/x/" + "a" * (MAX_LINE_BYTES - len("disallow: /x/"))
    robots = read_robots(200, f"user-agent: FooBot\ndisallow: {long_}/qux\n".encode(), AGENT)
    assert robots.allows(parse_url("http://foo.bar/fux"))
    assert not robots.allows(WebUrl(f"http://foo.bar{long_}/fux", "http", "foo.bar", 80, f"{long_}/fux"))
    assert MAX_LINE_BYTES == 16663, "a buffer of 8 * 2083 bytes with its end, as Google's"


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("taboot-pipelines/0.1", "taboot-pipelines"),
        ("Mozilla/5.0 (compatible; FooBot/1.0; +https://foo.example/)", "FooBot"),
        ("FooBot", "FooBot"),
        ("", ""),
        ("(odd)", ""),
    ],
)
def test_the_name_by_which_sites_address_us(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token
    if token:
        assert not allowed(f"User-agent: {token.upper()}\nDisallow: /", "/", user_agent)


@pytest.mark.parametrize(
    ("status", "page"),
    [
        (None, False),
        (500, False),
        (503, False),
        (599, False),
        (400, True),
        (401, True),
        (403, True),
        (404, True),
        (410, True),
        (429, True),
        (301, True),
        (204, True),
        (200, False),
    ],
)
def test_what_an_answer_without_a_file_means(status: int | None, page: bool) -> None:
    body = b"User-agent: *\nDisallow: /\n" if status == 200 else b""
    robots = read_robots(status, body, AGENT)
    assert robots.allows(parse_url("http://foo.bar/x")) is page
    assert robots.allows(parse_url("http://foo.bar/robots.txt"))


def test_delays_and_sitemaps() -> None:
    text = (
        "Sitemap: https://foo.bar/a.xml\nUser-agent: FooBot\nCrawl-delay: 2.5\nDisallow:\n"
        "SITEMAP:https://foo.bar/b.xml # b\nsite-map: /c.xml\nUser-agent: *\nCrawl-delay: 9\nDisallow: /\n"
    )
    robots = read_robots(200, text.encode(), AGENT)
    assert robots.sitemaps == ("https://foo.bar/a.xml", "https://foo.bar/b.xml", "/c.xml")
    assert robots.crawl_delay == 2.5 and read_robots(200, text.encode(), "Other").crawl_delay == 9
    for said, delay in (
        ("Crawl-delay: 1e12", MAX_CRAWL_DELAY_SECONDS),
        ("Crawl-delay: nan", None),
        ("crawl delay: 3", 3),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: 0", None),
        ("Request-rate: 1/10s", 10),
        ("x: 1", None),
    ):
        assert read_robots(200, f"User-agent: *\n{said}\n".encode(), AGENT).crawl_delay == delay


def test_a_delay_is_for_the_crawlers_above_it_even_without_rules() -> None:
    text = (
        "User-agent: FooBot\nCrawl-delay: 7\nUser-agent: BarBot\nUser-agent: BazBot\nCrawl-delay: 2\n"
        "User-agent: *\nDisallow: /x\nCrawl-delay: 1\n"
    )
    delays = {
        a: read_robots(200, text.encode(), a).crawl_delay for a in ("FooBot", "BarBot", "BazBot", "Qux")
    }
    assert delays == {"FooBot": 7, "BarBot": 2, "BazBot": 2, "Qux": 1}
    assert not allowed(text, "/x", "FooBot"), "as far as rules go, they are one group"


def test_a_sitemap_without_its_colon_keeps_its_scheme() -> None:
    text = b"Sitemap https://foo.bar/a.xml\nSitemap http://foo.bar/b.xml\nSitemap :https://foo.bar/c.xml\n"
    found = ("https://foo.bar/a.xml", "http://foo.bar/b.xml", "https://foo.bar/c.xml")
    assert read_robots(200, text, AGENT).sitemaps == found


def real() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(DATA / "robots-real/robots.tar.xz") as files:
        for member in files:
            if (file := files.extractfile(member)) is not None:
                yield member.name, file.read()


def test_every_real_file_is_read_and_decides() -> None:
    seen = 0
    for name, body in real():
        robots = read_robots(200, body, AGENT)
        assert robots.allows(parse_url("https://h.example/robots.txt")), name
        for path in ("/", "/a/b?c=d", "/%E3%83%84", "/search?q=%41", "/index.html"):
            assert robots.allows(parse_url(f"https://h.example{path}")) in (True, False), name
        assert robots.crawl_delay is None or robots.crawl_delay > 0
        seen += 1
    assert seen == 151


@pytest.mark.parametrize("limit", [MAX_ROBOTS_BYTES, 1_000_000])
def test_half_a_megabyte_counts_and_more_takes_no_time(limit: int) -> None:
    rules = b"".join(b"Disallow: /a%d/*/b*c$\n" % i for i in range(limit // 20))
    body = b"User-agent: *\nDisallow: /first\n" + rules + b"Disallow: /last\n"
    begun = time.process_time()
    robots = read_robots(200, body, AGENT)
    assert not robots.allows(parse_url("http://foo.bar/first"))
    assert robots.allows(parse_url("http://foo.bar/other"))
    assert robots.allows(parse_url("http://foo.bar/last")), "it stands behind what is read"
    assert time.process_time() - begun < 10
    whole = b"User-agent: *\n" + b"# filler\n" * (MAX_ROBOTS_BYTES // 9 - 10) + b"Disallow: /last\n"
    assert len(whole) > MAX_ROBOTS_BYTES - 200 and not allowed(whole, "/last")


@pytest.mark.parametrize(
    "body",
    [
        bytes(range(256)) * 4000,
        b"\0" * 1_000_000,
        b"<!DOCTYPE html><html><body>Disallow everything</body></html>",
        b"\x1f\x8b\x08\x00" + b"\xff" * 100,
        b"User-agent: *\n" + b"x" * 5_000_000,
        b":" * 600_000,
        b"\n" * 1_000_000,
    ],
)
def test_what_holds_no_rules_forbids_nothing_and_is_read_quickly(body: bytes) -> None:
    begun = time.process_time()
    assert allowed(body, "/x")
    assert time.process_time() - begun < 5


def test_many_stars_do_not_explode() -> None:
    begun = time.process_time()
    assert allowed("User-agent: *\nDisallow: /" + "*a" * 4000 + "z\n", "/" + "a" * 2000)
    assert time.process_time() - begun < 2


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=300)
    | st.text(alphabet="user-agent:disallow *$/%#\r\n\ufeffü", max_size=200).map(str.encode)
)
def test_any_bytes_are_read(body: bytes) -> None:
    robots = read_robots(200, body, AGENT)
    assert robots.allows(parse_url("http://foo.bar/a%62?c")) in (True, False)
    assert robots.crawl_delay is None or 0 < robots.crawl_delay <= MAX_CRAWL_DELAY_SECONDS


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["allow", "disallow"]), st.text(alphabet="ab/*$", min_size=1, max_size=6)),
        max_size=6,
    ),
    st.text(alphabet="ab/", max_size=8),
)
def test_the_longest_matching_pattern_decides(rules: list[tuple[str, str]], path: str) -> None:
    """Against a matcher written down from RFC 9309 §2.2.2 and §2.2.3."""
    import re

    def matches(pattern: str) -> bool:
        anchored = pattern.endswith("$")
        parts = (pattern[:-1] if anchored else pattern).split("*")
        return re.match(".*".join(map(re.escape, parts)) + ("$" if anchored else ""), f"/{path}") is not None

    found = [(len(p), name == "allow") for name, p in rules if matches(p)]
    expected = max(found)[1] if found else True
    text = "\n".join(["User-agent: *", *(f"{name}: {p}" for name, p in rules)])
    assert allowed(text, f"/{path}") is expected


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    yield open_state(load_settings(), catalog)
    catalog.close()


def test_an_answer_is_shared_by_runs_and_namespaces_have_their_own(state: State) -> None:
    origin = "https://foo.bar:8443"
    one, two, other = (RobotsCache(Lenient(state), n, AGENT) for n in ("n", "n", "m"))
    assert one.get(origin) is None
    body = b"User-agent: FooBot\nDisallow: /x\nCrawl-delay: 3\nSitemap: https://foo.bar/s.xml\n"
    assert one.put(origin, 200, body) == one.get(origin) == two.get(origin)
    kept = two.get(origin)
    assert kept is not None and not kept.allows(parse_url("https://foo.bar:8443/x")) and kept.crawl_delay == 3
    assert kept.sitemaps == ("https://foo.bar/s.xml",)
    assert other.get(origin) is None and one.get("https://foo.bar") is None


def test_what_is_kept_loses_nothing_to_its_escapes(state: State) -> None:
    one, two = (RobotsCache(Lenient(state), "n", AGENT) for _ in "ab")
    rules = "".join(f"Disallow: /{'ツ' * 3000}/{i}\n" for i in range(50))
    body = f"User-agent: *\n{rules}Disallow: /last\nSitemap: https://foo.bar/s.xml\n".encode()
    assert MAX_ROBOTS_BYTES / 3 < len(body) < MAX_ROBOTS_BYTES
    assert one.put("https://foo.bar", 200, body) == two.get("https://foo.bar")
    kept = two.get("https://foo.bar")
    assert kept is not None and not kept.allows(parse_url("https://foo.bar/last"))


@pytest.mark.parametrize(
    ("status", "max_age", "life"),
    [
        (200, None, CACHE_SECONDS),
        (404, None, CACHE_SECONDS),
        (503, None, UNREACHABLE_SECONDS),
        (None, None, UNREACHABLE_SECONDS),
        (200, 3600.0, 3600.0),
        (200, 0.0, UNREACHABLE_SECONDS),
        (200, 1e9, CACHE_SECONDS),
        (503, 86400.0, UNREACHABLE_SECONDS),
    ],
)
def test_an_answer_holds_for_a_day_and_no_answer_for_minutes(
    state: State, monkeypatch: pytest.MonkeyPatch, status: int | None, max_age: float | None, life: float
) -> None:
    assert CACHE_SECONDS <= 24 * 3600
    cache = RobotsCache(Lenient(state), "n", AGENT)
    cache.put("https://foo.bar", status, b"", max_age=max_age)
    now = time.time()
    monkeypatch.setattr("taboot_pipelines.crawl.robots.time.time", lambda: now + life - 5)
    assert cache.get("https://foo.bar") is not None
    monkeypatch.setattr("taboot_pipelines.crawl.robots.time.time", lambda: now + life + 5)
    monkeypatch.setattr(state, "get", lambda *_: None)
    assert cache.get("https://foo.bar") is None


def test_many_origins_take_bounded_memory_and_a_damaged_value_is_asked_for_again(state: State) -> None:
    cache = RobotsCache(Lenient(state), "n", AGENT)
    for i in range(300):
        cache.put(f"https://h{i}.example", 404, b"")
    assert len(cache._read) == 256
    for value in (b"", b"{", b"garbage\nUser-agent: *", b"[1]\n", b'["x", 1]\n'):
        state.set("n", "robots:https://bad.example", value, 60)
        assert cache.get("https://bad.example") is None


def test_rules_are_equal_if_they_say_the_same() -> None:
    assert read_robots(404, b"", AGENT) == Robots() != read_robots(500, b"", AGENT)
