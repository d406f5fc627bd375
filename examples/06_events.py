"""Follow the log of a run while it works, and read it again afterwards."""

import asyncio
from pathlib import Path

from deerflow.config.load import load_config, read_environ
from deerflow.events import Event
from deerflow.runtime.request import LOCAL_USER, RunRequest
from deerflow.wiring.harness import open_harness


def line(event: Event) -> str:
    """One event in words."""
    payload = event.payload
    if event.type == "tool_started":
        return f"{event.seq:>3} calls {payload['name']} with {payload['args']}"
    if event.type == "message":
        return f"{event.seq:>3} {payload['message']['type']}: {payload['message']['content']}"
    if event.type == "run_ended":
        return f"{event.seq:>3} {payload['status']}, {payload['usage']['total']['total']} tokens"
    return f"{event.seq:>3} {event.type}"


async def main() -> None:
    environ = read_environ()
    loaded = load_config(None, environ=environ, cwd=Path.cwd())
    async with open_harness(loaded, environ) as harness:
        handle = await harness.runs.start(RunRequest(task="How much is 6 times 7?"))
        async for event in handle.events():  # ends with run_ended
            print(line(event))

        thread = await harness.storage.threads.get(LOCAL_USER, handle.thread_id)
        assert thread is not None
        events = await harness.storage.events.read(thread.thread_key, after=1, limit=1)
        print("again:", line(events[0]))


if __name__ == "__main__":
    asyncio.run(main())
