"""`AsyncChatModel`: a chat model without a synchronous twin."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from deerflow.errors import UsageError


class AsyncChatModel(BaseChatModel):
    """Base of our chat models: `invoke` and `stream` say what to call instead."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise UsageError(f"{type(self).__name__} is async only.", cure="Use ainvoke or astream.")
