"""Row 15: a failed model call is tried again, then goes to the next configured model in mid-run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from langchain_core.language_models import BaseChatModel

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.errors import NotFoundError
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience, Retry


class LLMErrorHandlingMiddleware(Middleware):
    """Runs everything inside it once per attempt, so that each attempt is made legal for its model.

    A run that fell over stays with the model that answered: going back and forth would drop each
    provider's private fields every time. When no model answers, the ModelError ends the run;
    nothing of the failed turn was stored, so the thread goes on with the next message.

    Args:
        catalog: the configured models and their fall-backs.
        resilience: retries, limits and breakers, one object per process.
    """

    def __init__(self, catalog: Catalog, resilience: Resilience) -> None:
        self._catalog = catalog
        self._resilience = resilience

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Call, and tell each failed attempt as a `model_retry` event.

        Raises:
            ModelError: no model answered, or the request itself is refused.
        """
        run = call.run
        first = self._name_of(call.model, run)
        names = self._order(first, run)

        async def attempt(name: str) -> ModelReply:
            return await next_(self._asked(call, name, name == first))

        def tell(retry: Retry) -> None:
            run.emit("model_retry", asdict(retry))
            if retry.next_model != retry.model:
                run.scratch[type(self)] = retry.next_model

        return await self._resilience.call(attempt, names, on_retry=tell)

    def _asked(self, call: ModelCall, name: str, own: bool) -> ModelCall:
        """The call for one model, thinking as the run was asked to where the model can."""
        if name not in self._catalog.names():
            return call
        spec, run = self._catalog.spec(name), call.run
        thinking = run.thinking if spec.thinking else None
        model = call.model if own else self._catalog.get(name)
        if thinking is not None:
            model = self._catalog.get(name, thinking=thinking)
        if run.effort and spec.efforts and run.thinking is not False:
            settings = {**call.settings, "reasoning_effort": run.effort}
            return call.with_(model=model, settings=settings)
        return call if model is call.model else call.with_(model=model)

    def _name_of(self, model: BaseChatModel, run: RunContext) -> str:
        try:
            return self._catalog.spec_of(model).name
        except NotFoundError:  # handed in from outside, not out of the catalogue
            return run.model_name

    def _order(self, first: str, run: RunContext) -> Sequence[str]:
        names = [first]
        if first in self._catalog.names():
            names += [name for name in self._catalog.fallbacks(first) if name != first]
        stays = run.scratch.get(type(self))
        start = names.index(stays) if stays in names else 0
        return names[start:] + names[:start]
