"""A call without listeners is told from one with some."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, Callbacks
from langchain_core.tracers import context
from langsmith import tracing_context

from deerflow.models.listeners import nobody_listens


class Handler(BaseCallbackHandler):
    """Hears everything."""


HOOK: ContextVar[BaseCallbackHandler | None] = ContextVar("test_listeners", default=None)


@pytest.mark.parametrize("callbacks", [None, [], AsyncCallbackManager([])])
def test_nobody(callbacks: Callbacks) -> None:
    assert nobody_listens(callbacks)


@pytest.mark.parametrize("callbacks", [[Handler()], AsyncCallbackManager([Handler()])])
def test_a_handler(callbacks: Callbacks) -> None:
    assert not nobody_listens(callbacks)


def test_tracing() -> None:
    with tracing_context(enabled=True):
        assert not nobody_listens(None)


def test_a_hook_of_another_library() -> None:
    context.register_configure_hook(HOOK, True)
    token = HOOK.set(Handler())
    assert not nobody_listens(None)
    HOOK.reset(token)
    assert nobody_listens(None)
