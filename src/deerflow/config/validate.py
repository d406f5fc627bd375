"""Plain data against the schema: every unknown key a warning, everything else wrong an error."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from deerflow.config.document import Document, Path
from deerflow.config.report import Report
from deerflow.config.section import Section, is_secret, mapping
from deerflow.config.structure import (
    accepts_none,
    is_container,
    keys,
    nearest,
    section_at,
    section_in,
)

S = TypeVar("S", bound=Section)

_SHOWN = 60
"""Characters of a wrong value that a message shows."""


def validate(data: dict[str, Any], schema: type[S], report: Report) -> S | None:
    """The section, with an error in the report for each wrong value and a warning per unknown key.

    A wrong value is reported, taken out of `data`, and the rest is validated again, so that one
    problem never hides another. Whoever calls looks at `report.errors` before using the result.
    Returns None when the rest makes no section.
    """
    _drop_empty(data, schema)
    while True:
        try:
            return schema.model_validate(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
        unknown = [item for item in details if item["type"] == "extra_forbidden"]
        for item in unknown:
            path = _within(data, item["loc"])
            _warn_unknown(path, schema, report)
            _remove(data, path)
        if not unknown:
            paths = _report(details, data, report)
            if not [path for path in paths if _remove(data, path)]:
                return None


def _warn_unknown(path: Path, schema: type[Section], report: Report) -> None:
    parent = section_at(schema, path[:-1])
    near = nearest(str(path[-1]), list(keys(parent))) if parent is not None else None
    hint = f"; did you mean {near}?" if near else ""
    report.unknown_key(path, f"unknown key, ignored{hint}")


def _report(details: list[ErrorDetails], data: dict[str, Any], report: Report) -> list[Path]:
    messages: dict[Path, list[str]] = {}
    for detail in details:
        path = _within(data, detail["loc"], missing=detail["type"] == "missing")
        text = _message(detail)
        if text not in messages.setdefault(path, []):
            messages[path].append(text)
    for path, texts in messages.items():
        if path not in report.broken:
            report.error(path, " or ".join(texts) + _got(path, report.document))
    return list(messages)


def _message(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "this key is needed"
    text = re.sub(r" or instance of \w+", "", detail["msg"].removeprefix("Value error, "))
    text = text.replace("Input should be", "must be").replace("valid dictionary", "mapping")
    text = text.replace("valid tuple", "list").replace("valid string", "text")
    return text.replace("valid integer", "whole number").replace("valid boolean", "true or false")


def _got(path: Path, document: Document) -> str:
    """What the file says, as written there: a value from the environment is never shown."""
    value: Any = document.data
    for step in path:
        found, value = _step(value, step)
        if not found:
            return ""
    if not path or mapping(value) is not None or any(is_secret(str(step)) for step in path):
        return ""
    text = repr(value)
    return f", not {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"


def _within(data: Any, loc: tuple[int | str, ...], *, missing: bool = False) -> Path:
    """The part of pydantic's location that exists in the file; it also names union branches."""
    path: list[str | int] = []
    here = data
    for index, step in enumerate(loc):
        found, value = _step(here, step)
        if found:
            here = value
        if found or (missing and index == len(loc) - 1):
            path.append(step)
    return tuple(path)


def _step(here: Any, step: int | str) -> tuple[bool, Any]:
    """Whether `step` leads on from `here`, and to what."""
    try:
        return True, here[step]
    except (KeyError, IndexError, TypeError):
        return False, None


def _remove(data: Any, path: Path) -> bool:
    """Take out the key at `path`, or the key of the list that holds it; False when it is gone."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if not path:
        return False
    for step in path[:-1]:
        data = data[step]
    if path[-1] not in data:
        return False
    del data[path[-1]]
    return True


def _drop_empty(data: dict[str, Any], schema: type[Section]) -> None:
    """A section or list that is left empty (`tools:`) means its default."""
    for key, name in keys(schema).items():
        if key not in data:
            continue
        annotation = schema.model_fields[name].annotation
        inner = section_in(annotation)
        if data[key] is None:
            grouped = inner is not None or is_container(annotation)
            if grouped and not accepts_none(annotation):
                del data[key]
        elif inner is not None and isinstance(data[key], dict) and not is_container(annotation):
            _drop_empty(data[key], inner)
