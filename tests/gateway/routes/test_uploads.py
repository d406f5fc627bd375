"""Uploads over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from fakes.gateway import Served, gateway
from fakes.papers import pdf

URL = "/api/threads/t/uploads"
LIMITS = {"max_files": 3, "max_file_size": 2_000_000, "max_total_size": 3_000_000}


async def sent(client: httpx.AsyncClient, *files: tuple[str, bytes]) -> httpx.Response:
    return await client.post(URL, files=[("files", file) for file in files])


async def listed(client: httpx.AsyncClient) -> list[str]:
    answer = await client.get(f"{URL}/list")
    return [file["filename"] for file in answer.json().get("files", [])]


def left(home: Path) -> list[str]:
    return [name for _, _, names in os.walk(home / "users") for name in names]


async def test_a_new_thread_is_made_for_its_first_upload(tmp_path: Path) -> None:
    async with gateway(tmp_path, uploads=LIMITS) as served:
        limits = await served.client.get(f"{URL}/limits")
        answer = await sent(served.client, ("報告 1.txt", b"hello"))
        thread = await served.client.get("/api/threads/t")
        file = answer.json()["files"][0]
        data = await served.client.get(file["artifact_url"])
        again = await served.client.get(f"{URL}/list")
    assert limits.json() == LIMITS
    assert thread.status_code == 200
    path = "/mnt/user-data/uploads/報告 1.txt"
    assert file.pop("modified") > 1_700_000_000
    assert file == {
        "filename": "報告 1.txt",
        "original_filename": "報告 1.txt",
        "size": 5,
        "path": path,
        "virtual_path": path,
        "artifact_url": "/api/threads/t/artifacts/mnt/user-data/uploads/%E5%A0%B1%E5%91%8A%201.txt",
        "extension": ".txt",
    }
    assert (answer.json()["success"], answer.json()["skipped_files"]) == (True, [])
    assert data.content == b"hello"
    assert (again.json()["count"], again.json()["files"][0]["path"]) == (1, path)


async def test_names(tmp_path: Path) -> None:
    stored = {
        "../../etc/passwd": "passwd",
        "C:\\Users\\me\\two.txt": "two.txt",
        "a\u202eb.txt": "a_b.txt",
        "..": "file",
        ".env": "env",
        "nul.txt": "_nul.txt",
        "con": "_con",
        "a/b/": "b",
        "e\u0301.txt": "\u00e9.txt",
        "😀.png": "😀.png",
        "x" * 300 + ".md": "x" * 197 + ".md",
    }
    async with gateway(tmp_path) as served:
        for name, safe in stored.items():
            answer = await sent(served.client, (name, b"x"))
            assert answer.json()["files"][0]["filename"] == safe
        assert await listed(served.client) == sorted(stored.values())


async def test_one_name_twice(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        first = await sent(served.client, ("a.txt", b"1"), ("a.txt", b"2"), ("a.txt", b"1"))
        await sent(served.client, ("a.txt", b"2"))
        assert await listed(served.client) == ["a-2.txt", "a.txt"]
    assert [file["filename"] for file in first.json()["files"]] == ["a.txt", "a-2.txt", "a.txt"]


TOO_MUCH: list[tuple[list[tuple[str, bytes]], str]] = [
    ([("a", b"x" * 2_000_001)], "max_file_size"),
    ([("a", b"x" * 1_600_000), ("b", b"x" * 1_600_000)], "max_total_size"),
    ([("a", b"x" * 9_000_000)], "max_total_size"),
    ([(str(number), b"x") for number in range(4)], "max_files"),
]


async def test_too_much_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with gateway(tmp_path, uploads=LIMITS) as served:
        for files, key in TOO_MUCH:
            answer = await sent(served.client, *files)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
            assert key in answer.json()["detail"]
        assert (await served.client.get("/api/threads/t")).status_code == 404
    assert left(tmp_path) == []


async def test_exactly_the_limits(tmp_path: Path) -> None:
    files = [("a", b"x" * 2_000_000), ("b", b"x" * 999_999), ("c", b"x")]
    async with gateway(tmp_path, uploads=LIMITS) as served:
        answer = await sent(served.client, *files)
    assert answer.status_code == 200, answer.text


PART = '--b\r\nContent-Disposition: form-data; name="{}"; filename="{}"\r\n\r\nx\r\n'


NO_FILE = [
    ("application/json", b"{}", 415),
    ("", b"", 415),
    ("multipart/form-data", b"", 422),
    ("multipart/form-data; boundary=" + "b" * 500, b"", 422),
    ("multipart/form-data; boundary=b", b"", 422),
    ("multipart/form-data; boundary=b", b"nonsense", 422),
    ("multipart/form-data; boundary=b", PART.format("files", "a").encode(), 422),
    ("multipart/form-data; boundary=b", PART.format("other", "a").encode() + b"--b--", 422),
    ("multipart/form-data; boundary=b", PART.format("files", "").encode() + b"--b--", 422),
    ("multipart/form-data; boundary=b", b"--b\r\n" + b"A: b\r\n" * 1_000, 422),
]


async def test_bodies_that_hold_no_file(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        for kind, body, status in NO_FILE:
            headers = {"Content-Type": kind}
            answer = await served.client.post(URL, content=body, headers=headers)
            assert answer.status_code == status, answer.text
    assert left(tmp_path) == []


async def test_other_fields_are_read_over_and_bodies_come_in_any_pieces(tmp_path: Path) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
        b'--b\r\ncontent-disposition: form-data; name="files"; filename="a"\r\n'
        b"Content-Type: text/plain\r\n\r\nline\r\n--not the end\r\n\r\n--b--\r\n"
    )

    async def pieces() -> AsyncIterator[bytes]:
        for index in range(len(body)):
            yield body[index : index + 1]

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    async with gateway(tmp_path) as served:
        answer = await served.client.post(URL, content=pieces(), headers=headers)
        file = await served.client.get(answer.json()["files"][0]["artifact_url"])
    assert file.content == b"line\r\n--not the end\r\n"


async def test_bytes_are_not_kept_in_memory(tmp_path: Path) -> None:
    """64 MiB arrive without any Python object of that size: each piece is counted."""
    piece, count = os.urandom(1 << 16), 1_024
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'

    async def pieces() -> AsyncIterator[bytes]:
        yield head
        for _ in range(count):
            yield piece
        yield b"\r\n--b--\r\n"

    limits = {"max_file_size": 1 << 27, "max_total_size": 1 << 27}
    async with gateway(tmp_path, uploads=limits) as served:
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        before = _resident()
        answer = await served.client.post(URL, content=pieces(), headers=headers)
        grown = _resident() - before
    assert answer.json()["files"][0]["size"] == count * len(piece)
    assert grown < 32 << 20


def _resident() -> int:
    with open("/proc/self/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


async def test_removed_with_the_markdown_that_was_made_of_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, uploads={"auto_convert_documents": True}) as served:
        answer = await sent(served.client, ("a.pdf", pdf("Hello")), ("b.txt", b"x"))
        document = await _converted(served)
        markdown = await served.client.get(document["markdown_artifact_url"])
        removed = await served.client.delete(f"{URL}/a.pdf")
        again = await served.client.delete(f"{URL}/a.pdf")
        assert await listed(served.client) == ["b.txt"]
    assert answer.json()["files"][0]["conversion_state"] in ("pending", "done")
    assert document["markdown_file"] == "a.md"
    assert markdown.text == "## Page 1\n\nHello\n\n"
    assert (removed.status_code, again.status_code) == (200, 404)
    assert not [name for name in left(tmp_path) if name.endswith(".json")]


async def _converted(served: Served) -> Any:
    async with asyncio.timeout(30):
        while True:
            files = (await served.client.get(f"{URL}/list")).json()["files"]
            document = next(file for file in files if file["filename"] == "a.pdf")
            if document["conversion_state"] != "pending":
                return document
            await asyncio.sleep(0.02)


async def test_links_of_an_agent_are_neither_followed_nor_listed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    async with gateway(tmp_path) as served:
        await sent(served.client, ("a.txt", b"x"))
        uploads = next((tmp_path / "users").glob("*/threads/*/user-data/uploads"))
        (uploads / "link").symlink_to(tmp_path / "secret")
        assert await listed(served.client) == ["a.txt"]
        removed = await served.client.delete(f"{URL}/link")
    assert removed.status_code == 404
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "of the host"


async def test_another_users_thread_of_the_same_id_is_another_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna, ben = await served.user("anna@example.org"), await served.user("ben@example.org")
        await sent(anna, ("a.txt", b"of anna"))
        before = await ben.get(f"{URL}/list")
        await sent(ben, ("b.txt", b"of ben"))
        assert (await listed(anna), await listed(ben)) == (["a.txt"], ["b.txt"])
    assert before.status_code == 404
