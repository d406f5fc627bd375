"""What counts as delivered: regular files below outputs, whatever an agent put in their place."""

from __future__ import annotations

import os
from pathlib import Path

from deerflow.runtime.outcome import scan_outputs


def test_regular_files_alone_are_listed(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    (outputs / "deep").mkdir(parents=True)
    (outputs / "deep" / "report.md").write_text("x", encoding="utf-8")
    (outputs / ".hidden").write_text("x", encoding="utf-8")
    (outputs / "link").symlink_to("/etc/passwd")
    (outputs / "folder").symlink_to("/etc")
    os.mkfifo(outputs / "pipe")
    assert list(scan_outputs(outputs)) == ["deep/report.md"]


def test_a_link_in_the_place_of_outputs_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("x", encoding="utf-8")
    (tmp_path / "outputs").symlink_to(tmp_path / "elsewhere")
    assert scan_outputs(tmp_path / "outputs") == {}
