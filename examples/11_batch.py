"""Do the same for many items: one call, one durable job, one file of results in input order."""

import asyncio
import json

from deerflow import Agent


async def main() -> None:
    async with Agent() as agent:
        result = await agent.run("Translate these animals for the zoo.", thread_id="zoo")
        print(result.text)
        assert agent.harness is not None
        thread = await agent.harness.storage.threads.get("local", "zoo")
        assert thread is not None
        for event in await agent.harness.storage.events.read(thread.thread_key):
            if event.type == "batch_progress":
                print("done:", json.dumps(event.payload["done"]), "of", event.payload["total"])


if __name__ == "__main__":
    asyncio.run(main())
