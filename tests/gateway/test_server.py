from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from deerflow.config.load import read_environ
from deerflow.errors import StorageError, UsageError
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.server import address_of, check, listen, make_home
from fakes.gateway import free_port, serve, write_config
from fakes.harness import loaded, scripted_config


async def _deerflow(home: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    """Exit code and output of a command that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deerflow", *arguments),
        env={**read_environ(), "DEER_FLOW_HOME": str(home), **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, text.decode()


async def test_serve_says_what_it_opened_and_ends_in_order(tmp_path: Path) -> None:
    async with serve(tmp_path, ["hello"], auth=True) as served:
        async with httpx.AsyncClient(base_url=served.url) as client:
            assert (await client.get("/health")).json()["status"] == "healthy"
            assert (await client.get("/api/v1/auth/me")).status_code == 401
            assert "server" not in (await client.get("/health")).headers
        said = await served.says("users create")
        code = await served.stop()
    assert code == 0
    assert f"listens on {served.url}" in said
    assert "model:     scripted" in said
    assert "storage:   sqlite" in said
    assert "isolation: " in said
    assert f"{served.url}/setup?token=" in said
    assert "Traceback" not in said


async def test_the_printed_token_makes_the_first_admin_through_a_proxy(tmp_path: Path) -> None:
    body = {"email": "root@example.org", "password": "correct horse battery staple"}
    async with serve(tmp_path, auth=True) as served:
        said = await served.says("?token=")
        token = said.partition("?token=")[2].split()[0]
        async with httpx.AsyncClient(
            base_url=served.url, headers={"X-Forwarded-For": "203.0.113.9"}
        ) as client:
            url = "/api/v1/auth/initialize"
            without = await client.post(url, json=body)
            with_token = await client.post(url, json={**body, "token": token})
        await served.stop()
    assert (without.status_code, with_token.status_code) == (403, 201)


async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    turn = {"text": "late", "delay": 30}
    async with serve(tmp_path, [turn]) as served:
        async with httpx.AsyncClient(base_url=served.url) as client:
            assert (await client.get("/api/v1/auth/me")).status_code == 200
        served.process.send_signal(signal.SIGSTOP)  # both signals wait until it goes on
        served.process.send_signal(signal.SIGTERM)
        served.process.send_signal(signal.SIGINT)
        served.process.send_signal(signal.SIGCONT)
        assert await served.stop(signal.SIGINT, seconds=10) in (0, 130)


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    file = write_config(tmp_path, [])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, said = await _deerflow(tmp_path, "serve", "--port", port, "--config", str(file))
    assert code == 2
    assert f"Port {port} of 127.0.0.1 is in use." in said
    assert len(said.strip().splitlines()) == 1


async def test_sign_in_cannot_be_switched_off_on_an_address_that_others_reach(
    tmp_path: Path,
) -> None:
    file = write_config(tmp_path, [])
    arguments = ("serve", "--host", "0.0.0.0", "--port", str(free_port()), "--config", str(file))
    code, said = await _deerflow(tmp_path, *arguments, DEER_FLOW_AUTH_DISABLED="1")
    assert code == 2
    assert "DEER_FLOW_AUTH_DISABLED=1" in said
    assert "127.0.0.1" in said


async def test_a_broken_configuration_and_one_that_cannot_be_opened_end_the_start(
    tmp_path: Path,
) -> None:
    file = write_config(tmp_path, [])
    port = str(free_port())
    file.write_text("max_turns: many\n", encoding="utf-8")
    broken = await _deerflow(tmp_path, "serve", "--port", port, "--config", str(file))
    file.write_text(
        '{"models": [{"name": "m", "use": "nowhere:Model"}], "sandbox": {"use": "memory"},'
        ' "extensions": {"middlewares": ["nowhere.at:All"]}}',
        encoding="utf-8",
    )
    closed = await _deerflow(tmp_path, "serve", "--port", port, "--config", str(file))
    assert broken[0] == 2
    assert "max_turns" in broken[1]
    assert closed[0] == 2
    assert "nowhere" in closed[1]
    assert "Traceback" not in broken[1] + closed[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_what_is_not_loopback_needs_sign_in(host: str) -> None:
    with pytest.raises(UsageError, match="DEER_FLOW_AUTH_DISABLED"):
        check(GatewayConfig(host=host, auth_disabled=True))
    check(GatewayConfig(host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_it_may_be_off(host: str) -> None:
    check(GatewayConfig(host=host, auth_disabled=True))


def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(UsageError, match="cannot be bound"):
        listen(GatewayConfig(host="192.0.2.1", port=0))


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot be used"):
        make_home(loaded(scripted_config([]), home))


def test_the_address_is_written_as_browsers_want_it() -> None:
    assert address_of(GatewayConfig()) == "http://127.0.0.1:2026"
    assert address_of(GatewayConfig(host="::1", port=1)) == "http://[::1]:1"
