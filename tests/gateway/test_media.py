"""Types and restrictions of strangers' files."""

from __future__ import annotations

import pytest

from deerflow.gateway.media import OCTETS, headers, media_type


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("report.md", b"# x", "text/markdown; charset=utf-8"),
        ("a.HTML", b"", "text/html; charset=utf-8"),
        ("a.png", b"", "image/png"),
        ("a.pdf", b"", "application/pdf"),
        ("code.js", b"alert(1)", "text/plain; charset=utf-8"),
        ("code.mjs", b"alert(1)", "text/plain; charset=utf-8"),
        ("style.css", b"", "text/plain; charset=utf-8"),
        ("main.ts", b"", "text/plain; charset=utf-8"),
        ("Makefile", b"all:\n", "text/plain; charset=utf-8"),
        ("cut", "報告".encode()[:-1], "text/plain; charset=utf-8"),
        ("blob", b"\0\1", OCTETS),
        ("latin", b"\xe4\xf6 and more of it", OCTETS),
    ],
)
def test_types(name: str, head: bytes, kind: str) -> None:
    assert media_type(name, head) == kind


@pytest.mark.parametrize("name", ["a.html", "a.htm", "a.xhtml", "a.svg", "a.xml", "a.xsl", "a.mht"])
def test_active_content_is_never_shown_in_place(name: str) -> None:
    given = headers(name, media_type(name, b"<x/>"), download=False)
    assert given["Content-Disposition"].startswith("attachment; ")
    assert "sandbox" in given["Content-Security-Policy"]
    assert "default-src 'none'" in given["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["a.png", "a.md", "a.pdf", "a.mp4", "a.txt"])
def test_others_are_shown_unless_they_are_downloaded(name: str) -> None:
    kind = media_type(name, b"")
    assert headers(name, kind, download=False)["Content-Disposition"].startswith("inline; ")
    assert headers(name, kind, download=True)["Content-Disposition"].startswith("attachment; ")


def test_names_cannot_leave_their_header() -> None:
    given = headers('a"\r\nX: 1;報.txt', "text/plain", download=True)["Content-Disposition"]
    assert given == "attachment; filename*=UTF-8''a%22%0D%0AX%3A%201%3B%E5%A0%B1.txt"
