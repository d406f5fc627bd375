"""The application: middlewares, routes and life of a serving process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from deerflow import __version__
from deerflow.config.load import LoadedConfig
from deerflow.gateway import health, problems
from deerflow.gateway.auth.guard import Guard
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.headers import SecurityHeaders
from deerflow.gateway.lifespan import Opener, OpenGate, Opening
from deerflow.gateway.prefix import Prefix
from deerflow.gateway.routes import (
    agents,
    approvals,
    artifacts,
    assistants,
    auth,
    browser,
    channels,
    commands,
    config,
    console,
    crons,
    features,
    feedback,
    integrations,
    mcp,
    memory,
    messages,
    metrics,
    models,
    oidc,
    runs,
    scheduled_tasks,
    skills,
    stateless,
    states,
    store,
    suggestions,
    threads,
    token_usage,
    tokens,
    turns,
    uploads,
    workspace_changes,
)

if TYPE_CHECKING:
    from deerflow.wiring.runtime import Runtime

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request's body, unless a route says otherwise (`max_body_size` of the route)."""

ROUTERS: tuple[APIRouter, ...] = (
    auth.router,
    config.router,
    oidc.router,
    tokens.router,
    crons.router,
    threads.router,
    states.router,
    runs.router,
    messages.router,
    stateless.router,
    store.router,
    commands.router,
    assistants.router,
    agents.router,
    approvals.router,
    browser.router,
    channels.router,
    console.router,
    features.router,
    feedback.router,
    integrations.router,
    mcp.router,
    memory.router,
    models.router,
    scheduled_tasks.router,
    skills.router,
    suggestions.router,
    token_usage.router,
    turns.router,
    uploads.router,
    artifacts.router,
    workspace_changes.router,
)
"""All routes below /api, in the order in which their paths are looked up."""


class _App(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        return problems.Retold(super().build_middleware_stack())


def create_app(
    config: GatewayConfig,
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    *,
    opener: Opener | None = None,
) -> FastAPI:
    """The application of a serving process; `app.state.gateway` is there once it is ready.

    Args:
        config: of the process.
        loaded: the configuration.
        environ: as `read_environ` gives it.
        opener: opens another runtime than `wiring.runtime.open_runtime` does by itself.
    """
    opening = Opening(config, opener or (lambda: _opened(config, loaded, environ)))
    app = _App(
        title="DeerFlow",
        version=__version__,
        lifespan=opening.lifespan,
        middleware=_middlewares(config, opening),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        max_body_size=MAX_BODY,
    )
    app.state.opening = opening
    problems.install(app)
    app.include_router(health.router)
    app.include_router(metrics.router)
    for router in ROUTERS:
        app.include_router(router, prefix="/api")
    return app


def _middlewares(config: GatewayConfig, opening: Opening) -> list[Middleware]:
    """Outermost first."""
    found = [Middleware(SecurityHeaders), Middleware(problems.Edge)]
    if config.hosts:
        found.append(Middleware(TrustedHostMiddleware, allowed_hosts=list(config.hosts)))
    if config.origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(config.origins),
                allow_credentials=True,
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["Content-Location", "ETag", "Content-Range"],
            )
        )
    return [
        *found,
        Middleware(Prefix),
        Middleware(OpenGate, opening=opening),
        Middleware(Guard, config=config, opening=opening),
    ]


@asynccontextmanager
async def _opened(
    config: GatewayConfig, loaded: LoadedConfig, environ: Mapping[str, str]
) -> AsyncGenerator[Runtime]:
    """The runtime; its modules are loaded in a thread, so that the port answers meanwhile."""
    open_runtime = await asyncio.to_thread(_load_runtime)
    async with open_runtime(loaded, environ, execute=config.execute) as runtime:
        yield runtime


def _load_runtime() -> Any:
    from deerflow.wiring.runtime import open_runtime  # noqa: PLC0415  (LangChain and DBOS, 2 s)

    return open_runtime
