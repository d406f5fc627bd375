"""Blobs: once per user, gone with the last reference."""

import hashlib
import random

import pytest

from deerflow.errors import ThreadGoneError
from deerflow.storage.protocol import Storage, ThreadRow

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


@pytest.mark.parametrize("seed", range(3))
async def test_each_blob_lives_as_long_as_any_thread_refers_to_it(
    storage: Storage, seed: int
) -> None:
    chance = random.Random(seed)
    refers: dict[str, set[str]] = {}
    for step in range(40):
        deed, names = chance.choice(["put", "put", "copy", "copy", "release", "delete"]), [*refers]
        if deed == "put" or not names:
            name = f"t{chance.randrange(4)}"
            thread = await storage.threads.ensure("ann", name)
            data = b"%d" % chance.randrange(5) * 50
            sha = await storage.blobs.put("ann", thread.thread_key, data, "text/plain")
            refers.setdefault(name, set()).add(sha)
            continue
        name = chance.choice(names)
        key = (await storage.threads.ensure("ann", name)).thread_key
        if deed == "copy":  # two threads that share every blob
            copy = f"copy{step}"
            if storage.kind == "memory" or chance.random() < 0.5:
                assert await storage.threads.copy(key, ThreadRow.new("ann", copy)) is not None
            else:
                target = await storage.threads.ensure("ann", copy)
                await storage.saver.acopy_thread(key, target.thread_key)
            refers[copy] = set(refers[name])
        elif deed == "release" and refers[name]:
            sha = chance.choice(sorted(refers[name]))
            await storage.blobs.release("ann", key, sha)
            refers[name].discard(sha)
        elif deed == "delete":
            await storage.threads.delete("ann", name)
            del refers[name]
        for number in range(5):
            sha = hashlib.sha256(b"%d" % number * 50).hexdigest()
            there = await storage.blobs.get("ann", sha) is not None
            assert there == any(sha in known for known in refers.values())
