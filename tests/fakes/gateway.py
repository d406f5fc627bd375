"""A gateway for tests: in process on a scripted model, on a real port, or a real `serve` process.

async with gateway(tmp_path, ["hello"]) as served:
    answer = await served.client.get("/api/threads/t")     # the local user, sign-in is off

async with gateway(tmp_path, ["hello"], auth=True) as served:
    anna, ben = await served.user("anna@example.org"), await served.user("ben@example.org")

async with gateway(tmp_path, ["hello"]) as served, listening(served.app) as url:
    ...                                                     # real HTTP, streams as they come

async with serve(tmp_path, ["hello"]) as served:
    ...                                                     # `deerflow serve`, served.url
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from deerflow.config.load import LoadedConfig, read_environ
from deerflow.config.schema import AppConfig
from deerflow.gateway.app import create_app
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.people import new_person
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import Gateway
from deerflow.wiring.harness import Harness
from deerflow.wiring.runtime import Runtime, open_runtime
from fakes.harness import check_events, loaded, scripted_config

PASSWORD = "correct horse battery staple"


@dataclass
class Served:
    """A gateway in this process.

    Attributes:
        app: the application.
        client: of the local user when sign-in is off, else of nobody.
        gateway: `app.state.gateway`.
    """

    app: FastAPI
    client: httpx.AsyncClient
    gateway: Gateway
    _stack: AsyncExitStack = field(repr=False)

    @property
    def runtime(self) -> Runtime:
        return self.gateway.runtime

    @property
    def harness(self) -> Harness:
        return self.gateway.runtime.harness

    async def anonymous(self, *, address: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        """A further client without cookies, from some address, with headers on every request."""
        client = _client(self.app, address=address)
        client.headers.update({name.replace("_", "-"): text for name, text in headers.items()})
        return await self._stack.enter_async_context(client)

    async def user(
        self, email: str, *, role: str = "user", password: str = PASSWORD
    ) -> httpx.AsyncClient:
        """A signed-in client of a new account; its writing requests carry the CSRF token."""
        access = Access.of(self.gateway)
        hash = await access.passwords.hash(password)
        await access.accounts.add_user(new_person(email, hash, role))
        return await self.login(email, password=password)

    async def login(self, email: str, *, password: str = PASSWORD) -> httpx.AsyncClient:
        """A signed-in client of an account that is there."""
        client = await self.anonymous()
        form = {"username": email, "password": password}
        answer = await client.post("/api/v1/auth/login/local", data=form)
        assert answer.status_code == 200, answer.text
        return client

    async def user_id(self, client: httpx.AsyncClient) -> str:
        """The id of who is signed in."""
        return str((await client.get("/api/v1/auth/me")).json()["id"])


async def _with_csrf(request: httpx.Request) -> None:
    cookies = SimpleCookie(request.headers.get("cookie", ""))
    if "csrf_token" in cookies and "x-csrf-token" not in request.headers:
        request.headers["X-CSRF-Token"] = cookies["csrf_token"].value


def _client(app: FastAPI, *, address: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=(address, 50000))
    return httpx.AsyncClient(
        transport=transport,
        base_url="http://127.0.0.1:2026",
        timeout=60,
        event_hooks={"request": [_with_csrf]},
    )


@asynccontextmanager
async def gateway(
    home: Path,
    script: Any = (),
    *,
    auth: bool = False,
    config: AppConfig | LoadedConfig | None = None,
    process: GatewayConfig | None = None,
    environ: Mapping[str, str] | None = None,
    durable: bool = False,
    **sections: Any,
) -> AsyncGenerator[Served]:
    """An open gateway in this process.

    Args:
        home: DEER_FLOW_HOME.
        script: what the scripted model says; see `fakes.harness.scripted_config`.
        auth: whether sign-in is on.
        config: instead of a scripted one.
        process: settings of the process instead of the usual ones.
        environ: of the process.
        durable: whether DBOS executes, instead of tasks of this process.
        sections: of the configuration, e.g. database={"backend": "sqlite"}.
    """
    if not isinstance(config, LoadedConfig):
        config = loaded(config or scripted_config(script, **sections), home)
    process = process or GatewayConfig(auth_disabled=not auth)
    environ = environ or {}
    opener = partial(open_runtime, config, environ, execute=process.execute, durable=durable)
    app = create_app(process, config, environ, opener=opener)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        opening = app.state.opening
        await opening.settled.wait()
        if opening.failure is not None:
            raise opening.failure
        client = await stack.enter_async_context(_client(app))
        yield Served(app, client, app.state.gateway, stack)
        check_events(app.state.gateway.runtime.harness)


@dataclass(frozen=True)
class ServedRoute:
    """A row of the route table: method ("WEBSOCKET" for sockets) and path with {parameters}."""

    method: str
    path: str
    endpoint: Any = field(repr=False, compare=False)

    @property
    def filled(self) -> str:
        """The path with "x" for each parameter."""
        return "/".join("x" if "{" in part else part for part in self.path.split("/"))


def route_table(app: FastAPI) -> list[ServedRoute]:
    """Every route of an application, one row per method."""
    found: list[ServedRoute] = []
    for route in iter_route_contexts(app.routes):
        for method in sorted(route.methods or {"WEBSOCKET"}):
            assert route.path is not None
            found.append(ServedRoute(method, route.path, route.endpoint))
    return found


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncGenerator[str]:
    """Serve an open application on a free port of this process; its address."""
    server = uvicorn.Server(
        uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, ws="websockets-sansio"
        )
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        task = asyncio.create_task(server._serve([listener]))  # not serve(): no signals
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            await task


@dataclass
class ServeProcess:
    """A `deerflow serve` process.

    Attributes:
        url: its address.
        process: the process.
        home: DEER_FLOW_HOME.
    """

    url: str
    process: Process
    home: Path

    async def says(self, text: str, *, seconds: float = 30) -> str:
        """All that it has printed, once `text` is in it."""
        async with asyncio.timeout(seconds):
            while True:
                said = (self.home / "serve.log").read_text(encoding="utf-8")
                if text in said:
                    return said
                await asyncio.sleep(0.05)

    async def stop(self, number: int = signal.SIGTERM, *, seconds: float = 45) -> int:
        """Send a signal and wait for the end; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            return await self.process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write_config(home: Path, script: Any, **sections: Any) -> Path:
    """A config.yaml (JSON is YAML) with a scripted model beside the home."""
    home.mkdir(parents=True, exist_ok=True)
    raw = {
        "models": [
            {
                "name": "scripted",
                "use": "deerflow.models.scripted:ScriptedChatModel",
                "script": script,
            }
        ],
        "sandbox": {"use": "memory"},
        **sections,
    }
    file = home / "config.yaml"
    file.write_text(json.dumps(raw), encoding="utf-8")
    return file


