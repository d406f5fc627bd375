"""uv is found where `make` may have put it, and trusts what the machine trusts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.config.installer import find_uv, trusting


def put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_nearest_uv_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_uv() is None
    on_path = put(tmp_path / "path/uv")
    assert find_uv() == on_path
    private = put(tmp_path / ".uv/bin/uv")
    assert find_uv() == private
    beside = put(tmp_path / ".venv/bin/uv")
    assert find_uv() == beside


def test_the_machines_certificates_are_trusted_where_there_are_some(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates.crt"
    assert trusting(certificates) == ()
    certificates.touch()
    seen = subprocess.run(
        [*trusting(certificates), "/usr/bin/env"],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.split() == ["UV_SYSTEM_CERTS=true", "UV_NATIVE_TLS=true"]
