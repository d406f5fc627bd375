"""Let a human decide before a command runs: the run waits, a decision wakes it, days later too."""

import asyncio
import tempfile

from deerflow import AppConfig, DeerFlowClient

SCRIPT = """
- calls: [{name: bash, args: {command: rm -r drafts}}]
- text: The drafts are gone.
"""
CONFIG = AppConfig.model_validate(
    {
        "models": [
            {
                "name": "scripted",
                "use": "deerflow.models.scripted:ScriptedChatModel",
                "script": SCRIPT,
                "follow": "transcript",
            }
        ],
        "sandbox": {"use": "memory"},
        "memory": {"enabled": False},
        "guardrails": {
            "enabled": True,
            "provider": {
                "use": "allowlist",
                "config": {
                    "rules": [
                        {"tools": ["bash"], "args": {"command": "rm *"}, "decision": "ask"},
                    ]
                },
            },
        },
    }
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        async with DeerFlowClient(CONFIG, home=home) as client:
            first = await client.chat("Delete the drafts.", thread_id="t")
            print("first:", first.status)

        # another process, another day
        async with DeerFlowClient(CONFIG, home=home) as client:
            for waiting in await client.approvals.list():
                print("asked for:", waiting.tool, waiting.args)
                decided = await client.approvals.approve(waiting.approval_id)
                print("decided:", decided.row.status)
            print("then:", (await client.resume("t")).text)


if __name__ == "__main__":
    asyncio.run(main())