@asynccontextmanager
async def serve(
    home: Path,
    script: Any = (),
    *arguments: str,
    auth: bool = False,
    environ: Mapping[str, str] | None = None,
    command: str = "serve",
    **sections: Any,
) -> AsyncGenerator[ServeProcess]:
    """A real `deerflow serve` process on a free port, ready; killed at the end if it still runs.

    Args:
        home: DEER_FLOW_HOME; the configuration and `serve.log` lie in it.
        script: what the scripted model says; JSON.
        arguments: further ones of the command.
        auth: whether sign-in is on.
        environ: over this process's environment.
        command: serve or gateway.
        sections: of the configuration; the database is SQLite.
    """
    port = free_port()
    file = write_config(home, script, **sections)
    switch = {} if auth else {"DEER_FLOW_AUTH_DISABLED": "1"}
    with (home / "serve.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "deerflow", command),
            *("--port", str(port), "--config", str(file), *arguments),
            env={**read_environ(), "DEER_FLOW_HOME": str(home), **switch, **(environ or {})},
            stdout=log,
            stderr=log,
        )
    served = ServeProcess(f"http://127.0.0.1:{port}", process, home)
    try:
        await ready(served)
        yield served
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ready(served: ServeProcess, *, seconds: float = 60) -> None:
    """Return when the process is ready.

    Raises:
        RuntimeError: it ended instead; the text is what it printed.
    """
    async with asyncio.timeout(seconds), httpx.AsyncClient() as client:
        while True:
            if served.process.returncode is not None:
                raise RuntimeError((served.home / "serve.log").read_text(encoding="utf-8"))
            with contextlib.suppress(httpx.TransportError):
                if (await client.get(f"{served.url}/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


async def until(holds: Callable[[], bool | Awaitable[bool]], *, seconds: float = 60) -> None:
    """Return when the condition holds; for what tells nobody, such as another process's state."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if found is True or (found is not False and await found):
                return
            await asyncio.sleep(0.02)
