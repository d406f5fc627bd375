"""Line by line, in bounded time, and `patch` can apply it."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.runtime.linediff import MATCHED, diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def applied(before: str, hunks: str) -> str:
    """What the hunks make of a text."""
    old, made, at = before.splitlines(), list[str](), 0
    for line in hunks.splitlines():
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            until = int(start) - (1 if length != "0" else 0)
            made += old[at:until]
            at = until
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert old[at] == line[1:]
            made += [old[at]] if line.startswith(" ") else []
            at += 1
    return "".join(f"{line}\n" for line in made + old[at:])


@given(TEXTS, TEXTS)
def test_the_hunks_lead_from_one_text_to_the_other(before: str, after: str) -> None:
    found = diff(before, after)
    assert applied(before, found.text) == after
    assert found.additions - found.deletions == after.count("\n") - before.count("\n")
    assert (found.text == "") == (before == after)


def test_few_lines_of_context() -> None:
    lines = [str(number) for number in range(100)]
    found = diff("\n".join(lines), "\n".join([*lines[:50], "new", *lines[51:]]))
    assert found.text.splitlines() == [
        "@@ -48,7 +48,7 @@", " 47", " 48", " 49", "-50", "+new", " 51", " 52", " 53",
    ]  # fmt: skip
    assert (found.additions, found.deletions) == (1, 1)


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_patch_understands_it(tmp_path: Path) -> None:
    before, after = "a\nb\nc\n", "a\nx\nc\nd\n"
    (tmp_path / "f").write_text(before, encoding="utf-8")
    hunks = f"--- f\n+++ f\n{diff(before, after).text}\n"
    subprocess.run(["patch", "f"], cwd=tmp_path, input=hunks.encode(), check=True)
    assert (tmp_path / "f").read_text(encoding="utf-8") == after


def test_texts_that_have_nothing_in_common_take_no_time() -> None:
    count = 20 * MATCHED
    before = "\n".join(f"{number % 7} {number}" for number in range(count))
    after = "\n".join(f"{number % 7} {-number}" for number in range(1, count))
    begun = time.monotonic()
    found = diff(before, after)
    assert time.monotonic() - begun < 1
    assert (found.additions, found.deletions) == (count - 1, count)
