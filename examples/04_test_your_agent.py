"""Test an agent without a model: write down what the model says, check what the agent does.

Run it with `pytest examples/04_test_your_agent.py`.
"""

import asyncio
import tempfile
from pathlib import Path

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import AppConfig
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import open_harness

SCRIPT = """
- calls: [{name: calculator, args: {expression: 6 * 7}}]
- error: rate_limit
- text: The result is 42.
"""


async def play(home: Path, script: str, task: str) -> tuple[RunResult, list[str]]:
    """The end of a run, and the types of its events."""
    config = AppConfig.model_validate(
        {
            "models": [
                {
                    "name": "scripted",
                    "use": "deerflow.models.scripted:ScriptedChatModel",
                    "script": script,
                }
            ],
            "database": {"backend": "memory"},
            "sandbox": {"use": "memory"},
            "llm_call": {"burst_retry_base_delay_ms": 1},
        }
    )
    loaded = LoadedConfig(config, None, (), "", home=home, cwd=home)
    async with open_harness(loaded, {}) as harness:
        handle = await harness.runs.start(RunRequest(task=task))
        types = [event.type async for event in handle.events()]
        return await handle.result(), types


def test_a_busy_model_is_asked_again() -> None:
    with tempfile.TemporaryDirectory() as home:
        result, types = asyncio.run(play(Path(home), SCRIPT, "How much is 6 times 7?"))
    assert result.text == "The result is 42."
    assert types.count("tool_completed") == 1
    assert types.count("model_retry") == 1


if __name__ == "__main__":
    test_a_busy_model_is_asked_again()
    print("passed")
