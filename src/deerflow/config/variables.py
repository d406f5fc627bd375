"""`$NAME` and `${NAME}` inside strings, `$$` for a dollar.

A `$` before anything else stays as it is (`a$1`, `5 $`), and a value from the environment is taken
literally: a `$` inside it is never read again. `pa$$word` is the password `pa$word`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from deerflow.config.document import Path
from deerflow.config.section import mapping

_REFERENCE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<open>\{))"
)


def expand(
    value: Any,
    environ: Mapping[str, str],
    report: Callable[[Path, str], None],
    *,
    missing_is_empty: bool = False,
    path: Path = (),
) -> Any:
    """A copy of `value` with every reference in its strings replaced.

    Args:
        value: mappings, lists and scalars; keys of mappings stay as they are.
        environ: where names are looked up; "" is a value.
        report: called with the path and a message for each missing name or broken reference.
        missing_is_empty: read a missing name as "" and report nothing (extensions_config.json).
        path: where `value` stands.
    """
    given = mapping(value)
    if given is not None:
        return {
            key: expand(item, environ, report, missing_is_empty=missing_is_empty, path=(*path, key))
            for key, item in given.items()
        }
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [
            expand(item, environ, report, missing_is_empty=missing_is_empty, path=(*path, index))
            for index, item in enumerate(items)
        ]
    if not isinstance(value, str) or "$" not in value:
        return value

    def replace(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["open"]:
            report(path, "`${` needs a name and `}`; write `$${` for the characters themselves")
            return match[0]
        name = match["braced"] or match["plain"]
        if name not in environ:
            if not missing_is_empty:
                report(
                    path,
                    f"environment variable {name} is not set; set it (also in .env, also to an "
                    "empty value), or write $$ for a dollar",
                )
            return ""
        return environ[name]

    return _REFERENCE.sub(replace, value)
