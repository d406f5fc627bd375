"""Packages of which a serving process needs a small module, and never what they offer in all.

`langgraph.runtime` takes one type from `langgraph_sdk.auth`, and LangChain's factory one function
from below `langchain.agents.middleware`; the packages around them would load a client with httpx,
websockets and rich, and middlewares that are not ours: 190 modules, 9 MiB. LangChain's core takes
the record of a traced run from LangSmith, whose client brings a generated API of 180 modules, two
HTTP libraries and the SDK of OpenTelemetry: 15 MiB more. All are loaded in full when somebody uses
one of their names; with tracing switched on, that is the first run. Of the rest, Pydantic's past
belongs to tools of others, the drivers to other databases, and uvicorn's package to reloading.

Pydantic builds validators when they are used, too: most classes of such a process never validate.
"""

from __future__ import annotations

import sys
import threading
import types
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel
from pydantic.warnings import UnsupportedFieldAttributeWarning

LANGSMITH_CLIENT = "langsmith.client"
PACKAGES = frozenset(
    {
        "langchain.agents.middleware",
        "langgraph_sdk",
        LANGSMITH_CLIENT,
        "langsmith._httpx",
        "langsmith._internal._v2_migration_utils",
        "psutil",
        "pydantic.v1",
        "requests",
        "sqlalchemy.dialects.postgresql.asyncpg",
        "sqlalchemy.dialects.postgresql.pg8000",
        "sqlalchemy.dialects.postgresql.psycopg2",
        "sqlalchemy.dialects.postgresql.psycopg2cffi",
        "sqlalchemy.dialects.sqlite.aiosqlite",
        "sqlalchemy.dialects.sqlite.pysqlcipher",
        "urllib3",
        "uvicorn",
    }
)
TAKEN: dict[str, dict[str, type]] = {
    LANGSMITH_CLIENT: dict.fromkeys(
        ("Client", "ID_TYPE", "RUN_TYPE_T", "ReplicaAuth", "_dumps_json", "_ensure_uuid"), object
    ),
    "langsmith._httpx": {"httpx": object},
    "pydantic.v1": {
        **dict.fromkeys(("BaseModel", "Field", "create_model", "validate_arguments"), object),
        "ValidationError": Exception,
    },
    "requests": {"HTTPError": Exception, "Response": object},
    "uvicorn": {"Config": object},
}
"""Names that others take when they are imported, and use later: until the package is loaded, they
are given stand-ins, with these bases (`except` wants an exception)."""
WHOLE: dict[str, tuple[str, ...]] = {
    "pydantic.v1": (),
    "requests": (),
    "urllib3": ("urllib3.exceptions", "urllib3.packages", "urllib3.util"),
}
"""Packages whose modules need each other, so that none is loaded before the package itself; but
these can stand alone."""
_LOADING = threading.RLock()


def postpone() -> None:
    """From now on, load these packages when they are used; for processes that are ours alone."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        BaseModel.model_config["defer_build"] = True
        # as FastAPI does where it makes its adapters, which are built later now
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)


class _Postponed(ModuleType):
    """A package whose own code runs at the first look at one of its names."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # a plain module: `from … import …` asks whether it is a package
            raise AttributeError(name)
        self.load()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    @property
    def loaded(self) -> bool:
        """Whether its own code has begun to run."""
        return "_run" not in self.__dict__

    def load(self) -> None:
        """Run its code, once; who has taken stand-ins gets the real ones."""
        with _LOADING:
            run: Callable[[ModuleType], None] | None = self.__dict__.pop("_run", None)
            if run is None:
                return
            taken = {self.__dict__[name]: name for name in TAKEN.get(self.__name__, ())}
            run(self)
        for module in list(sys.modules.values()):
            for alias, value in list(vars(module).items()):
                if type(value) is _StandIn and value in taken:
                    vars(module)[alias] = self.__dict__[taken[value]]


class _StandIn(type):
    """Class of the stand-ins: all that is done with one is done with what it stands for."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], names: dict[str, Any], **more: Any
    ) -> type:
        if not any(isinstance(base, _StandIn) for base in bases):
            return super().__new__(cls, name, bases, names)
        real = tuple(_real(base) if isinstance(base, _StandIn) else base for base in bases)
        return types.new_class(name, real, more, lambda found: found.update(names))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # typing and pydantic look what it is; it is not used yet
            raise AttributeError(name)
        return getattr(_real(cls), name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real(cls)(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        # before the package is loaded, nothing is an instance of its classes
        return _package(cls).loaded and isinstance(instance, _real(cls))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return _package(cls).loaded and issubclass(subclass, _real(cls))


def _stand_in(package: _Postponed, name: str, base: type) -> type:
    made: type = type.__call__(_StandIn, name, (base,), {"__module__": package.__name__})
    return made


def _package(stand_in: type) -> _Postponed:
    return cast(_Postponed, sys.modules[stand_in.__module__])


def _real(stand_in: type) -> Any:
    package = _package(stand_in)
    package.load()
    return package.__dict__[stand_in.__name__]


class _Loader(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Postponed(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_run"] = self._real.exec_module
        for name, base in TAKEN.get(module.__name__, {}).items():
            module.__dict__[name] = _stand_in(cast(_Postponed, module), name, base)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)  # data and source of the package, as the real one has them


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.rpartition(".")[0]
        above = sys.modules.get(name)
        if isinstance(above, _Postponed) and fullname not in WHOLE.get(name, (fullname,)):
            above.load()
        if fullname not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec
