"""Memory that the C library holds; in processes of their own, as arenas stay."""

import subprocess
import sys

PROGRAM = """
import asyncio, ctypes, re, threading
from deerflow.runtime.heap import give_back, one_arena

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def arenas():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    threads = [threading.Thread(target=libc.malloc, args=(5_000,)) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with open("/proc/self/maps") as file:
        return sum("---p" in line for line in file)

{body}
"""


def told(body: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_free_pages_go_back_to_the_system():
    held = """
held = [bytes(50_000) for _ in range(2_000)]
last = bytes(50_000)
del held[::2], held
before = resident()
asyncio.run(give_back())
print(before - resident() > 50)
"""
    assert told(held) == "True"


def test_threads_share_one_arena():
    reserved = int(told("print(arenas())"))
    alone = int(told("one_arena()\nprint(arenas())"))
    assert alone < reserved, (alone, reserved)
