"""Everything that a server would offer, in this process: threads, files, memory, models."""

import asyncio

from deerflow import DeerFlowClient


async def main() -> None:
    async with DeerFlowClient() as client:
        print("models:", [spec.name for spec in client.models.list()])
        await client.chat("How much is 6 times 7?", thread_id="sums")
        await client.threads.rename("sums", "Sums")
        for thread in await client.threads.list():
            print("thread:", thread.thread_id, "-", thread.title)
        for message in await client.threads.messages("sums"):
            print(f"{message['type']}:", message["content"] or "(calls a tool)")
        await client.threads.delete("sums")
        print("left:", len(await client.threads.list()))


if __name__ == "__main__":
    asyncio.run(main())
