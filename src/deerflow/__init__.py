"""A self-hosted super agent harness: a task in, an artifact out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deerflow.agent.state import ThreadState
    from deerflow.client.agent import Agent, SubAgent
    from deerflow.client.inprocess import DeerFlowClient
    from deerflow.client.memory import Memory
    from deerflow.config.schema import AppConfig
    from deerflow.errors import DeerFlowError
    from deerflow.factory import make_lead_agent
    from deerflow.models.catalog import create_chat_model
    from deerflow.models.scripted import ScriptedChatModel
    from deerflow.runtime.goals import SessionGoal
    from deerflow.runtime.request import RunResult
    from deerflow.skills.protocol import Skill

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AppConfig",
    "DeerFlowClient",
    "DeerFlowError",
    "Memory",
    "RunResult",
    "ScriptedChatModel",
    "SessionGoal",
    "Skill",
    "SubAgent",
    "ThreadState",
    "__version__",
    "create_chat_model",
    "make_lead_agent",
]

_WHERE = {
    "Agent": "deerflow.client.agent",
    "AppConfig": "deerflow.config.schema",
    "DeerFlowClient": "deerflow.client.inprocess",
    "DeerFlowError": "deerflow.errors",
    "Memory": "deerflow.client.memory",
    "RunResult": "deerflow.runtime.request",
    "ScriptedChatModel": "deerflow.models.scripted",
    "SessionGoal": "deerflow.runtime.goals",
    "Skill": "deerflow.skills.protocol",
    "SubAgent": "deerflow.client.agent",
    "ThreadState": "deerflow.agent.state",
    "create_chat_model": "deerflow.models.catalog",
    "make_lead_agent": "deerflow.factory",
}
"""Public name → module that defines it; loaded on first use: `import deerflow` stays cheap."""


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
