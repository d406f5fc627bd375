"""Packages of which a serving process needs a small module, and never what they offer in all.

`langgraph.runtime` takes one type from `langgraph_sdk.auth`, and LangChain's factory one function
from below `langchain.agents.middleware`; the packages around them would load a client with httpx,
websockets and rich, and middlewares that are not ours: 190 modules, 9 MiB. They are loaded in full
when somebody asks for one of their names.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

PACKAGES = frozenset({"langchain.agents.middleware", "langgraph_sdk", "uvicorn"})
_LOADING = threading.RLock()


def postpone() -> None:
    """From now on, load these packages when they are used; for processes that are ours alone."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Postponed(ModuleType):
    """A package whose own code runs at the first look at one of its names."""

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            run: Callable[[ModuleType], None] | None = self.__dict__.pop("_run", None)
            if run is not None:
                run(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class _Loader(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Postponed(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_run"] = self._real.exec_module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)  # data and source of the package, as the real one has them


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec
