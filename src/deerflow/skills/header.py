"""Reads the header of a SKILL.md: YAML between dashes, forgiving where the meaning is plain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from deerflow.skills.protocol import SkillProblem

MAX_HEADER = 65_536
"""Characters of a header; a longer one is no header."""
MAX_BRACKETS = 200
"""Opening brackets in a header: a thousand nested ones take the reader of YAML seven seconds."""
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
"""Characters, as the public Agent Skills format limits them."""
MAX_LICENSE = 200

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = re.compile(r"-{3,}\s*")
_PLAIN = re.compile(r"([A-Za-z][\w-]*):\s+(.*\S)\s*")


@dataclass(frozen=True, slots=True)
class Header:
    """What a SKILL.md says of itself.

    Attributes:
        name: valid skill name.
        description: when it is of use.
        allowed_tools: None for all.
        body: the text after the header.
        warnings: what was mended.
        license: or "".
    """

    name: str
    description: str
    allowed_tools: tuple[str, ...] | None
    body: str
    warnings: tuple[str, ...]
    license: str = ""


def read_header(text: str, path: str, folder: str) -> Header | SkillProblem:
    """The header of a file, or why it cannot be used.

    Args:
        text: of the whole file.
        path: virtual path, for messages.
        folder: name of its folder, the skill's name when the header has none.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\0", "")
    lines = text.split("\n")
    if not lines or not _FENCE.fullmatch(lines[0]):
        return SkillProblem(path, 1, "there is no header", _example(folder))
    end = next((n for n, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        return SkillProblem(path, 1, "the header is not closed", "Add a line --- after it.")
    raw = "\n".join(lines[1:end])
    if len(raw) > MAX_HEADER:
        cure = "Move text of the header below the second ---."
        return SkillProblem(path, 1, f"the header has {len(raw)} characters", cure)
    if raw.count("[") + raw.count("{") > MAX_BRACKETS or "- " * 50 in raw:  # slow beyond measure
        cure = "Keep the header to plain keys and lists."
        return SkillProblem(path, 1, "the header is nested too deep", cure)
    values, warnings, problem = _values(raw, path)
    if problem is not None:
        return problem
    for key in ("name", "description"):  # 007 and yes are meant as texts
        _as_text(values, key, lines[1:end], warnings)
    return _checked(values, "\n".join(lines[end + 1 :]).strip("\n"), warnings, path, folder)


def _values(raw: str, path: str) -> tuple[dict[str, Any], list[str], SkillProblem | None]:
    try:
        loaded: Any = cast("Any", YAML(typ="safe", pure=True)).load(raw)
    except (
        YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # a month 13, too many digits
        mended = _line_by_line(raw)
        if mended is not None:
            return mended, ["the header is no valid YAML; it was read line by line"], None
        mark: Any = getattr(error, "problem_mark", None)
        line = int(mark.line) + 2 if mark is not None else 1
        reason = str(getattr(error, "problem", None) or "no valid YAML")
        return {}, [], SkillProblem(path, line, f"header: {reason}", 'Quote the text: "…".')
    if not isinstance(loaded, dict):
        return {}, [], SkillProblem(path, 1, "the header has no keys", _example("my-skill"))
    return {str(key): value for key, value in cast("dict[Any, Any]", loaded).items()}, [], None


def _line_by_line(raw: str) -> dict[str, Any] | None:
    """Top-level `key: text` lines; None when something else is there."""
    found: dict[str, Any] = {}
    for line in raw.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _PLAIN.fullmatch(line)
        if match is None:
            return None
        found[match[1]] = match[2].strip("\"'")
    return found or None


def _checked(
    values: dict[str, Any], body: str, warnings: list[str], path: str, folder: str
) -> Header | SkillProblem:
    name, description = _text(values, "name"), _text(values, "description")
    if not name:
        name = folder
        warnings.append(f"there is no name; its folder's is taken: {folder}")
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        better = "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:MAX_NAME] or "my-skill"
        reason = f"the name {name[:MAX_NAME]!r} has other signs than a-z, 0-9 and hyphens"
        return SkillProblem(path, _line_of(values, "name"), reason, f"Call it {better}.")
    if not description:
        return SkillProblem(path, 1, "there is no description", _example(name))
    if len(description) > MAX_DESCRIPTION:
        description = description[:MAX_DESCRIPTION]
        warnings.append(f"the description is cut at {MAX_DESCRIPTION} characters")
    tools, sound = _tools(values)
    if not sound:  # read as none it would allow everything
        reason = "allowed-tools is no list of names"
        cure = "Write: allowed-tools: [bash, read_file]"
        return SkillProblem(path, _line_of(values, "allowed-tools"), reason, cure)
    licence = " ".join(_text(values, "license").split())[:MAX_LICENSE]
    return Header(name, " ".join(description.split()), tools, body, tuple(warnings), licence)


def _as_text(values: dict[str, Any], key: str, lines: list[str], warnings: list[str]) -> None:
    """Put what was written in the place of a number, a date or a truth value."""
    value = values.get(key)
    if value is None or isinstance(value, str | dict | list):
        return
    written = next((line for line in lines if line.startswith(f"{key}:")), f"{key}: {value}")
    values[key] = written.partition(":")[2].partition(" #")[0].strip()
    warnings.append(f"{key} is no text; put it in quotes")


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    return _printable(value).strip() if isinstance(value, str) else ""


def _printable(text: str) -> str:
    """Without control characters and half surrogate pairs, which escapes in YAML can bring."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _line_of(values: dict[str, Any], key: str) -> int:
    keys = list(values)
    return keys.index(key) + 2 if key in keys else 1


def _tools(values: dict[str, Any]) -> tuple[tuple[str, ...] | None, bool]:
    """`allowed-tools`: a list, or names separated by commas or spaces, brackets kept with them.

    Returns:
        The names, None for all; and whether it could be read.
    """
    keys = [key for key in values if key.lower().replace("_", "-") == "allowed-tools"]
    given = values[keys[0]] if keys else None
    if given is None:
        return None, True
    if isinstance(given, str):
        return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", _printable(given))), True
    if isinstance(given, list):
        names = cast("list[Any]", given)
        return tuple(_printable(str(each)) for each in names), all(
            isinstance(each, str) for each in names
        )
    return None, False


def _example(name: str) -> str:
    return f"Begin the file with:\n---\nname: {name}\ndescription: When to use it.\n---"
