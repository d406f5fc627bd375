"""Looks into the schema: which section stands at a path, which names it knows, what it accepts."""

from __future__ import annotations

import difflib
from types import NoneType
from typing import Any, get_args, get_origin

from deerflow.config.document import Path
from deerflow.config.section import Section


def key_of(section: type[Section], field: str) -> str:
    """The YAML key of a field: its alias, or its name."""
    return section.model_fields[field].alias or field


def keys(section: type[Section]) -> dict[str, str]:
    """YAML key → field name, in order."""
    return {key_of(section, name): name for name in section.model_fields}


def section_in(annotation: Any) -> type[Section] | None:
    """The section class inside an annotation such as `tuple[ModelConfig, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for part in get_args(annotation):
        found = section_in(part)
        if found is not None:
            return found
    return None


def is_container(annotation: Any) -> bool:
    """Whether an annotation is a list or mapping of values rather than one value."""
    if get_origin(annotation) in (tuple, list, dict):
        return True
    return any(is_container(part) for part in get_args(annotation))


def accepts_none(annotation: Any) -> bool:
    """Whether null is a value."""
    return annotation is NoneType or any(part is NoneType for part in get_args(annotation))


def section_at(root: type[Section], path: Path) -> type[Section] | None:
    """The section class at a path of a file, or None when something else stands there."""
    section: type[Section] | None = root
    inside = False
    for step in path:
        if section is None:
            return None
        if inside:
            inside = False
            continue
        name = keys(section).get(str(step))
        if name is None:
            return None
        annotation = section.model_fields[name].annotation
        inside = is_container(annotation)
        section = section_in(annotation)
    return None if inside else section


def nearest(word: str, words: list[str]) -> str | None:
    """The most similar word, or None when none is similar."""
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return found[0] if found else None


def show(path: Path) -> str:
    """A path as people write it: models[0].max_tokens."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
