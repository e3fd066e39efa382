"""Spread the tests over the workers of a run (``pytest -n auto``): what shares something stays in one worker.

The hooks of pytest and of pytest-xdist; ``conftest.py`` imports them. A worker tells the process that started
the run which test belongs to which group by a file in the run's folder, and does not write it into the test's
name as ``--dist loadgroup`` does: pytest 9.2 does not let it, and the tests are then spread as if the marks
were not there (pytest-xdist issue 1386).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from taboot_pipelines_tests import needs, servers
from taboot_pipelines_tests.forked import read_at_start

#: The file of a run's folder that says which test belongs to which group.
GROUPS = "groups.json"


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(_OBJECTS)
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if not told:
        _keep_files_in_memory()
    servers.RUN = servers.Run(told.get("servers"))
    if not told:
        needs.refuse_to_leave_out()
    _pass_over_full_stacks()


#: New objects after which Python looks for garbage. At its default of 700 a seventh of a run's time went into
#: that, since the tests that a worker has collected, and all that they import, are looked through each time.
_OBJECTS = 20_000


def pytest_collection_finish(session: pytest.Session) -> None:
    """Pass over what is there for the whole run when garbage is looked for."""
    gc.collect()
    gc.freeze()


#: Where Linux keeps files in memory, and the room that a run's files have there.
_MEMORY, _ROOM = Path("/dev/shm"), 10 * 1024**3


def _keep_files_in_memory() -> None:
    """Let temporary files of this run, its workers and their processes lie in memory where there is room for
    them: the tests write and remove hundreds of thousands, for each of which some disks are waited for.
    """
    if "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    found = os.statvfs(_MEMORY)
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available // 2)
    if room >= _ROOM and not found.f_flag & os.ST_NOEXEC and os.access(_MEMORY, os.W_OK):
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # it was chosen before


def _pass_over_full_stacks() -> None:
    """Let a finalizer fail where the stack is full: pytest would fail the test that filled it on purpose.

    Texts nested without end are among the hostile input. Garbage that is collected just when the stack has no
    room left cannot run its finalizer, and pytest's own hook, which tells of that, cannot run either.
    """
    told = sys.unraisablehook

    def tell(unraisable: sys.UnraisableHookArgs, /) -> None:
        if unraisable.exc_type is not RecursionError:
            told(unraisable)

    sys.unraisablehook = tell


def pytest_unconfigure(config: pytest.Config) -> None:
    servers.RUN.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    needs.summary(terminalreporter)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name binary data by its argument: workers must name a test alike, and packed bytes hold a clock."""
    return argname if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a server and what is slow, skip what needs what is not here, note the groups, and put
    what is slow first, and of the rest what is shared last.

    A worker that began the longest test last would end alone: the scheduler takes from both ends.
    Acceptance tests are slow by nature: they run the whole chain on real data.
    """
    groups = {}
    for item in items:
        if not servers.FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("server")
        if item.path.parent.name == "acceptance":
            item.add_marker("slow")
        needs.leave_out(item)
        groups[item.nodeid] = group_of(item)
    # Sorting is stable, so that a group stays in its order.
    slow = {groups[item.nodeid] for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> int:
        group = groups[item.nodeid]
        shared = "::" not in group
        return (0 if shared else 1) if group in slow else (3 if shared else 2)

    items.sort(key=place)
    if hasattr(config, "workerinput"):
        written = servers.RUN.folder / f"{servers.WORKER}.{GROUPS}"
        written.write_text(json.dumps(groups))
        written.replace(servers.RUN.folder / GROUPS)


def group_of(item: pytest.Item) -> str:
    """What a test shares with others so that all of them must run in one worker; its own name if nothing.

    That is what its mark ``alone_with`` names; else Neo4j, which has one database, whose constraints some
    tests drop; else a fixture that a module or a package makes once. A fixture of a session does not hold
    tests together: each worker makes its own.
    """
    if marked := item.get_closest_marker("alone_with"):
        return str(marked.args[0])
    if "neo4j_url" in getattr(item, "fixturenames", ()):
        return "neo4j"
    known: Any = getattr(item, "_fixtureinfo", None)
    used = [definitions[-1] for definitions in known.name2fixturedefs.values()] if known else []
    shared = [str(made.baseid) for made in used if made.scope in ("class", "module", "package")]
    return min(shared, key=len, default=item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note which test runs, so that one that starts a server without the mark is told.

    Afterwards the variables are put back that a program reads as it starts: a command called in this process
    sets some for itself, and those called after it would each start an interpreter (``forking.py``).
    """
    servers.RUN.item = item
    before = read_at_start(os.environ)
    try:
        return (yield)
    finally:
        servers.RUN.item = None
        for name in read_at_start(os.environ).keys() - before:
            del os.environ[name]
        os.environ.update(before)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """``-n auto``: two workers more than there are cores, since a good part of the tests' time is waiting.

    ``-n logical`` stays one for each core, for tests that wait little: a worker takes ten seconds of a core
    to import and collect all tests.
    """
    named = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    if named or config.option.numprocesses != "auto":
        return int(named) if named else None
    return 2 + (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker that is about to start where the run's servers live."""
    node.workerinput["servers"] = str(servers.RUN.folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand out groups: half of the workers begin with what is slow, the others with the rest.

    What is slow waits more than it computes, for a browser, a server or a daemon. If all workers waited at
    once, the cores would stand still.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        """A scope is a group."""

        known: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.known is None:
                self.known = json.loads((servers.RUN.folder / GROUPS).read_text())
            return self.known[nodeid]

        def _assign_work_unit(self, node: Any) -> None:
            # What is done is counted again at each test's end as long as it is kept.
            assigned = self.assigned_work[node]
            for group in [group for group, tests in assigned.items() if all(tests.values())]:
                del assigned[group]
            if self.nodes.index(node) >= self.numnodes // 2:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return Groups(config, log)
