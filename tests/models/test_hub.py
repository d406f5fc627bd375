"""Downloads from a hub: resume, checksum, and what is left behind when they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deerflow.errors import (
    ConfigError,
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
    StorageError,
)
from deerflow.models.hub import HubFile, pull
from fakes.hub import FakeHub, fake_hub

CONTENT = b"GGUF" + os.urandom(3_000_000)


def quiet(_line: str) -> None:
    """Progress that nobody hears."""


def source(hub: FakeHub, **settings: str) -> HubFile:
    return HubFile("owner/name", "model.gguf", endpoint=hub.url, **settings)


async def fetched(hub: FakeHub, home: Path) -> Path:
    """A pull that lets the hub cut connections as soon as their bytes are on the disk."""
    return await pull(source(hub), home, progress=lambda _line: hub.arrived.set(), pause=0)


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if path.is_file())


async def test_a_file_arrives_with_progress(tmp_path: Path) -> None:
    lines: list[str] = []
    async with fake_hub(files={"model.gguf": CONTENT}) as hub:
        path = await pull(source(hub), tmp_path, progress=lines.append)
    assert path.read_bytes() == CONTENT
    assert any("100% of 3 MB" in line for line in lines)
    assert left_behind(tmp_path) == ["model.gguf", "model.gguf.json"]


async def test_a_file_that_is_there_costs_no_request(tmp_path: Path) -> None:
    async with fake_hub(files={"model.gguf": CONTENT}) as hub:
        await pull(source(hub), tmp_path, progress=quiet)
        before = len(hub.requests)
        await pull(source(hub), tmp_path, progress=quiet)
        assert len(hub.requests) == before


async def test_a_cut_file_is_fetched_again(tmp_path: Path) -> None:
    async with fake_hub(files={"model.gguf": CONTENT}) as hub:
        path = await pull(source(hub), tmp_path, progress=quiet)
        path.write_bytes(CONTENT[:1000])
        await pull(source(hub), tmp_path, progress=quiet)
        assert path.read_bytes() == CONTENT


async def test_it_goes_on_where_the_connection_broke(tmp_path: Path) -> None:
    async with fake_hub(files={"model.gguf": CONTENT}, break_after=[1_000_000]) as hub:
        path = await fetched(hub, tmp_path)
        assert path.read_bytes() == CONTENT
        ranges = [asked for method, asked in hub.requests if method == "GET"]
    assert ranges[0] == ""
    assert ranges[1].startswith("bytes=")


async def test_a_later_call_goes_on_too(tmp_path: Path) -> None:
    async with fake_hub(files={"model.gguf": CONTENT}, break_after=[300_000] * 5) as hub:
        with pytest.raises(ModelUnavailableError, match="broke off 5 times"):
            await fetched(hub, tmp_path)
        (part,) = left_behind(tmp_path)
        assert part.endswith(".part")
        path = await fetched(hub, tmp_path)
        assert path.read_bytes() == CONTENT
        assert hub.requests[-1][1].startswith("bytes=")


async def test_a_server_without_ranges_starts_over(tmp_path: Path) -> None:
    async with fake_hub(
        files={"model.gguf": CONTENT}, break_after=[1_000_000], ranges=False
    ) as hub:
        path = await fetched(hub, tmp_path)
    assert path.read_bytes() == CONTENT


async def test_another_version_starts_over(tmp_path: Path) -> None:
    other = CONTENT[::-1]
    async with fake_hub(files={"model.gguf": CONTENT}, break_after=[300_000] * 5) as hub:
        with pytest.raises(ModelUnavailableError):
            await fetched(hub, tmp_path)
        hub.files["model.gguf"] = other
        path = await fetched(hub, tmp_path)
    assert path.read_bytes() == other


@pytest.mark.parametrize("by_config", [True, False])
async def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, by_config: bool) -> None:
    wrong = "0" * 64
    async with fake_hub(files={"model.gguf": CONTENT}, digest=None if by_config else wrong) as hub:
        given = {"sha256": wrong} if by_config else {}
        with pytest.raises(ModelError, match="another checksum"):
            await pull(source(hub, **given), tmp_path, progress=quiet)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, ModelAuthError), (404, NotFoundError), (503, ModelUnavailableError)],
)
async def test_refusals_are_told_apart(tmp_path: Path, status: int, error: type[Exception]) -> None:
    async with fake_hub(files={"model.gguf": CONTENT}, status=status) as hub:
        with pytest.raises(error):
            await pull(source(hub), tmp_path, progress=quiet)
    assert left_behind(tmp_path) == []


async def test_no_hub_is_one_clear_error(tmp_path: Path) -> None:
    nobody = HubFile("owner/name", "model.gguf", endpoint="http://127.0.0.1:9")
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        await pull(nobody, tmp_path, progress=quiet)


async def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    async with fake_hub(files={"model.gguf": CONTENT}) as hub:
        with pytest.raises(StorageError):
            await pull(source(hub), tmp_path, progress=quiet)


@pytest.mark.parametrize("name", ["../up", "a/../../b", "", "a b", "/abs"])
def test_names_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ConfigError):
        HubFile("owner/name", name)
