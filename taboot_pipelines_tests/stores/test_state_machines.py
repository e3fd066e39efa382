"""Jobs and batches of interpretation under any sequence of events: no illegal transition is stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import TRANSITIONS, JobState, RunState
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.batches import TIMEOUT_SECONDS
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.jobs import this_process

HOUR = 3600 * 1_000_000
UNITS = ("a", "b", "c")
#: Processes with such ids there are none.
_NOBODY = itertools.count(2**22 + 1)


@contextmanager
def by_a_dead_process(module: str, dead: bool) -> Iterator[None]:
    """What the block records, it records for a process that has ended."""
    process = {**this_process(), "pid": next(_NOBODY)} if dead else this_process()
    with mock.patch(f"taboot_pipelines.stores.catalog.{module}.this_process", return_value=process):
        yield


class Machine(RuleBasedStateMachine):
    """What each was seen as last, and which of them are of dead processes or were silent for too long."""

    catalog: Catalog
    kind: type[JobState] | type[RunState]

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, str] = {}
        self.over: set[str] = set()

    def stored(self) -> dict[str, str]:
        raise NotImplementedError

    def teardown(self) -> None:
        with self.catalog.database.begin(None) as c:
            for table in (t.job, t.interpretation_batch):
                c.execute(sa.delete(table))

    @invariant()
    def every_step_is_legal(self) -> None:
        now = self.stored()
        for name, state in now.items():
            before = self.seen.get(name, state)
            allowed = TRANSITIONS[self.kind][self.kind(before)]
            # Between two looks a pending batch may have run and failed.
            assert state == before or any(
                state == step.value or state in TRANSITIONS[self.kind][step] for step in allowed
            ), (before, state)
        self.seen = now

    def shift(self, table: sa.Table, column: str, key: sa.ColumnElement[bool], micros: int) -> None:
        with self.catalog.database.begin(None) as c:
            c.execute(sa.update(table).where(key).values({column: table.c[column] - micros}))


class Jobs(Machine):
    kind = JobState
    jobs = Bundle("jobs")

    def stored(self) -> dict[str, str]:
        return {row["job_id"]: row["state"] for row in self.catalog.jobs.find("n", limit=1000)}

    @rule(target=jobs, dead=st.booleans())
    def start(self, dead: bool) -> str:
        with by_a_dead_process("jobs", dead):
            job = self.catalog.jobs.start("n", "s")
        if dead:
            self.over.add(job)
        return job

    @rule(job=jobs, state=st.sampled_from(list(JobState)))
    def end(self, job: str, state: JobState) -> None:
        before = JobState(self.stored()[job])
        if state in TRANSITIONS[JobState][before] and state is not JobState.RUNNING:
            self.catalog.jobs.end(job, state, namespace="n")
        elif state not in TRANSITIONS[JobState][before]:
            with pytest.raises(TabootError, match="E_TRANSITION"):
                self.catalog.jobs.end(job, state, namespace="n")
            assert self.stored()[job] == before

    @rule(job=jobs, hours=st.sampled_from([1, 23, 25]))
    def be_silent(self, job: str, hours: int) -> None:
        self.shift(t.job, "updated_at", t.job.c.job_id == job, hours * HOUR)
        if hours > 24:
            self.over.add(job)

    @rule()
    def look_for_dead_ones(self) -> None:
        running = {job for job, state in self.stored().items() if state == JobState.RUNNING.value}
        found = set(self.catalog.jobs.fail_dead())
        assert running & self.over <= found <= running
        assert {self.stored()[job] for job in found} <= {JobState.FAILED.value}


class Batches(Machine):
    kind = RunState
    batches = Bundle("batches")

    def stored(self) -> dict[str, str]:
        return {row["batch_id"]: row["status"] for row in self.catalog.batches.find("n")}

    @rule(target=batches, unit=st.sampled_from(UNITS), dead=st.booleans())
    def announce(self, unit: str, dead: bool) -> str:
        with by_a_dead_process("batches", dead):
            batch, other = self.catalog.batches.announce("n", "s", "A", [unit])
        assert (batch is None) == (other is not None)
        if batch is None:
            return str(other["batch_id"]) if other is not None else ""
        if dead:
            self.over.add(batch)
        return batch

    @rule(target=batches, unit=st.sampled_from(UNITS), dead=st.booleans())
    def begin(self, unit: str, dead: bool) -> str:
        with by_a_dead_process("batches", dead):
            batch = self.catalog.batches.begin("n", "s", "A", [unit])
        if dead:
            self.over.add(batch)
        return batch

    @rule(batch=batches)
    def start(self, batch: str) -> None:
        before = self.stored().get(batch)
        if before == RunState.PENDING.value:
            self.catalog.batches.start("n", batch)
            states = self.stored()
            assert states[batch] == RunState.RUNNING.value
            assert list(states.values()).count(RunState.RUNNING.value) == 1
        else:
            with pytest.raises(TabootError, match="E_NOT_FOUND" if before is None else "E_TIMEOUT"):
                self.catalog.batches.start("n", batch)
            assert self.stored().get(batch) == before

    @rule(batch=batches, how=st.sampled_from(["fail", "withdraw", "beat"]))
    def go_on(self, batch: str, how: str) -> None:
        arguments = ("E_LLM: away",) if how == "fail" else ()
        getattr(self.catalog.batches, how)("n", batch, *arguments)

    @rule(batch=batches)
    def be_silent(self, batch: str) -> None:
        key = t.interpretation_batch.c.batch_id == batch
        self.shift(t.interpretation_batch, "timeout_at", key, (TIMEOUT_SECONDS + 1) * 1_000_000)

    @rule()
    def look_for_stale_ones(self) -> None:
        states = self.stored()
        under_way = {b for b, s in states.items() if s in (RunState.PENDING.value, RunState.RUNNING.value)}
        found = set(self.catalog.batches.fail_stale())
        assert under_way & self.over <= found <= under_way
        assert all(self.stored().get(batch, "failed") == RunState.FAILED.value for batch in found)


@pytest.mark.parametrize("machine", [Jobs, Batches])
def test_no_illegal_transition_is_stored(machine: Any, catalog: Catalog) -> None:
    bound = type(machine.__name__, (machine,), {"catalog": catalog})
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        ),
    )
