"""Where a path that the model gave points to, and what to say when nothing is there."""

from __future__ import annotations

import difflib
import posixpath
import re

from deerflow.errors import SandboxError, ToolError
from deerflow.sandbox.protocol import FileInfo, Sandbox
from deerflow.tools.schema import Runtime, state_of

_ROOTED = re.compile(r"^(?:/|\\|[A-Za-z]:[\\/])")
_SIBLINGS = 500


def current_directory(runtime: Runtime) -> str:
    """Virtual directory of the agent's shell, "" before its first command."""
    sandbox: dict[str, dict[str, str]] = state_of(runtime).get("sandbox") or {}
    return sandbox.get("cwd", {}).get(runtime.context.agent, "")


def located(path: str, runtime: Runtime) -> str:
    """The path with the agent's current directory before a relative one; the sandbox judges it."""
    here = current_directory(runtime)
    if not here or _ROOTED.match(path):
        return path
    return posixpath.join(here, path.replace("\\", "/"))


async def existing_file(path: str, runtime: Runtime, sandbox: Sandbox) -> FileInfo:
    """Facts of a file that must be there.

    Raises:
        ToolError: missing (with the nearest names), or a directory.
        PathError: outside the tree.
    """
    target = located(path, runtime)
    info = await sandbox.stat(target)
    if info is None:
        raise await missing(path, target, sandbox)
    if info.kind == "dir":
        raise ToolError(f"{info.path} is a directory.", cure="List it with ls.")
    return info


async def missing(path: str, target: str, sandbox: Sandbox) -> ToolError:
    """The error for a path where nothing is, naming what is near it."""
    folder, name = posixpath.split(target.rstrip("/"))
    try:
        entries = await sandbox.listdir(folder, limit=_SIBLINGS)
    except SandboxError:
        return ToolError(f"{path} does not exist, nor does its folder.", cure="Look with ls.")
    names = [posixpath.basename(entry.path) for entry in entries]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return ToolError(f"{path} does not exist.", cure=f"Near it: {', '.join(near)}.")
    if not names:
        return ToolError(f"{path} does not exist; its folder is empty.", cure="Look with ls.")
    return ToolError(f"{path} does not exist.", cure=f"There is: {', '.join(names[:10])}.")
