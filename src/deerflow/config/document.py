"""A YAML text as plain data plus the line of every key; duplicate keys are all reported."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from deerflow.config.section import mapping

Node = Any
"""A node of ruamel.yaml, which has no type hints; `id` tells scalar, sequence and mapping apart."""

Path = tuple[str | int, ...]
"""Where a value stands: ("models", 0, "max_tokens")."""

_PREFIX = "tag:yaml.org,2002:"
_VALUES = 200_000
"""Values of a file, those counted again that an alias repeats: nested aliases grow without end."""
_PLAIN = frozenset({"null", "bool", "int", "float"})
_TEXT = frozenset({"str", "timestamp", "value"})


@dataclass(slots=True)
class Document:
    """What a file says.

    Attributes:
        data: mappings, lists and scalars; {} for an empty file.
        lines: line, from 1, of each key and list item by its path.
        problems: (line, path, message) of everything wrong with the text itself.
    """

    data: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    problems: list[tuple[int, Path, str]] = field(default_factory=list[tuple[int, Path, str]])

    def line(self, path: Path) -> int:
        """The line of a path, or of its nearest parent that stands in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(text: str) -> Document:
    """Parse YAML 1.2 text. Never raises; what is wrong is in `problems`."""
    document = Document()
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        root: Any = yaml.compose(text)
        if root is None or (root.id == "scalar" and root.tag == f"{_PREFIX}null"):
            return document
        if root.id != "mapping":
            document.problems.append((1, (), "the file must hold keys and values"))
            return document
        document.data = _Walk(yaml, document).mapping(root, ())
    except YAMLError as error:
        if isinstance(error, MarkedYAMLError):
            document.problems.append(_syntax(error))
            return document
        document.problems.append((1, (), f"broken YAML: {' '.join(str(error).split())}"))
    except RecursionError:
        document.problems.append((1, (), "broken YAML: nested too deeply"))
    return document


def read_json(text: str) -> Document:
    """Parse JSON text, with the lines of its keys. Never raises; what is wrong is in `problems`."""
    try:
        data = mapping(json.loads(text))
    except json.JSONDecodeError as error:
        return Document(problems=[(error.lineno, (), f"broken JSON: {error.msg}")])
    except RecursionError:
        return Document(problems=[(1, (), "broken JSON: nested too deeply")])
    if data is None:
        return Document(problems=[(1, (), "the file must hold keys and values")])
    # JSON is YAML but for tabs (which stand outside strings only), so the lines come from there.
    lines = read_document(text.expandtabs())
    return Document(data, lines.lines, [each for each in lines.problems if each[1]])


def _syntax(error: Any) -> tuple[int, Path, str]:
    mark = error.problem_mark or error.context_mark
    what = " ".join(str(error.problem or error.context or "cannot be read").split())
    return (mark.line + 1 if mark is not None else 1, (), f"broken YAML: {what}")


class _Walk:
    """Turns nodes into data and notes lines and problems on the way."""

    def __init__(self, yaml: Any, document: Document) -> None:
        self._construct = yaml.constructor
        self._document = document
        self._open: set[int] = set()
        self._left = _VALUES

    def value(self, node: Node, path: Path) -> Any:
        self._left -= 1
        if self._left < 0:
            raise YAMLError(f"more than {_VALUES:,} values, aliases included")
        if node.id == "scalar":
            return self._scalar(node, path)
        if id(node) in self._open:
            self._problem(node, path, "an alias must not stand inside its own anchor")
            return None
        self._open.add(id(node))
        try:
            return self.mapping(node, path) if node.id == "mapping" else self._items(node, path)
        finally:
            self._open.discard(id(node))

    def mapping(self, node: Node, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value in _pairs(node):
            line = _line(key)
            if key.tag == f"{_PREFIX}merge":
                for source in value.value if value.id == "sequence" else [value]:
                    merged = {**self._merge(source, path), **merged}
                continue
            if key.id != "scalar":
                self._problem(key, path, "a key must be a single word")
                continue
            name = str(key.value)
            here = (*path, name)
            if name in first:
                self._document.problems.append(
                    (line, here, f"duplicate key, first given in line {first[name]}")
                )
                continue
            first[name] = line
            self._document.lines[here] = line
            data[name] = self.value(value, here)
        return {**merged, **data}

    def _merge(self, node: Node, path: Path) -> dict[str, Any]:
        value = mapping(self.value(node, path))
        if value is not None:
            return value
        self._problem(node, path, "<< needs a mapping")
        return {}

    def _items(self, node: Node, path: Path) -> list[Any]:
        found: list[Any] = []
        for index, item in enumerate(node.value):
            self._document.lines[(*path, index)] = _line(item)
            found.append(self.value(item, (*path, index)))
        return found

    def _scalar(self, node: Node, path: Path) -> Any:
        tag = str(node.tag).removeprefix(_PREFIX)
        if tag in _PLAIN:
            try:
                return self._construct.construct_object(node)
            except ValueError:  # Python refuses numbers of more than 4300 digits
                self._problem(node, path, "the number is too long")
                return None
        if tag not in _TEXT:
            self._problem(node, path, f"tag {node.tag} is not supported")
        text = str(node.value)
        if text.isascii():
            return text
        # JSON text writes 🦌 as two escapes, which YAML leaves apart
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _problem(self, node: Node, path: Path, message: str) -> None:
        self._document.problems.append((_line(node), path, message))


def _pairs(node: Node) -> list[tuple[Node, Node]]:
    return list(node.value)


def _line(node: Node) -> int:
    mark: Any = node.start_mark
    return int(mark.line) + 1
