"""The YAML of a sources file, and where in it something stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from taboot_pipelines.errors import TabootError


class Place(NamedTuple):
    """A position in a text; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class Document(NamedTuple):
    """What a text says, and the nodes that it was read from."""

    content: Any
    root: yaml.Node

    def place(self, *keys: str | int) -> Place:
        """Where the value under ``keys`` begins, for a field its name; what lacks is where it would stand."""
        node, at = self.root, self.root.start_mark
        for key in keys:
            if isinstance(node, yaml.MappingNode):
                # What a mapping says itself follows what a merge key gave it, and holds.
                found = next(((k, v) for k, v in reversed(node.value) if k.value == str(key)), None)
                if found is None:
                    break
                at, node = found[0].start_mark, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                node = node.value[key]
                at = node.start_mark
            else:
                break
        return Place(at.line + 1, at.column + 1)


class _Loader(yaml.SafeLoader):
    """YAML without surprises. A key given twice is an error, since the first list of sources would vanish
    unseen; a merge key (``<<``) takes one mapping, since lists of aliases can grow without bound."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._flat: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # A mapping that several merge keys name comes here again, its merged keys already in it.
        if id(node) in self._flat:
            return
        self._flat.add(id(node))
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is given twice", key.start_mark
                    )
                seen.add(key.value)
                if key.tag == "tag:yaml.org,2002:merge" and not isinstance(value, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(None, None, "a merge of several", key.start_mark)
        super().flatten_mapping(node)


def parse(data: bytes, path: Path) -> Document:
    """Read YAML with one document. Raises ``E_SOURCES``, which names the place and quotes no content."""

    def bad(what: str) -> TabootError:
        return TabootError("E_SOURCES", f"The sources file {path} {what}.", path=str(path))

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(f"is not UTF-8 (line {line}, byte {error.start + 1} of the file)") from None
    if not text.strip():
        raise bad("is empty")
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise bad("is not a mapping with a list `sources`")
            return Document(loader.construct_document(root), root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" ({Place(mark.line + 1, mark.column + 1)})" if mark else ""
        raise bad(f"is not valid YAML{at}") from None
    except yaml.reader.ReaderError as error:
        raise bad(f"holds a character that YAML forbids (position {error.position + 1})") from None
    except RecursionError:
        raise bad("is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        # PyYAML's constructors let these out for scalars that are not what their form or tag promises.
        raise bad("holds a value that cannot be read") from None
