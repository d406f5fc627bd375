"""Hand a task to the agent and print its answer, with whatever model this machine has."""

import asyncio
from pathlib import Path

from deerflow.config.load import load_config, read_environ
from deerflow.runtime.request import RunRequest
from deerflow.wiring import open_harness


async def main() -> None:
    environ = read_environ()
    loaded = load_config(None, environ=environ, cwd=Path.cwd())
    async with open_harness(loaded, environ) as harness:
        handle = await harness.runs.start(RunRequest(task="How much is 6 times 7?"))
        result = await handle.result()
    print(result.status, "-", result.text)


if __name__ == "__main__":
    asyncio.run(main())
