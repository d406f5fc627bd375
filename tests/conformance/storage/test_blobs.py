"""Blobs: once per user, gone with the last reference."""

import hashlib

import pytest

from deerflow.errors import ThreadGoneError
from deerflow.storage.protocol import Storage

DATA = b"\x00\xffpicture" * 1000
SHA = hashlib.sha256(DATA).hexdigest()


async def test_put_and_get(storage: Storage, key: str) -> None:
    assert await storage.blobs.put("ann", key, DATA, "image/png") == SHA
    assert await storage.blobs.put("ann", key, DATA, "image/png") == SHA

    assert await storage.blobs.get("ann", SHA) == (DATA, "image/png")
    assert await storage.blobs.get("bob", SHA) is None
    assert await storage.blobs.get("ann", "0" * 64) is None
    assert await storage.blobs.get("ann", "no digest") is None


async def test_the_last_reference_takes_it_along(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    for thread in (key, other):
        await storage.blobs.put("ann", thread, DATA, "image/png")

    await storage.blobs.release("ann", key, SHA)
    await storage.blobs.release("ann", key, SHA)
    assert await storage.blobs.get("ann", SHA) is not None
    await storage.threads.delete("ann", "t2")

    assert await storage.blobs.get("ann", SHA) is None


async def test_users_do_not_share(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("bob", "t1")).thread_key
    await storage.blobs.put("ann", key, DATA, "image/png")
    await storage.blobs.put("bob", other, DATA, "image/png")
    await storage.threads.delete("ann", "t1")

    assert await storage.blobs.get("ann", SHA) is None
    assert await storage.blobs.get("bob", SHA) == (DATA, "image/png")


async def test_a_deleted_thread_takes_no_blob(storage: Storage, key: str) -> None:
    await storage.threads.delete("ann", "t1")

    with pytest.raises(ThreadGoneError):
        await storage.blobs.put("ann", key, DATA, "image/png")
    assert await storage.blobs.get("ann", SHA) is None
