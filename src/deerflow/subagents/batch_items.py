"""Items of a batch: read from a list or a file, checked, and put into the prompt template."""

from __future__ import annotations

import csv
import io
import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from deerflow.errors import ToolError

Item = str | dict[str, Any]

MAX_PROMPT = 200_000
"""Characters of one item's prompt (about 50,000 tokens: more leaves a child no room to work)."""

WHOLE = "item"
"""Placeholder that stands for a whole item."""

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}\n]{1,200})\}")
_NAME = re.compile(r"[^\W\d]\w*")
_LINE_END = re.compile(r"\r\n|\r|\n")
_QUOTED = re.compile(r'"[^"]*"')
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Sheet:
    """Items in input order with the place of each, for messages ("line 7", "item 3")."""

    items: list[Item]
    places: list[str]


def listed(values: Sequence[Any]) -> Sheet:
    """Items that stand in the call itself.

    Raises:
        ToolError: one is neither text nor an object.
    """
    places = [f"item {number}" for number in range(1, len(values) + 1)]
    return Sheet([_item(value, place) for value, place in zip(values, places, strict=True)], places)


def parsed(path: str, data: bytes) -> Sheet:
    """Items of a file: JSONL, a JSON list, CSV with a header, or one item per line.

    The ending decides (.jsonl, .json, .csv, .tsv); a file of another name is looked into.

    Raises:
        ToolError: names the line that is broken.
    """
    text = _text(path, data)
    ending = posixpath.splitext(path)[1].lower()
    if ending in (".csv", ".tsv"):
        return _of_table(path, text, "\t" if ending == ".tsv" else _delimiter(text))
    head = text.lstrip()[:1]
    if ending in (".jsonl", ".ndjson"):
        return _of_json_lines(path, text)
    if head == "[":
        found = _of_json(path, text, strict=ending == ".json")
        if found is not None:
            return found
    if head == "{" and (ending == ".json" or _is_object(text.lstrip().split("\n", 1)[0])):
        return _of_json_lines(path, text)
    if ending == ".json":
        raise ToolError(f"{path} holds no JSON list.", cure="Write a list, or one value per line.")
    return _of_lines(text)


def fields_of(items: Iterable[Item]) -> list[str]:
    """Names of the fields of all objects, in order of first appearance."""
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict):
            names.update(dict.fromkeys(item))
    return list(names)


def check_template(template: str, sheet: Sheet) -> None:
    """Refuse a template that does not fit every item, before anything starts.

    Raises:
        ToolError: no placeholder, one that is unknown or missing in an item, or a prompt that is
            too long.
    """
    fields = fields_of(sheet.items)
    known = {*fields, WHOLE}
    used: list[str] = []
    for match in _BRACES.finditer(template):
        name = (match[1] or "").strip()
        if name in known:
            used.append(name)
        elif _NAME.fullmatch(name):
            raise ToolError(
                f"The template has the placeholder {{{name}}}, which no item fills.",
                cure=f"Placeholders: {_offered(fields)}. A literal brace is written twice: "
                f"{{{{{name}}}}}.",
            )
    if not used:
        raise ToolError(
            "The template has no placeholder: every item would get the same prompt.",
            cure=f"Put in one of: {_offered(fields)}, with single braces.",
        )
    for item, place in zip(sheet.items, sheet.places, strict=True):
        _check_item(template, item, place, used)


def rendered(template: str, item: Item) -> str:
    """The prompt for an item. Braces that hold no placeholder stay as they are.

    Where nothing opens with two braces, two closing ones are the end of nested ones.
    """
    doubled = "{{" in template

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0] if doubled else match[0]
        name = match[1].strip()
        if isinstance(item, dict) and name in item:
            return _as_text(item[name])
        return _as_text(item) if name == WHOLE else match[0]

    return _BRACES.sub(fill, template)


def dumped(item: Item) -> str:
    """An item as it is stored."""
    return orjson.dumps(item).decode()


def loaded(text: str) -> Item:
    """What `dumped` was given."""
    return orjson.loads(text)


