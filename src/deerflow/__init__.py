"""A self-hosted super agent harness: a task in, an artifact out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deerflow.agent.state import ThreadState
    from deerflow.config.schema import AppConfig
    from deerflow.errors import DeerFlowError
    from deerflow.factory import make_lead_agent
    from deerflow.models.catalog import create_chat_model
    from deerflow.models.scripted import ScriptedChatModel

__version__ = "0.1.0"

__all__ = [
    "AppConfig",
    "DeerFlowError",
    "ScriptedChatModel",
    "ThreadState",
    "__version__",
    "create_chat_model",
    "make_lead_agent",
]

_WHERE = {
    "AppConfig": "deerflow.config.schema",
    "DeerFlowError": "deerflow.errors",
    "ScriptedChatModel": "deerflow.models.scripted",
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
