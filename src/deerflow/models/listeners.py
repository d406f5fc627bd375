"""Whether LangChain's callbacks have a listener, told without making a manager of them."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.callbacks import BaseCallbackManager, Callbacks
from langchain_core.globals import get_debug
from langchain_core.tracers import context
from langsmith import utils


def nobody_listens(callbacks: Callbacks) -> bool:
    """True when `CallbackManager.configure` would surely add no handler; False tells nothing.

    The same questions as there, in a fifth of the time: explicit handlers, debug output, tracing,
    and what other libraries hooked in.

    Args:
        callbacks: of the call's configuration.
    """
    handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
    if handlers or get_debug() or context.tracing_v2_callback_var.get() is not None:
        return False
    hooks = context._configure_hooks  # pyright: ignore[reportPrivateUsage]
    hooked = any(env is not None or var.get() is not None for var, _, _, env in hooks)
    return not hooked and not cast("Any", utils).tracing_is_enabled()
