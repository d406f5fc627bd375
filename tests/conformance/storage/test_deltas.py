"""DeltaLog: text that was shown is stored, and goes when the message is whole."""

import asyncio

from deerflow.storage.protocol import Delta, Storage


def text_of(deltas: list[Delta]) -> str:
    """The text, after checking that the pieces join."""
    position = 0
    for delta in deltas:
        assert delta.offset == position
        position += len(delta.text)
    return "".join(delta.text for delta in deltas)


async def write(storage: Storage, key: str, words: list[str]) -> None:
    """Append words as deltas of message m1 and wait for the last."""
    position = 0
    for word in words:
        ticket = storage.deltas.append(key, Delta("r1", "m1", position, word))
        position += len(word)
    await ticket


async def test_read_gives_the_whole_text(storage: Storage, key: str) -> None:
    words = [f"word{n} \U0001f98c" for n in range(100)]
    await write(storage, key, words)

    assert text_of(await storage.deltas.read("r1", "m1")) == "".join(words)


async def test_finish_drops_them(storage: Storage, key: str) -> None:
    await write(storage, key, ["a", "b"])
    storage.deltas.finish("r1", "m1")
    await storage.events.append(key, "r1", "message", {"message": {}})

    assert await storage.deltas.read("r1", "m1") == []


async def test_followers_get_every_character_once(storage: Storage, key: str) -> None:
    follower = storage.deltas.follow(key)
    words = [f"word{n} " for n in range(2000)]
    wanted = "".join(words)
    await write(storage, key, words)

    got: list[Delta] = []
    while sum(len(delta.text) for delta in got) < len(wanted):
        got.append(await asyncio.wait_for(anext(follower), 5))

    assert text_of(got) == wanted


async def test_a_message_that_is_written_anew_is_followed_from_its_start(
    storage: Storage, key: str
) -> None:
    follower = storage.deltas.follow(key)
    storage.deltas.append(key, Delta("r1", "m1", 0, "first try"))
    storage.deltas.finish("r1", "m1")
    await storage.deltas.append(key, Delta("r1", "m1", 0, "second"))

    got = [await asyncio.wait_for(anext(follower), 5) for _ in range(2)]

    assert [(delta.offset, delta.text) for delta in got] == [(0, "first try"), (0, "second")]
    assert text_of(await storage.deltas.read("r1", "m1")) == "second"


async def test_a_character_that_columns_cannot_hold_stops_nothing(
    storage: Storage, key: str
) -> None:
    await storage.deltas.append(key, Delta("r1", "m1", 0, "a\x00b"))
    await storage.threads.update(key, title="a\x00b")
    await storage.flush()

    (delta,) = await storage.deltas.read("r1", "m1")
    assert (delta.text[0], len(delta.text), delta.text[2]) == ("a", 3, "b")
    thread = await storage.threads.get("ann", "t1")
    assert thread is not None
    assert len(thread.title) == 3
