"""Secrets of entries: an entry names the environment variable that holds one, and never the secret itself."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.errors import TabootError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,199})\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("is not of the form `${NAME}`; set that environment variable to the secret")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("is not the name of an environment variable")
    return value


#: ``${NAME}``: the secret in the environment variable NAME.
SecretReference = Annotated[str, AfterValidator(_reference)]
#: The name of an environment variable that holds a secret.
VariableName = Annotated[str, AfterValidator(_variable)]


def secret_of(access: Access, reference: str | None, variable: str | None) -> SecretStr | None:
    """The secret that a pair of fields such as ``token`` and ``token_env`` names; None where neither is set.

    Raises ``E_CONFIG`` with the variable's name where that is not set.
    """
    match = _REFERENCE.fullmatch(reference) if reference is not None else None
    name = match[1] if match is not None else variable
    return None if name is None else access.secrets(name)


def header_value(secret: SecretStr, what: str) -> str:
    """The secret as an HTTP header carries it. Raises ``E_CONFIG`` where it cannot (a line break, say)."""
    value = secret.get_secret_value().strip()
    if not re.fullmatch(r"[\x20-\x7e]+", value):
        raise TabootError("E_CONFIG", f"The {what} holds characters that an HTTP header cannot carry.")
    return value
