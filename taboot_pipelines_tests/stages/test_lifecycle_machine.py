"""The life of documents under any sequence of events: no illegal transition is stored, each legal one is
audited, and nothing is deleted without a week's notice.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from unittest import mock

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taboot_pipelines.model.jobs import Lifecycle, check_transition
from taboot_pipelines.model.retention import DAY, NOTICE_DAYS
from taboot_pipelines.stages import deletion, retention
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

NAMES = ("cache.md", "vault.md")
SERVED = {Lifecycle.ACTIVE.value, Lifecycle.EXPIRING.value}
names = st.sampled_from(NAMES)


class Killed(BaseException):
    """The process ends here."""


class Lives(RuleBasedStateMachine):
    """Two documents of a source whose policy changes; ``age`` is how time passes."""

    world: World
    expired: int = 0

    @initialize(days=st.sampled_from([3, 10, 40]))
    def begin(self, days: int) -> None:
        self.edits = itertools.count()
        self.settle(days)
        for name in NAMES:
            self.write(name)
        self.world.ingest()

    def settle(self, days: int | None) -> None:
        fields = {} if days is None else {"retention_days": days}
        self.folder = self.world.source("guides", **fields)

    def doc_id(self, name: str) -> str:
        return self.located()[name].doc_id

    def located(self):  # type: ignore[no-untyped-def]
        return self.world.workspace.catalog.locators.of_source("default", "guides", state=None)

    # Events -------------------------------------------------------------------------------------------------

    def write(self, name: str) -> None:
        (self.folder / name).write_text(f"# {name}\n\nIt keeps the sessions of night {next(self.edits)}.\n")

    @rule(name=names, written=st.booleans())
    def change(self, name: str, written: bool) -> None:
        if written:
            self.write(name)
        else:
            (self.folder / name).unlink(missing_ok=True)
        self.world.ingest(confirm_deletes=True)

    @rule(days=st.sampled_from([None, 3, 10, 40]))
    def set_policy(self, days: int | None) -> None:
        self.settle(days)
        self.world.ingest(confirm_deletes=True)

    @rule(days=st.sampled_from([0, 6, 8, 35]))
    def let_time_pass(self, days: int) -> None:
        """Then comes a pass of retention. What it deletes was announced long enough ago."""
        self.world.age(days)
        before, now = self.located(), now_micros()
        done = retention.run(self.world.workspace, "default", now)
        after = self.located()
        gone = [x for n, x in before.items() if x.lifecycle in SERVED and after[n].lifecycle not in SERVED]
        assert len(gone) == done.expired
        for x in gone:
            policy = self.world.workspace.catalog.retention.all("default").of("guides", x.doc_id)
            assert x.lifecycle == Lifecycle.EXPIRING.value and x.announced_at is not None
            assert policy is not None and policy.days is not None
            assert now - x.announced_at >= min(policy.days, NOTICE_DAYS) * DAY
        self.expired += len(gone)

    @rule(days=st.sampled_from([8, 35]), when=st.sampled_from(["expire", "_delete", "_carry_out"]))
    def let_a_pass_be_killed(self, days: int, when: str) -> None:
        self.world.age(days)
        with mock.patch.object(deletion, when, side_effect=Killed), suppress(Killed):
            retention.run(self.world.workspace, "default", now_micros())
        deletion.finish_pending(self.world.workspace, "default")

    @rule()
    def let_a_week_pass(self) -> None:
        self.let_time_pass(8)

    @rule(name=names, days=st.sampled_from([None, 2, 20, "as its source"]))
    def keep(self, name: str, days: int | str | None) -> None:
        if self.located()[name].state != "present":
            return
        if isinstance(days, str):
            retention.keep_as_source(self.world.workspace, "default", [self.doc_id(name)])
        else:
            retention.keep(self.world.workspace, "default", [self.doc_id(name)], days)

    @rule(name=names)
    def delete_or_restore(self, name: str) -> None:
        doc_id = self.doc_id(name)
        if doc_id in self.world.workspace.catalog.tombstones.all("default"):
            deletion.restore(self.world.workspace, "default", [doc_id])
        elif self.located()[name].state == "present":
            deletion.delete(self.world.workspace, "default", [doc_id])

    # What always holds --------------------------------------------------------------------------------------

    @invariant()
    def every_transition_is_legal_and_audited(self) -> None:
        steps: dict[str, list[tuple[str, str]]] = {}
        for row in self.world.workspace.catalog.audit_log.all("default"):
            if row["kind"] == "lifecycle":
                told = orjson.loads(row["details"])
                for doc_id in told["doc_ids"]:
                    steps.setdefault(doc_id, []).append((told["from"], told["to"]))
        for x in self.located().values():
            own = steps.get(x.doc_id, [(Lifecycle.INGESTED.value, Lifecycle.INGESTED.value)])
            assert own[0][0] == Lifecycle.INGESTED.value and own[-1][1] == x.lifecycle
            for before, after in own if x.doc_id in steps else ():
                check_transition(Lifecycle(before), Lifecycle(after))
            assert all(one[1] == other[0] for one, other in itertools.pairwise(own))

    @invariant()
    def what_is_served_is_what_lives(self) -> None:
        living = {name for name, x in self.located().items() if x.lifecycle in SERVED}
        assert set(self.world.kb().documents().column("path").to_pylist()) == living


def test_documents_live_and_go_as_they_may(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> None:
    made: list[Lives] = []

    def machine() -> Lives:
        made.append(Lives())
        made[-1].world = World(tmp_path_factory.mktemp("lives"), tei.url)
        return made[-1]

    try:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            machine,
            settings=settings(
                max_examples=12,
                stateful_step_count=12,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for lives in made:
            lives.world.workspace.close()
    assert sum(lives.expired for lives in made) > 0, "no sequence came to where documents expire"
