"""Packages outside the project add source types and formats, and break only what is theirs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a import formats
from taboot_pipelines.plugins import Plugins
from taboot_pipelines.sources import registry, source_kind, source_kinds, type_names
from taboot_pipelines.sources.kind import Stance
from taboot_pipelines.sources.sources_file import json_schema, load_sources
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.sources.outside import install
from taboot_pipelines_tests.world import World

GOPHER = {"sources": {"gopher": "taboot_gopher:Gopher"}, "formats": {"wires": "taboot_gopher:WIRES"}}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, in which packages may be installed before anything asks which there are."""
    made = tmp_path / "site"
    made.mkdir()
    monkeypatch.syspath_prepend(str(made))
    for module, check in ((registry, registry._check), (formats, formats._check)):
        group, what = module.PLUGINS._group, module.PLUGINS._what
        fresh: Plugins[object] = Plugins(group, what, check)
        monkeypatch.setattr(module, "PLUGINS", fresh)
    for name in ("taboot_gopher", "one", "two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return made


def test_an_ingest_reads_a_type_and_a_format_of_a_package(tmp_path: Path, tei: FakeTei) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site, "taboot-gopher", **GOPHER)
    install(site, "broken", modules={"broken": "import nothing_of_that_name"}, sources={"fax": "broken:Fax"})
    world = World(tmp_path, tei.url)
    world.source("menus", "gopher", path=None, menus={"/cellar": "The boiler is bled in October."})
    world.source("faxes", "fax", path=None, number=7)
    (world.source("wiring", interpret=True) / "house.wires").write_text("lamp -> relay\n")
    shell = Shell(world)
    shell.environment |= {"PYTHONPATH": str(site)}

    told = shell.process("ingest", "--json", code=1)
    by_source = {s["source"]: s for s in json.loads(told)["sources"]}
    assert by_source["menus"]["state"] == by_source["wiring"]["state"] == "succeeded"
    error = by_source["faxes"]["error"]
    assert error["code"] == "E_PLUGIN" and "package broken 1.2" in error["message"]
    assert (
        "nothing_of_that_name is missing" in error["message"] and "uninstall it" in error["details"]["remedy"]
    )

    hits = json.loads(shell.process("search", "when is the boiler bled", "--json"))["hits"]
    (hit,) = [h for h in hits if h["source"] == "menus"]
    assert hit["source_type"] == "gopher" and "bled in October" in hit["text"]
    edges = json.loads(shell.process("neighbors", "lamp", "--json"))["edges"]
    assert [e["type"] for e in edges if e["type"] == "DEPENDS_ON"] == ["DEPENDS_ON"]
    health = json.loads(shell.process("status", "--json", code=1))["health"]
    (state,) = [h for h in health if h["part"] == "plugins"]
    assert not state["ok"] and "broken 1.2" in state["message"] and "taboot-gopher 1.2" in state["version"]


def test_what_there_is_is_known_without_importing_it(site: Path) -> None:
    install(site, "taboot-gopher", **GOPHER)
    assert type_names()[-1] == "gopher" and "taboot_gopher" not in sys.modules
    kind = source_kind("gopher")
    assert "taboot_gopher" in sys.modules and kind.stance is Stance.DISCUSSES
    assert source_kinds()["gopher"] is kind
    mapping = json_schema()["properties"]["sources"]["items"]["discriminator"]["mapping"]
    assert mapping["gopher"].endswith("GopherSource")
    assert registry.stance_of("gopher").of_a_time
    assert formats.PLUGINS.get("wires").globs == ("*.wires",)


def _module(body: str) -> str:
    return f"from taboot_gopher import *\n{body}\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise RuntimeError('hunter2')", "importing one:Made failed with RuntimeError"),
        ("import nothing_of_that_name", "ModuleNotFoundError (nothing_of_that_name is missing)"),
        ("Made = 3", "it is no taboot_pipelines.sources.SourceKind"),
        ("class Made(Gopher): name = 'other'", "its name must be mine"),
        ("class Made(Gopher): name, stance = 'mine', 'declares'", "its stance is no"),
        ("class Made(Gopher): name = 'mine'", 'must be Literal["mine"]'),
        ("class Made(SourceKind): name = 'mine'", "failed with TypeError"),
        ("", "importing one:Made failed with AttributeError"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_and_stops_nothing(
    site: Path, tmp_path: Path, body: str, why: str
) -> None:
    install(site, "taboot-gopher", **GOPHER)
    install(site, "one", modules={"one": _module(body)}, sources={"mine": "one:Made"})
    assert type_names()[-2:] == ["gopher", "mine"] and list(source_kinds())[-1] == "gopher"
    with pytest.raises(TabootError) as caught:
        registry.PLUGINS.get("mine")
    error = caught.value
    assert error.code == "E_PLUGIN" and why in error.message and "one 1.2" in error.message
    assert "hunter2" not in error.message and "uninstall it" in error.remedy
    # The entry stays as it is written, so that nothing of the source is taken for gone.
    (tmp_path / "sources.yaml").write_text(
        "sources: [{id: a, type: mine, anything: 3}, {id: b, type: gopher, menus: {x: y}}]"
    )
    entries = load_sources(tmp_path / "sources.yaml").entries
    assert [e.type for e in entries.values()] == ["mine", "gopher"]
    with pytest.raises(TabootError, match=r"one 1\.2"):
        source_kind("mine").connect(entries["a"], None)


def test_two_packages_of_one_name_and_a_name_of_this_project(site: Path) -> None:
    install(
        site, "taboot-gopher", sources={"files": "taboot_gopher:Gopher", "gopher": "taboot_gopher:Gopher"}
    )
    install(site, "two", modules={}, sources={"gopher": "two:Gopher"})
    assert type_names().count("files") == 1 and source_kind("files").stance is Stance.DOCUMENTS
    for name, why in (("gopher", "both name one"), ("files", "its name must be files")):
        with pytest.raises(TabootError, match=why):
            registry.PLUGINS.get(name)


@pytest.mark.parametrize("value", ["taboot_gopher:Gopher", "taboot_gopher:nothing", "taboot_gopher:WIRES"])
def test_a_format_that_cannot_be_used(site: Path, value: str) -> None:
    install(site, "taboot-gopher", formats={"caddyfile": value})
    with pytest.raises(TabootError, match=r"taboot-gopher 1\.2") as caught:
        formats.PLUGINS.get("caddyfile")
    assert caught.value.code == "E_PLUGIN"
    every: Callable[[], tuple[formats.Format, ...]] = formats.all_formats.__wrapped__
    assert every() == formats.FORMATS


def test_nothing_installed_is_nothing_known(site: Path) -> None:
    assert registry.PLUGINS.names == [] and formats.PLUGINS.names == []
    with pytest.raises(TabootError, match="No installed package has the source type gopher"):
        registry.PLUGINS.get("gopher")
