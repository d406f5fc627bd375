"""Tries the levels of isolation by starting a real sandbox of each, strongest first."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deerflow.errors import SandboxError
from deerflow.sandbox import landlock, seccomp
from deerflow.sandbox.premises import Premises
from deerflow.sandbox.protocol import Level, ProbeReport, ThreadFolders
from deerflow.sandbox.python import describe
from deerflow.sandbox.shell import Shell

_TRIAL: Final = (
    "touch /mnt/user-data/workspace/trial && grep -q '^Seccomp:.*2' /proc/self/status && echo ready"
)
_TRIAL_HOST: Final = "touch /mnt/user-data/workspace/trial && echo ready"
_TRIAL_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The report; whether any level works; whether it comes with mounts of its own."""

    report: ProbeReport
    works: bool
    mounts: bool


async def probe(premises: Premises, levels: Sequence[Level]) -> Finding:
    """The strongest of the levels that works here.

    Args:
        premises: opened.
        levels: what to try, strongest first.
    """
    reasons: list[str] = []
    reason = ""
    facts = features(premises)
    python = await asyncio.to_thread(describe, premises.python)
    for level in levels:
        for mounts in (True, False) if level == "landlock" and os.geteuid() == 0 else (False,):
            reason = _lacking(premises, level) or await _try(premises, level, mounts)
            if not reason:
                facts["mounts"] = mounts or level == "bwrap"
                facts["weaknesses"] = _weaknesses(premises, level)
                return Finding(ProbeReport(level, tuple(reasons), facts, python), True, mounts)
        reasons.append(f"{level}: {reason}")
    return Finding(ProbeReport("none", tuple(reasons), facts, python), False, False)


def features(premises: Premises) -> dict[str, object]:
    """What the machine offers."""
    facts: dict[str, object] = {
        "bwrap": premises.bwrap or None,
        "landlock_abi": landlock.abi(),
        "seccomp": seccomp.supported(),
        "cgroup": premises.groups.version,
        "own_uid": premises.privileged,
        "network": premises.config.network,
    }
    if premises.groups.reason:
        facts["cgroup_reason"] = premises.groups.reason
    return facts


def _lacking(premises: Premises, level: Level) -> str:
    """What is missing before anything is started."""
    if level == "host":
        return ""
    if not seccomp.supported():
        return f"no system call filter for {platform.machine()}"
    if level == "bwrap" and not premises.bwrap:
        return "bubblewrap is not installed (apt install bubblewrap)"
    if level == "landlock" and not landlock.abi():
        return "the kernel has no Landlock, or it is switched off (lsm=... at boot)"
    return ""


async def _try(premises: Premises, level: Level, mounts: bool) -> str:
    """Start one sandbox of the level; "" when its command ran, else why not."""
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="trial-", dir=premises.state)
    try:
        folders = ThreadFolders(root=Path(folder) / "user-data")
        estate = await premises.settle(f"trial-{level}", folders, level, mounts=mounts)
        shell = Shell(estate.ground)
        try:
            trial = _TRIAL_HOST if level == "host" else _TRIAL
            result = await shell.run(trial, alone=True, seconds=_TRIAL_SECONDS)
        finally:
            await premises.leave(estate, [shell.close])
        return "" if result.output == "ready\n" else "its first command failed"
    except SandboxError as error:
        return error.message.removeprefix("The sandbox's shell did not start: ").rstrip(".")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, True)


def _weaknesses(premises: Premises, level: Level) -> list[str]:
    """What this level does not give here; for the operator."""
    found: list[str] = []
    if level == "host":
        return ["nothing is isolated"]
    if premises.groups.version == "none":
        found.append("no cgroup: memory is limited per process")
    if os.geteuid() == 0 and not premises.privileged:
        found.append("the server is root but may not change uids: sandboxes run as its own user")
    if level == "landlock":
        if not premises.privileged:
            found.append("the process limit counts all processes of the server's user")
        found.append("command lines of other processes can be read")
        if not landlock.scopes_signals(landlock.abi()) and not premises.privileged:
            found.append("processes of the same user can be signalled (Landlock before ABI 6)")
    return found
