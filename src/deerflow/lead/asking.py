"""The model that extracts memories: which one it is, and how it is asked on a user's account."""

from __future__ import annotations

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.config.schema import MemoryBackendConfig, TokenBudgetConfig
from deerflow.errors import ConfigError
from deerflow.memory.protocol import Ask, AskFor
from deerflow.middlewares.side_calls import user_call
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.storage.protocol import Storage


def extracting_model(catalog: Catalog, backend: MemoryBackendConfig) -> str | None:
    """Configured name of the model that extracts; None when nothing is to be extracted.

    The default model does it, unless it is too small to (a compact one, such as the embedded one)
    or answers from a script; `memory.backend_config.model_name` names any model.
    """
    if backend.model_name:
        return backend.model_name
    if not catalog.names():
        return None
    try:
        spec = catalog.spec(catalog.default)
    except ConfigError:  # a run says what is wrong with it
        return None
    return None if spec.compact or spec.provider == "scripted" else spec.name


def asks(
    name: str, catalog: Catalog, resilience: Resilience, storage: Storage, budget: TokenBudgetConfig
) -> AskFor:
    """How the updater asks: with retries and fall-over like a run, within the user's day.

    Args:
        name: the model, as configured.
        catalog: the models.
        resilience: retries, limits and breakers of this process.
        storage: where the day's sums are.
        budget: section `token_budget`.
    """
    names = [name, *(other for other in catalog.fallbacks(name) if other != name)]

    def ask_for(user_id: str) -> Ask:
        async def ask(system: str, user: str) -> str:
            messages = [SystemMessage(content=system), HumanMessage(content=user)]

            async def attempt(model: str) -> str:
                spec, chat = catalog.spec(model), catalog.get(model)
                reply = await user_call(storage, budget, user_id, spec, chat, messages)
                return str(reply.text)

            return await resilience.call(attempt, names)

        return ask

    return ask_for
