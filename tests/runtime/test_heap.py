"""Memory that the C library holds; in processes of their own, as arenas stay."""

import subprocess
import sys

UNBOUNDED = ["env", "-u", "MALLOC_ARENA_MAX", "-u", "GLIBC_TUNABLES"]
"""What may bound the arenas from outside is taken away."""

PROGRAM = """
import asyncio, ctypes, os, tempfile, threading
from deerflow.runtime.heap import give_back, one_arena

libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def arenas():
    together = threading.Barrier(5)
    def hold():
        libc.malloc(5_000)
        together.wait()
    threads = [threading.Thread(target=hold) for _ in range(4)]
    [thread.start() for thread in threads]
    together.wait()
    [thread.join() for thread in threads]
    with tempfile.TemporaryFile() as file:
        stream = libc.fdopen(os.dup(file.fileno()), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        file.seek(0)
        return file.read().count(b"<heap ")

{body}
"""


def told(body: str) -> str:
    done = subprocess.run(
        [*UNBOUNDED, sys.executable, "-c", PROGRAM.format(body=body)],
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
    assert alone == 1 < reserved, (alone, reserved)
