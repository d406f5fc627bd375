"""Remember something between runs: values under keys, which the agent is shown."""

import asyncio
import tempfile

from deerflow import Agent, Memory


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(folder)
        await memory.store("favourite animal", "red deer")
        await memory.store("units", {"length": "metre"})
        print("kept:", await memory.items())

        await memory.store("favourite animal", "roe deer")  # the former value stays in the history
        print("now:", await memory.load("favourite animal"))

        result = await Agent(memory=memory).run("What is my favourite?")
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