def brief(item: Item, longest: int = 60) -> str:
    """An item on one line, for people."""
    text = " ".join(_as_text(item).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _check_item(template: str, item: Item, place: str, used: Sequence[str]) -> None:
    lacking = [
        name for name in used if name != WHOLE and not (isinstance(item, dict) and name in item)
    ]
    if lacking:
        raise ToolError(
            f"{place.capitalize()} has no field {lacking[0]!r}: {brief(item)}",
            cure="Add it, or leave the placeholder out of the template.",
        )
    size = len(rendered(template, item))
    if size > MAX_PROMPT:
        raise ToolError(
            f"The prompt for {place} has {size:,} characters, more than {MAX_PROMPT:,}.",
            cure="Put the long text into a file and give its path as the item.",
        )


def _offered(fields: Sequence[str]) -> str:
    names = [*fields[:_SHOWN], *(() if WHOLE in fields else (WHOLE,))]
    return ", ".join(f"{{{name}}}" for name in names) + (" …" if len(fields) > _SHOWN else "")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _item(value: Any, place: str) -> Item:
    kind = type(value).__name__
    try:
        stored = orjson.dumps(value)
    except TypeError as error:  # half a character, a number beyond 64 bits
        raise ToolError(
            f"{place.capitalize()} cannot be stored: {error}.", cure="Correct that value."
        ) from None
    if isinstance(value, str) and value.strip():
        return value
    if value and isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, int | float):
        return stored.decode()
    what = "empty" if not value or kind == "str" else f"a {kind}"
    raise ToolError(
        f"{place.capitalize()} is {what}.", cure="Each item is a text or an object with fields."
    )


def _text(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ToolError(
            f"{path} is not UTF-8 text (line {line}).", cure="Convert it, e.g. with iconv."
        ) from None
    if "\0" in text:
        raise ToolError(f"{path} is not a text file.", cure="Give JSONL, JSON, CSV or lines.")
    return text


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _of_json(path: str, text: str, *, strict: bool) -> Sheet | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not strict:
            return None  # lines that begin with a bracket
        line = getattr(error, "lineno", 1)
        raise ToolError(
            f"{path} is broken JSON at line {line}: {getattr(error, 'msg', error)}.",
            cure="Correct that line.",
        ) from None
    return listed(cast("list[Any]", values)) if isinstance(values, list) else None


def _of_json_lines(path: str, text: str) -> Sheet:
    items: list[Item] = []
    places: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ToolError(
                f"Line {number} of {path} is broken JSON: {getattr(error, 'msg', error)}.",
                cure="Correct or remove that line: each line is one JSON value.",
            ) from None
        places.append(f"line {number}")
        items.append(_item(value, places[-1]))
    return Sheet(items, places)


def _of_lines(text: str) -> Sheet:
    found = enumerate(_LINE_END.split(text), 1)
    lines = [(number, line.strip()) for number, line in found if line.strip()]
    return Sheet([line for _, line in lines], [f"line {number}" for number, _ in lines])


def _delimiter(text: str) -> str:
    head = _QUOTED.sub("", text.lstrip("\r\n").split("\n", 1)[0])
    return next((sign for sign in ",;\t" if sign in head), ",")


def _of_table(path: str, text: str, delimiter: str) -> Sheet:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    items: list[Item] = []
    places: list[str] = []
    header: list[str] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if not header:
                header = _header(path, row)
                continue
            if len(row) != len(header):
                raise ToolError(
                    f"Line {reader.line_num} of {path} has {len(row)} cells, the header "
                    f"{len(header)}.",
                    cure="Correct that line; a cell that holds the separator needs quotes.",
                )
            places.append(f"line {reader.line_num}")
            items.append(dict(zip(header, row, strict=True)))
    except csv.Error as error:
        line = f"Line {reader.line_num} of {path}"
        if "field limit" in str(error):
            raise ToolError(
                f"{line} has a cell of more than {csv.field_size_limit():,} characters.",
                cure="Put the long text into a file and give its path, or use JSONL.",
            ) from None
        raise ToolError(f"{line} is broken CSV: {error}.", cure="Correct that line.") from None
    return Sheet(items, places)


def _header(path: str, row: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in row]
    if not all(names) or len(set(names)) != len(names):
        raise ToolError(
            f"The header of {path} has empty or repeated names: {', '.join(names)}.",
            cure="Give each column a name of its own in the first line.",
        )
    return names
