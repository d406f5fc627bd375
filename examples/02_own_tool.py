"""Give the agent a tool of your own: a plain LangChain tool, with marks that the harness reads.

In a configuration the same tool is `tools: [{name: weather, use: your_module:weather}]`.
"""

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime

from deerflow.config.load import load_config, read_environ
from deerflow.errors import ToolError
from deerflow.runtime.request import RunRequest
from deerflow.tools.protocol import ToolContext
from deerflow.wiring.harness import open_harness

FORECAST = {"Hamburg": "rain, 12 °C"}


@tool
async def weather(city: str, runtime: ToolRuntime[ToolContext, Any]) -> str:
    """Tomorrow's weather in a city."""
    if city not in FORECAST:
        raise ToolError(f"No forecast for {city}.", cure=f"Known: {', '.join(FORECAST)}.")
    sandbox = await runtime.context.sandbox()
    await sandbox.write("/mnt/user-data/workspace/weather.txt", FORECAST[city].encode())
    return FORECAST[city]


# Running it twice does no harm; its text comes from outside, so the model sees it delimited.
weather.metadata = {"deerflow": {"idempotent": True, "untrusted": True, "sandbox": True}}


async def main() -> None:
    environ = read_environ()
    loaded = load_config(None, environ=environ, cwd=Path.cwd())
    async with open_harness(loaded, environ, tools=[weather]) as harness:
        task = "How will the weather be in Hamburg? What should I take along?"
        handle = await harness.runs.start(RunRequest(task=task))
        async for event in handle.events():
            if event.type == "message" and event.payload["message"]["type"] == "tool":
                print("tool:", event.payload["message"]["content"])
        print((await handle.result()).text)


if __name__ == "__main__":
    asyncio.run(main())
