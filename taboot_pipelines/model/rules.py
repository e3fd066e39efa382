"""What the section ``rules`` of the sources file says of a rule of the house."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

#: So many findings are shown at most.
MAX_FINDINGS = 100_000


class Severity(StrEnum):
    """How bad it is that a rule does not hold; the worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Silence(BaseModel):
    """Where a rule need not hold, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    subject: str = Field(min_length=1, description="What `taboot rules` names; `*` stands for any text.")
    reason: str = Field(min_length=1, max_length=1000, description="Why it is right as it is.")


class RuleEntry(BaseModel):
    """What the house has decided of a rule: how bad it is, and where it need not hold. It counts from the
    next look at the rules on; nothing is ingested anew."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    severity: Severity | None = Field(None, description="How bad it is, instead of what the rule says.")
    silence: list[Silence] = Field(default_factory=list, description="Where it need not hold.")
