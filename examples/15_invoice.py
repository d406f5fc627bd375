"""Extract fields, and let an examiner who sees only the invoice extract them as well.

`verify: true` does it in every run: when the two differ, what the examiner says goes back to the
agent, which looks again. Here the agent took the date of the invoice for the day it is due.
"""

import asyncio
import json
import tempfile

from deerflow import Agent, AppConfig

INVOICE = """Invoice INV-204 of 2026-03-01. 10 feeders at 100.00 EUR, 19 % tax: 190.00 EUR.
Payable within 30 days of the date of this invoice."""
TASK = f"Give number; total; due date of this invoice, in one line.\n\n{INVOICE}"
WRONG, RIGHT = "INV-204; 1,190.00 EUR; 2026-03-01", "INV-204; 1,190.00 EUR; 2026-03-31"
VERDICT = {
    "checked_answer": RIGHT,
    "accepted": False,
    "feedback": "It is due 30 days after 2026-03-01.",
}
SCRIPT = [
    {"text": WRONG, "when": "^Give number"},
    {"text": json.dumps({"response": RIGHT}), "when": r"(?s)^# Question(?!.*# Your own answer)"},
    {"text": json.dumps(VERDICT), "when": "# Your own answer"},
    {"text": RIGHT, "when": "30 days after"},
]
CONFIG = AppConfig.model_validate(
    {
        "verify": True,
        "models": [
            {
                "name": "scripted",
                "use": "deerflow.models.scripted:ScriptedChatModel",
                "script": SCRIPT,
            }
        ],
        "sandbox": {"use": "memory"},
        "memory": {"enabled": False},
    }
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        async for event in Agent(config=CONFIG, home=home).stream(TASK):
            if event.type == "message" and event.payload["message"]["type"] == "ai":
                print("agent:", event.payload["message"]["content"])
            if event.type == "task_completed":
                print("examiner:", json.loads(event.payload["result"]))
            if event.type == "verification":
                print(event.payload["state"], "after", event.payload["attempts"], "answers")


if __name__ == "__main__":
    asyncio.run(main())
