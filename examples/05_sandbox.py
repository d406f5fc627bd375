"""Use the isolated sandbox by itself: a shell and files of one thread, no agent around it."""

import asyncio
import tempfile
from pathlib import Path

from deerflow.config.schema import SandboxConfig
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import OUTPUTS, ThreadFolders

COMMANDS = (
    "cd /mnt/user-data/outputs && echo hello > note.txt && ls",
    "pwd",  # the shell is the same one
    "cat /etc/shadow",
    "bash -c 'echo > /dev/tcp/127.0.0.1/22'",
)


async def main(home: Path) -> None:
    provider = LocalProvider(SandboxConfig(), state=home / "sandbox")
    try:
        report = await provider.probe()
        print("isolation:", report.level, *report.reasons)
        folders = ThreadFolders(home / "thread" / "user-data")
        sandbox = await provider.acquire("thread", folders)
        for command in COMMANDS:
            result = await sandbox.run(command, timeout=10)
            print(f"$ {command}\n{result.output.rstrip()} [{result.exit_code}]")
        print("read:", (await sandbox.read(f"{OUTPUTS}/note.txt")).decode().strip())
    finally:
        await provider.close()  # no process is left


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
