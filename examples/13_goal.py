"""Pursue a goal: after each answer somebody else judges whether it is reached."""

import asyncio

from deerflow import Agent, SessionGoal


async def main() -> None:
    agent = Agent(goal=SessionGoal("Name two kinds of deer that live in the forest."))
    async for event in agent.stream("Tell me about the forest."):
        if event.type == "goal":
            print("goal:", event.payload["status"], event.payload["continuation_count"])
        if event.type == "message" and event.payload["message"]["type"] == "ai":
            print(event.payload["message"]["content"])


if __name__ == "__main__":
    asyncio.run(main())
