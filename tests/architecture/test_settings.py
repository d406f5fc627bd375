"""A key is either read by a part or listed as having no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deerflow.config.schema import AppConfig
from deerflow.config.section import Section
from deerflow.config.structure import keys, section_in
from deerflow.config.unused import UNUSED
from fakes.tree import sources

READ_BY_CONFIG = {
    "config_version",
    "sandbox.allow_host_bash",
    "sandbox.bash_command_timeout",
    "models.display_name",
    "models.supports_reasoning_effort",
    "tools.group",
}
"""Keys whose meaning lies in the configuration itself, or that only people read."""

PENDING: set[str] = set()
"""Keys that a part is still to read; may only shrink."""


def leaves(section: type[Section], above: str) -> Iterator[tuple[str, str]]:
    """Dotted key and field name of everything that is not listed as unused."""
    for key, name in keys(section).items():
        dotted = f"{above}{key}"
        if dotted in UNUSED:
            continue
        inner = section_in(section.model_fields[name].annotation)
        if inner is None:
            yield dotted, name
        else:
            yield from leaves(inner, f"{dotted}.")


def test_every_key_is_read_or_listed_as_unused() -> None:
    text = "\n".join(s.text for s in sources() if not s.module.startswith("deerflow.config"))
    unread = {
        dotted
        for dotted, name in leaves(AppConfig, "")
        if dotted not in READ_BY_CONFIG and not re.search(rf"\.{name}\b", text)
    }
    assert unread <= PENDING, unread - PENDING


def test_the_unused_keys_exist() -> None:
    for dotted in UNUSED:
        section: type[Section] | None = AppConfig
        for key in dotted.split("."):
            assert section is not None, dotted
            assert key in keys(section), dotted
            section = section_in(section.model_fields[keys(section)[key]].annotation)
