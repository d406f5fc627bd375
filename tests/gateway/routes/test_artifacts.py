"""Files of a thread over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from fakes.gateway import Served, gateway, until

URL = "/api/threads/t/artifacts/mnt/user-data"


@dataclass
class Desk:
    """A gateway with a thread `t` and its folder on the disk."""

    served: Served
    client: httpx.AsyncClient
    root: Path

    def put(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@asynccontextmanager
async def desk(home: Path, script: object = ()) -> AsyncGenerator[Desk]:
    async with gateway(home, script) as served:
        await served.client.post("/api/threads", json={"thread_id": "t"})
        thread = await served.harness.storage.threads.get("local", "t")
        assert thread is not None
        root = served.harness.folders("local", thread.thread_key).root
        yield Desk(served, served.client, root)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [1_000, 3_000_000])
async def test_whole_in_parts_and_not_at_all(size: int, tmp_path: Path) -> None:
    data = os.urandom(size)
    async with desk(tmp_path) as at:
        at.put("outputs/a.bin", data)
        url = f"{URL}/outputs/a.bin"
        whole = await at.client.get(url)
        part = await at.client.get(url, headers={"Range": "bytes=10-1048575"})
        tail = await at.client.get(url, headers={"Range": "bytes=-7"})
        beyond = await at.client.get(url, headers={"Range": f"bytes={size}-"})
        known = await at.client.get(url, headers={"If-None-Match": f'"{sha(data)}"'})
        other = await at.client.get(url, headers={"If-None-Match": '"other"'})
    assert (whole.status_code, whole.content, whole.headers["etag"]) == (
        200, data, f'"{sha(data)}"',
    )  # fmt: skip
    assert whole.headers["cache-control"] == "no-store"
    assert (part.status_code, part.content) == (206, data[10:1_048_576])
    assert part.headers["content-range"] == f"bytes 10-{min(size, 1_048_576) - 1}/{size}"
    assert (tail.status_code, tail.content) == (206, data[-7:])
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    assert (known.status_code, known.content) == (304, b"")
    assert other.status_code == 200


async def test_an_empty_file_has_no_range(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.put("outputs/empty.txt", b"")
        url = f"{URL}/outputs/empty.txt"
        whole = await at.client.get(url)
        part = await at.client.get(url, headers={"Range": "bytes=0-1048575"})
    assert (whole.status_code, whole.content) == (200, b"")
    assert (part.status_code, part.headers["content-range"]) == (416, "bytes */0")


@pytest.mark.parametrize("folder", ["outputs", "uploads", "workspace"])
async def test_every_folder_and_both_ways_of_showing(folder: str, tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.put(f"{folder}/tief/報告.md", b"# hello")
        url = f"{URL}/{folder}/tief/報告.md"
        shown = await at.client.get(url)
        saved = await at.client.get(url, params={"download": "true"})
    assert shown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert shown.headers["content-disposition"].startswith("inline")
    assert saved.headers["content-disposition"].startswith("attachment")
    assert shown.text == saved.text == "# hello"


async def test_active_content_is_an_attachment_under_a_policy(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.put("outputs/a.html", b"<script>alert(1)</script>")
        answer = await at.client.get(f"{URL}/outputs/a.html")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


NOT_THERE = [
    "/mnt/user-data/outputs/nothing",
    "/mnt/user-data/outputs",
    "/mnt/user-data",
    "/etc/passwd",
    "/mnt/user-data/outputs/%2e%2e/%2e%2e/%2e%2e/config.yaml",
    "/mnt/user-data/outputs/..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/mnt/user-data/outputs/a%00b",
    "/mnt/user-data/outputs/link",
    "/C:%5CWindows",
    "/%ff%fe",
    "/" + "x" * 3_000,
]


async def test_what_is_not_there_or_not_theirs(tmp_path: Path) -> None:
    body = {"content": "", "expected_sha256": "0" * 64}
    async with desk(tmp_path) as at:
        at.put("outputs/kept", b"x")
        (at.root / "outputs" / "link").symlink_to(tmp_path)
        for path in NOT_THERE:
            url = f"/api/threads/t/artifacts{path}"
            for answer in (await at.client.get(url), await at.client.put(url, json=body)):
                assert answer.status_code == 404, (path, answer.text)
                assert str(tmp_path) not in answer.text


async def test_an_edit_needs_the_version_that_was_read(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        file = at.put("outputs/a.md", b"one")
        url = f"{URL}/outputs/a.md"
        tag = (await at.client.get(url)).headers["etag"]
        first = await at.client.put(url, json={"content": "zwö", "expected_sha256": tag})
        late = await at.client.put(url, json={"content": "three", "expected_sha256": tag})
        assert file.read_bytes() == "zwö".encode()
        second = await at.client.put(
            url, json={"content": "", "expected_sha256": first.json()["sha256"]}
        )
        assert file.read_bytes() == b""
    assert first.json() == {
        "path": "/mnt/user-data/outputs/a.md", "sha256": sha("zwö".encode()), "size": 4,
    }  # fmt: skip
    assert (late.status_code, late.json()["code"]) == (412, "changed")
    assert second.status_code == 200


async def test_of_two_edits_at_once_one_wins(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        file = at.put("outputs/a.md", b"one")
        bodies = [
            {"content": f"version {number}", "expected_sha256": sha(b"one")} for number in range(8)
        ]
        answers = await asyncio.gather(
            *(at.client.put(f"{URL}/outputs/a.md", json=body) for body in bodies)
        )
        assert file.read_text(encoding="utf-8").startswith("version ")
    assert sorted({answer.status_code for answer in answers}) == [200, 412]


async def test_what_cannot_be_edited(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        file = at.put("outputs/a.png", b"\x89PNG")
        bodies = [
            {"content": "x", "expected_sha256": sha(b"\x89PNG")},
            {"content": "x", "expected_sha256": "short"},
            {"content": "x"},
        ]
        url = f"{URL}/outputs/a.png"
        answers = [await at.client.put(url, json=body) for body in bodies]
        raw = '{"content": "\\ud800", "expected_sha256": "' + "0" * 64 + '"}'
        headers = {"Content-Type": "application/json"}
        answers.append(await at.client.put(url, content=raw, headers=headers))
        assert file.read_bytes() == b"\x89PNG"
    assert [answer.status_code for answer in answers] == [422] * 4


async def test_no_edit_while_a_run_is_active(tmp_path: Path) -> None:
    slow = [{"text": "word " * 200, "gap_ms": 50}]
    async with desk(tmp_path, slow) as at:
        file = at.put("outputs/a.md", b"one")
        run = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}
        made = (await at.client.post("/api/threads/t/runs", json=run)).json()
        body = {"content": "two", "expected_sha256": sha(b"one")}
        busy = await at.client.put(f"{URL}/outputs/a.md", json=body)
        assert file.read_bytes() == b"one"
        await at.client.post(f"/api/threads/t/runs/{made['run_id']}/cancel")

        async def idle() -> bool:
            return (await at.client.get("/api/threads/t")).json()["status"] != "busy"

        await until(idle)
        free = await at.client.put(f"{URL}/outputs/a.md", json=body)
    assert (busy.status_code, free.status_code) == (409, 200)


async def test_the_owner_of_the_folder_gets_the_new_version(tmp_path: Path) -> None:
    owner = 64123 if os.geteuid() == 0 else os.geteuid()
    async with desk(tmp_path) as at:
        file = at.put("outputs/a.md", b"one")
        os.chown(file.parent, owner, -1)
        body = {"content": "two", "expected_sha256": sha(b"one")}
        assert (await at.client.put(f"{URL}/outputs/a.md", json=body)).status_code == 200
        assert file.stat().st_uid == owner


async def test_a_file_stays_open_no_longer_than_its_answer(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.put("outputs/a.bin", b"x" * 3_000_000)
        before = len(os.listdir("/proc/self/fd"))
        for headers in ({}, {"Range": "bytes=9999999-"}, {"If-None-Match": "*"}):
            await at.client.get(f"{URL}/outputs/a.bin", headers=headers)
        assert len(os.listdir("/proc/self/fd")) == before
