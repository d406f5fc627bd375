"""`make bench`: our column beside the raw client and plain LangChain, then our parts one by one.

The peers and the mock model server are read from a folder beside the project (`--peers`); without
it the first table is left out. Rounds are interleaved and every peer runs in this project's
interpreter, so ratios within a round are fair; wall figures mean something on a quiet machine
only. Raw results go to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SDK = "langchain_openai:ChatOpenAI"


class PeerRow:
    """One column of the table: a driver file and its environment."""

    def __init__(self, name: str, file: Path, **env: str) -> None:
        self.name, self.file, self.env = name, file, env


def peers(folder: Path) -> list[PeerRow]:
    """Ours twice (lean client, SDK), then those of the folder that this interpreter can run."""
    ours = HERE / "peers" / "deerflow_agent.py"
    theirs = [
        ("langchain", "langchain_agent.py"),
        ("raw openai", "raw_openai.py"),
        ("raw aiohttp", "raw_aiohttp.py"),
    ]
    return [
        PeerRow("deerflow", ours, BENCH_PEER="deerflow"),
        PeerRow("deerflow, SDK", ours, BENCH_PEER="deerflow-sdk", BENCH_USE=SDK),
        *(PeerRow(name, folder / "peers" / file) for name, file in theirs),
    ]


def ask(peer: PeerRow, what: list[str], base: str, folder: Path) -> dict[str, Any]:
    """Run one measure of one peer in a process of its own; {} when it failed."""
    env = {
        **os.environ,
        **peer.env,
        "PYTHONPATH": str(folder / "peers"),
    }
    done = subprocess.run(
        [sys.executable, str(peer.file), *what, "--base", base],
        env=env, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    try:
        return json.loads(done.stdout.decode().strip().splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{peer.name} {what[0]}: {done.stderr.decode()[-400:]}", file=sys.stderr)
        return {}


def pick(result: dict[str, Any], *path: str) -> float | None:
    """A figure out of a nested result."""
    for key in path:
        if not isinstance(result, dict) or key not in result or result[key] is None:
            return None
        result = result[key]
    return float(result)  # type: ignore[arg-type]


COLUMNS: list[tuple[str, list[str], tuple[str, ...], str]] = [
    ("import ms", ["import"], ("import_ms",), "{:.0f}"),
    ("first agent ms", ["suite"], ("build_first_ms",), "{:.0f}"),
    ("TEXT 20 CPU", ["suite"], ("TEXT 20", "cpu_ms"), "{:.1f}"),
    ("TOOLS 10 CPU", ["suite"], ("TOOLS 10", "cpu_ms"), "{:.0f}"),
    ("PAR 10 CPU", ["suite"], ("PAR 10", "cpu_ms"), "{:.1f}"),
    ("50×TOOLS 5 runs/s", ["conc"], ("conc", "runs_per_s"), "{:.1f}"),
    ("CPU/run there", ["conc"], ("conc", "cpu_ms_per_run"), "{:.1f}"),
    ("first token ms", ["suite"], ("ttft", "ttft_over_ms"), "{:.1f}"),
    ("first prompt B", ["suite"], ("TEXT 20", "req_bytes_first"), "{:.0f}"),
    ("MiB/100 conv.", ["mem"], ("mem", "mib_per_100"), "{:.1f}"),
    ("10 turns B", ["grow"], ("grow", "bytes"), "{:.0f}"),
]


PARTS: list[tuple[str, str, list[str]]] = [
    ("sandbox", "sandbox_start.py", ["5", "20"]),
    ("storage", "storage_growth.py", ["10 turns of TOOLS 1"]),
    ("batch", "task_batch.py", ["1"]),
    ("memory", "memory.py", ["120"]),
    ("gateway", "gateway.py", ["--smoke"]),
]
"""Name, script, arguments of its short form."""


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def harness_table(folder: Path, rounds: int, n: int) -> list[dict[str, Any]]:
    """Measure all peers against the mock server and print the table."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, str(folder / "server.py"), "--port", str(port)], stdout=subprocess.PIPE
    )
    rows = peers(folder)
    raw: list[dict[str, Any]] = []
    try:
        assert server.stdout is not None
        server.stdout.readline()
        for number in range(rounds):
            for what in ("import", "suite", "conc", "mem", "grow"):
                count = {"suite": n, "conc": 50, "mem": 100 if n > 5 else 10, "grow": 10}.get(
                    what, 0
                )
                for row in random.sample(rows, len(rows)):
                    flags = [what] if what == "import" else [what, "-n", str(count)]
                    result = ask(row, flags, f"http://127.0.0.1:{port}", folder)
                    raw.append({**result, "round": number, "peer": row.name, "what": what})
    finally:
        server.terminate()
        server.wait()
    print_table(rows, raw)
    return raw


def print_table(rows: list[PeerRow], raw: list[dict[str, Any]]) -> None:
    """Medians over the rounds, one line a peer."""
    heads = [name for name, *_ in COLUMNS]
    print("| peer | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for row in rows:
        cells: list[str] = []
        for _, what, path, shape in COLUMNS:
            mine = [r for r in raw if r["peer"] == row.name and r["what"] == what[0]]
            found = [v for r in mine if (v := pick(r, *path)) is not None]
            cells.append(shape.format(statistics.median(found)) if found else "–")
        print(f"| {row.name} | " + " | ".join(cells) + " |")


def main() -> None:
    """Parse, measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-n", type=int, default=15, help="runs per measure")
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run")
    parser.add_argument("--only", choices=["harness", *(name for name, *_ in PARTS)])
    parser.add_argument("--peers", type=Path, default=HERE.parent.parent / "shared" / "bench")
    options = parser.parse_args()
    rounds, n = (1, 2) if options.smoke else (options.rounds, options.n)
    results: dict[str, Any] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if options.only in (None, "harness"):
        if (options.peers / "server.py").exists():
            results["harness"] = harness_table(options.peers, rounds, n)
        else:
            print("No folder of peers: the harness table is left out (--peers DIR).")
    for name, script, short in PARTS:
        if options.only in (None, name):
            print(flush=True)
            flags = short if options.smoke else []
            if name == "gateway":
                flags = [*flags, "--peers", str(options.peers)]
            subprocess.run([sys.executable, str(HERE / script), *flags], check=True)
    target = HERE / "results"
    target.mkdir(exist_ok=True)
    (target / f"{int(time.time())}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
