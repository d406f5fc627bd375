"""A server process that holds sandboxes until it is killed: run by tests as an own process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

from deerflow.errors import SandboxError
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import Level
from fakes.sandboxes import folders_of, make_provider


async def hold(level: Level, home: Path) -> None:
    """Start a sandbox with background processes, say its uid and launcher, and wait for ever."""
    provider = make_provider(level, home)
    sandbox = await provider.acquire("one", folders_of(home))
    await sandbox.run("setsid sleep 777 & (sleep 778 &); nohup sleep 779 >/dev/null 2>&1 &")
    estate = sandbox.estate
    group = estate.ground.group
    facts = {
        "launcher": estate.ground.nursery.pid,
        "uid": estate.owner[0] if estate.owner else None,
        "groups": group.entries if group else [],
    }
    print(json.dumps(facts), flush=True)
    await sandbox.run("sleep 780")


async def report(home: Path) -> None:
    """Say what the probe finds here, and what a first command prints."""
    provider = LocalProvider(make_provider("bwrap", home)._premises.config, state=home / "sandbox")
    found = await provider.probe()
    said = ""
    try:
        sandbox = await provider.acquire("one", folders_of(home))
        said = (await sandbox.run("pwd; cat /etc/shadow; grep Seccomp: /proc/self/status")).output
    except SandboxError as error:
        said = str(error)
    await provider.close()
    facts = {"level": found.level, "reasons": found.reasons, "said": said}
    print(json.dumps(facts | {"features": found.features}))


def main() -> None:
    """hold LEVEL HOME, or report HOME."""
    task, *rest = sys.argv[1:]
    if task == "hold":
        asyncio.run(hold(cast(Level, rest[0]), Path(rest[1])))
    else:
        asyncio.run(report(Path(rest[0])))


if __name__ == "__main__":
    main()
