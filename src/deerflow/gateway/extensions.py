"""Changes of extensions_config.json by requests: written whole, read again, taken back at need."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deerflow.config.load import LoadedConfig
from deerflow.errors import ConfigError, StorageError
from deerflow.gateway.reload import reload

if TYPE_CHECKING:
    from deerflow.wiring.harness import Harness

FILE = "extensions_config.json"
Change = Callable[[dict[str, Any]], None]
"""Changes the object of the file in place; variables in it are not resolved."""


class Extensions:
    """The file of a process; one change at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def change(self, harness: Harness, change: Change) -> LoadedConfig:
        """Write a change, and work with it from now on.

        Args:
            harness: whose configuration is read again.
            change: of the object.

        Raises:
            ConfigError: the file would be broken, or is already; it is as it was.
            StorageError: it cannot be written.
        """
        async with self._lock:
            path = _place(harness.loaded)
            before = await asyncio.to_thread(_read, path)
            raw = _parsed(before)
            change(raw)
            await asyncio.to_thread(_write, path, json.dumps(raw, indent=2).encode())
            _, fresh = await reload(harness)
            if not fresh.reload_problems:
                return fresh
            problems = list(fresh.reload_problems)
            await asyncio.to_thread(_restore, path, before)
            await reload(harness)
            raise ConfigError(problems, cure="Nothing was changed.")


def _place(loaded: LoadedConfig) -> Path:
    """The file, where there is none its place beside the configuration."""
    if loaded.extensions_path is not None:
        return loaded.extensions_path.resolve()  # a link stays a link
    return (loaded.path.parent if loaded.path else loaded.cwd) / FILE


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{FILE} cannot be read: {error.strerror}.") from error


def _parsed(content: bytes | None) -> dict[str, Any]:
    try:
        raw: Any = json.loads((content or b"{}").decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{FILE}: broken JSON: {error}"]) from error
    if not isinstance(raw, dict):
        raise ConfigError([f"{FILE}: the file must hold keys and values"])
    return cast("dict[str, Any]", raw)


def _write(path: Path, content: bytes) -> None:
    """Replace at once; readable by its owner alone unless it was by others before."""
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except OSError as error:
        raise StorageError(
            f"{FILE} cannot be written: {error.strerror}.", cure="Make its folder writable."
        ) from error


def _restore(path: Path, before: bytes | None) -> None:
    if before is None:
        path.unlink(missing_ok=True)
    else:
        _write(path, before)
