"""Loads DBOS without what a ledger in a SQLite file never uses.

DBOS names SQLAlchemy's ORM, its asyncio part and the driver of PostgreSQL in annotations alone;
its schedules (croniter) and its own configuration file (yaml) are not ours. They are a quarter of
what `import dbos` loads: 0.3 s of CPU and 14 MiB, of which a ledger on SQLite uses nothing. Only
DBOS's own modules are shown stand-ins; everybody else imports as ever.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

PACKAGE = "dbos"
UNUSED = frozenset({"croniter", "psycopg", "sqlalchemy.ext.asyncio", "sqlalchemy.orm", "yaml"})


class _Unused(type):
    """Class of the stand-ins: any attribute is one more, and nothing is an instance of it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unused(name, (), {})

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise ImportError(f"{cls.__name__} is left out of a ledger on SQLite.")


_STAND_INS: dict[str, Any] = {name: type.__call__(_Unused, name, (), {}) for name in UNUSED}


def load_dbos(*, lean: bool) -> None:
    """Import DBOS; later imports of it find it loaded.

    Args:
        lean: leave out what a ledger on SQLite does not use. Nothing is left out when the process
            has loaded DBOS before.
    """
    if PACKAGE in sys.modules or not lean:
        importlib.import_module(PACKAGE)
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(PACKAGE)
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Gives DBOS's modules a loader of their own."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, str(spec.loader.path))
        return spec


class _Loader(SourceFileLoader):
    """Its modules import through `_import`; they have the same builtins otherwise."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    if level == 0 and name in UNUSED and (fromlist or "." not in name):
        return _STAND_INS[name]
    return builtins.__import__(name, globals, locals, fromlist or (), level)
