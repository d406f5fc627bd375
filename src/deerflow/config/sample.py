"""Writes the schema as a commented YAML file, and a configuration with its secrets masked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast

from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

from deerflow.config.schema import AppConfig
from deerflow.config.section import Section
from deerflow.config.structure import is_container, keys, section_in
from deerflow.config.unused import UNUSED

_HEAD = """\
# Every key with its default; a key that is left out has this value.
# `deerflow config sample` writes this file, `deerflow config check` reads yours.
# $NAME and ${NAME} take a value from the environment or from .env; $$ is a dollar.
"""


def sample() -> str:
    """The sample file: all keys in order, each with its description and its default."""
    return _HEAD + "\n".join(_section(AppConfig, AppConfig(), "", "")) + "\n"


def dump(value: Any) -> str:
    """YAML text of plain data."""
    yaml: Any = YAML(typ="rt")
    yaml.width = 100
    yaml.allow_unicode = True
    out = io.StringIO()
    yaml.dump(value, out)
    return out.getvalue()


def scalar(value: Any) -> str:
    """One value as YAML in one line."""
    if isinstance(value, Section):
        value = value.model_dump(mode="json", by_alias=True)
    if value is None:
        return "null"
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 10_000
    out = io.StringIO()
    yaml.dump(list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value, out)
    return out.getvalue().removesuffix("...\n").strip()


def _section(section: type[Section], values: Any, indent: str, dotted: str) -> Iterator[str]:
    for key, name in keys(section).items():
        path = f"{dotted}.{key}" if dotted else key
        field = section.model_fields[name]
        value = getattr(values, name)
        inner = section_in(field.annotation)
        if not dotted:
            yield ""
        yield f"{indent}# {_comment(field, path)}"
        if isinstance(value, Section):
            yield f"{indent}{key}:"
            yield from _section(type(value), value, f"{indent}  ", path)
            continue
        yield f"{indent}{key}: {scalar(value)}"
        if inner is not None and not value:
            yield from _example(inner, indent, field)


def _example(section: type[Section], indent: str, field: FieldInfo) -> Iterator[str]:
    """The keys of an entry, as comments."""
    mapped = str(field.annotation).startswith("dict")
    if mapped:
        yield f"{indent}#   NAME:"
    lead = "    " if mapped else "- " if is_container(field.annotation) else ""
    for key, name in keys(section).items():
        entry = section.model_fields[name]
        needed = entry.is_required()
        default = "needed" if needed else scalar(entry.get_default(call_default_factory=True))
        yield f"{indent}#   {lead}{key}: {default}  # {entry.description}"
        lead = " " * len(lead)


def _comment(field: FieldInfo, dotted: str) -> str:
    note = f" (No effect: {UNUSED[dotted]}.)" if dotted in UNUSED else ""
    return f"{field.description}{note}"
