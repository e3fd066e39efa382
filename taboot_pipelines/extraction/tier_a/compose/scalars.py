"""Plain scalars as Compose reads them: YAML 1.2 as go-yaml resolves it.

A plain ``0100`` is the number 64, ``0x50`` is 80, ``9_090`` is 9090, and ``3.10`` is 3.1, which is what a
build argument then holds. A quoted scalar, and one that a variable was put into, is the text it is.
"""

from __future__ import annotations

import math
import re

from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node

#: Go's integer literals; underscores have been taken out before.
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
#: Longer ones are numbers that nobody writes.
_MAX_DIGITS = 40


def resolved(node: Node) -> str:
    """The text of a scalar once its number or truth value is resolved; other scalars as they stand."""
    text = node.text
    if node.kind != SCALAR or not node.plain or node.tag is not None or not text:
        return text
    if text in ("True", "TRUE", "False", "FALSE"):
        return text.lower()
    if text[0] not in "+-.0123456789" or len(text) > _MAX_DIGITS:
        return text
    bare = text.replace("_", "")
    integer = _INTEGER.fullmatch(bare)
    if integer is not None and text not in ("-0", "+0"):
        for digits, base in zip(integer.groups()[1:], (16, 2, 8, 10), strict=True):
            if digits is not None and (value := int(integer[1] + digits, base)) < 1 << 64:
                return str(value)
    if _FLOAT.fullmatch(bare) is not None and math.isfinite(float(bare)):
        return repr(float(bare)).removesuffix(".0")
    return text
