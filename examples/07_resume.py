"""Stop a run in the middle and go on later: what was done is not done again."""

import asyncio
from pathlib import Path

from deerflow.config.load import load_config, read_environ
from deerflow.runtime.request import RunRequest
from deerflow.wiring.harness import open_harness

TASK = "Note what deer eat in the workspace, read the note again, then tell me."


async def main() -> None:
    environ = read_environ()
    loaded = load_config(None, environ=environ, cwd=Path.cwd())
    async with open_harness(loaded, environ) as harness:
        handle = await harness.runs.start(RunRequest(task=TASK))
        async for event in handle.events():
            if event.type == "tool_completed":
                handle.cancel()  # Ctrl-C does the same; a killed process can be resumed too
                break
        stopped = await handle.result()
        print("first:", stopped.status)

    async with open_harness(loaded, environ) as harness:  # as a new process would
        again = RunRequest(thread_id=stopped.thread_id, resume=True)
        handle = await harness.runs.start(again)
        result = await handle.result()
        print("then:", result.status, "-", result.text)
        print("the same run:", result.run_id == stopped.run_id)


if __name__ == "__main__":
    asyncio.run(main())
