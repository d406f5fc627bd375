"""Under which type and which restrictions a file of a stranger is served."""

from __future__ import annotations

import mimetypes
from urllib.parse import quote

_TYPES = mimetypes.MimeTypes()
"""Python's own table: the same on every machine."""
OCTETS = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
_MORE = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".xhtml": "application/xhtml+xml",
    ".xht": "application/xhtml+xml",
    ".xslt": "application/xml",
    ".mht": "message/rfc822",
    ".mhtml": "message/rfc822",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".skill": "application/zip",
    ".yaml": "text/plain",
    ".yml": "text/plain",
    ".toml": "text/plain",
    ".ts": "text/plain",
    ".tsx": "text/plain",
    ".woff2": "font/woff2",
}
_ACTIVE = ("html", "xml", "svg", "rfc822", "x-shockwave-flash", "xslt")
"""Parts of types in which scripts run when a browser opens them."""
_CODE = ("javascript", "ecmascript", "css", "wasm", "vbscript")
"""Parts of types that another page could take in as its own code."""
_OFF = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"


def media_type(name: str, head: bytes) -> str:
    """The Content-Type of a file; code is told as plain text.

    Args:
        name: of the file.
        head: its first bytes, which tell text from other bytes where the name tells nothing.
    """
    suffix = "." + name.rpartition(".")[2].lower() if "." in name else ""
    kind = _MORE.get(suffix) or _TYPES.guess_type(f"x{suffix}", strict=False)[0]
    if kind is None:
        return _TEXT if _is_text(head) else OCTETS
    if any(part in kind for part in _CODE):
        return _TEXT
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def is_active(kind: str) -> bool:
    """Whether a browser would run what is in it."""
    return any(part in kind for part in _ACTIVE)


def headers(name: str, kind: str, *, download: bool) -> dict[str, str]:
    """Headers that keep a file from acting in our name.

    Args:
        name: for saving it.
        kind: Content-Type.
        download: whether it is to be saved anyway; active content always is.
    """
    shown = "attachment" if download or is_active(kind) else "inline"
    # sandbox keeps the browser's own viewer of PDF from starting
    policy = f"{_OFF}; object-src 'self'; style-src 'unsafe-inline'"
    if kind != "application/pdf":
        policy = f"{_OFF}; sandbox"
    return {
        "Content-Disposition": f"{shown}; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": policy,
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 and error.reason == "unexpected end of data"
    return True
