"""How often the configured chat model is right: asked about labelled passages, measured by relation, and kept
in a file that says in which relations its facts are served.

Answers are kept like those of documents: asked again, a trial costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import quality
from taboot_pipelines.extraction.quality import ALL, Score
from taboot_pipelines.extraction.tier_c import calibration
from taboot_pipelines.knowledge.window_requests import (
    RequestAccount,
    RequestSettings,
    WindowRequest,
    WindowRequester,
    question_tokens,
)
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.disk import replace_file

_FILE = "calibration.json"


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured of a model, {relation: score}, ``all`` the sum: on the passages of the package with
    those of the user, and against what Tiers A and B read in them (``agreement``).

    ``failed``: windows whose answers cannot be used. ``served``: the relations in which its facts are served.
    """

    model: str
    passages: int
    own_passages: int
    scores: Mapping[str, Score]
    agreement: Mapping[str, Score]
    failed: int
    account: RequestAccount
    served: Sequence[str]
    min_precision: float
    file: Path


def try_model(
    workspace: Workspace, namespace: str, asking: RequestSettings, progress: Callable[[int, int], None]
) -> Trial:
    """Ask the model about all labelled passages, measure its answers, and write the calibration.

    ``asking``: how the workspace's chat model is asked. Raises what stopped the asking (the server, the
    budget, the quota), and ``E_PATH`` if the file cannot be written; nothing is written then.
    """
    chat = workspace.chat
    assert chat is not None
    settings = workspace.settings
    packaged = list(calibration.packaged_passages())
    own = [] if settings.extraction.gold is None else quality.read_passages(settings.extraction.gold)
    passages = [*packaged, *own]
    counter, limit = asking.counter, settings.extraction.window_tokens
    sheets = calibration.sheets(packaged, counter, limit)
    # Beside passages of the user, those of the package are read in the same windows as without them.
    sheets += calibration.sheets(own, counter, limit, first=len(packaged))
    failures: list[TabootError] = []
    asker = WindowRequester(
        workspace.catalog, namespace, chat, asking, lambda _, error: failures.append(error), progress
    )
    windows = dict(one for sheet in sheets for one in calibration.keyed(sheet, asking.model))
    answers = asker.known(list(windows))
    asker.account.windows, asker.account.cached = len(windows), len(answers)
    missing = {key: window for key, window in windows.items() if key not in answers and not window.over}
    answers |= asker.ask([WindowRequest(k, w, question_tokens(asking, w)) for k, w in missing.items()])
    stopped = asker.end()
    if stopped is not None:
        raise stopped
    found = calibration.told(sheets, answers, asking.model, len(passages))
    scores = quality.score(found, passages)
    file = calibration_file(settings)
    measured = {
        relation: [s.matched, s.found, s.labelled] for relation, s in scores.items() if relation != ALL
    }
    _write(file, asking.model, {"version": calibration.version(), "relations": measured})
    rules = [
        replace(passage, labels=tuple(said))
        for passage, said in zip(passages, quality.found_by_rules(passages), strict=True)
    ]
    now = replace(asking, precision=measured_precision(settings, asking.model))
    return Trial(
        asking.model,
        len(packaged),
        len(own),
        scores,
        quality.score(found, rules),
        len(failures),
        asker.account,
        now.served,
        now.min_precision,
        file,
    )


def calibration_file(settings: Settings) -> Path:
    """Where what was measured of models is kept."""
    return settings.extraction.calibration or settings.home / _FILE


def measured_precision(settings: Settings, model: str) -> dict[str, float]:
    """Return how often a model was right, by relation, as if one more were right and one wrong.

    So few say little. Empty for a model that was not measured, or not with today's prompt and reading. Raises
    ``E_SCHEMA_INVALID`` for a calibration that is none, ``E_PATH`` for one that cannot be read.
    """
    said = _read(calibration_file(settings)).get(model)
    try:
        if said is None or said["version"] != calibration.version():
            return {}
        relations = {r: (int(right), int(told)) for r, (right, told, _) in said["relations"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _no_calibration(calibration_file(settings)) from error
    return {r: round((right + 1) / (told + 2), 3) for r, (right, told) in relations.items()}


def unmeasured(asking: RequestSettings, candidates: int) -> dict[str, str]:
    """Return the note of a run that keeps so many facts as candidates."""
    if not asking.precision:
        why = f"{asking.model} is not calibrated"
    else:
        served = ", ".join(asking.served) or "no relation"
        why = f"{asking.model} was measured to be right {asking.min_precision:.0%} of the time in {served}"
    error = TabootError("E_UNCALIBRATED", f"{why}: {candidates} of its facts are not served.")
    return {"code": error.code, "message": error.message, "remedy": error.remedy}


def _read(file: Path) -> Mapping[str, Any]:
    """Return what a file says of models; a file that is not there says nothing yet."""
    try:
        said = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise TabootError("E_PATH", f"{file} cannot be read: {type(error).__name__}.") from error
    except ValueError as error:
        raise _no_calibration(file) from error
    if not isinstance(said, dict):
        raise _no_calibration(file)
    return said


def _write(file: Path, model: str, measured: Mapping[str, Any]) -> None:
    """Write what was measured of a model beside that of others, whole or not at all."""
    kept = _read(file)
    said = json.dumps({**kept, model: measured}, indent=1, sort_keys=True) + "\n"
    try:
        replace_file(file, said.encode())
    except OSError as error:
        raise TabootError("E_PATH", f"{file} cannot be written: {type(error).__name__}.") from error


def _no_calibration(file: Path) -> TabootError:
    return TabootError(
        "E_SCHEMA_INVALID", f"{file} is no calibration.", remedy="Delete it; `taboot models try` writes it."
    )
