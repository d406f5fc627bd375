"""Owners: a process is told apart from a later one with the same number."""

import asyncio
import sys

from deerflow.storage.owner import is_alive, is_gone, owner_of, this_owner


def test_this_process_is_alive() -> None:
    assert is_alive(this_owner())


def test_a_later_process_with_the_same_number_is_another() -> None:
    pid, start, boot = this_owner().split(":")

    assert not is_alive(f"{pid}:{int(start) - 1}:{boot}")
    assert not is_alive(f"{pid}:{start}:another-boot")


def test_nonsense_is_dead() -> None:
    assert not is_alive("")
    assert not is_alive("x:1:y")
    assert not is_alive("999999999:1:y")


async def test_a_process_that_ended_is_dead() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    owner = owner_of(process.pid)
    assert is_alive(owner)
    process.kill()
    await process.wait()

    assert not is_alive(owner)


def test_only_a_process_of_this_place_is_known_to_be_gone() -> None:
    place = this_owner().rpartition(":")[2]

    assert is_gone(f"999999999:1:{place}")
    assert not is_gone(this_owner())
    assert not is_gone("999999999:1:another-place")
    assert not is_gone("")
