"""An agent with helpers: each has its own prompt and tools, and sees only what it is asked."""

import asyncio

from deerflow import Agent, SubAgent


def head_count(park: str) -> int:
    """How many deer live in a park."""
    return {"north": 12, "south": 30}[park]


async def main() -> None:
    counter = SubAgent(
        "counter", "Counts deer in one park.", tools=[head_count], prompt="Answer with a number."
    )
    agent = Agent(name="Ranger", sub_agents=[counter], prompt="You look after two parks.")
    async for event in agent.stream("How many deer live in the parks of the ranger?"):
        if event.type == "task_started":
            print("asks a helper:", event.payload["description"])
        if event.type == "task_completed":
            print("the helper says:", event.payload["result"])
        if event.type == "message" and event.payload["message"]["type"] == "ai":
            print(event.payload["message"]["content"] or "…")


if __name__ == "__main__":
    asyncio.run(main())
