"""The program that turns one document into Markdown: stdin to stdout, confined before it reads.

`python -I -B -m deerflow.gateway.documents.child SUFFIX CONVERTER MEMORY SECONDS`. Exit codes are
those of this module; any other one means that the document cannot be read.
"""

from __future__ import annotations

import importlib.util
import io
import mimetypes
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any, BinaryIO, Final

from deerflow.errors import SandboxError
from deerflow.sandbox.harden import harden

MISSING: Final = 3
"""A library is not installed."""
MEMORY: Final = 4
"""There was not enough memory."""
EMPTY: Final = 5
"""There is no text in it."""
OPEN: Final = 6
"""This machine has nothing to confine the program with."""

_MARKITDOWN = {
    ".docx": "DocxConverter",
    ".pptx": "PptxConverter",
    ".xlsx": "XlsxConverter",
    ".epub": "EpubConverter",
    ".pdf": "PdfConverter",
}
SUFFIXES = frozenset(_MARKITDOWN)
"""What can be converted, by the end of the name."""


def main() -> int:
    """The exit code."""
    suffix, converter, memory, seconds = sys.argv[1:5]
    mimetypes.init(files=[])  # no file of the system: it could not be read any more
    by_pdfium = suffix == ".pdf" and converter != "markitdown"
    if importlib.util.find_spec("pypdfium2" if by_pdfium else "markitdown") is None:
        return MISSING
    try:
        harden(_readable(), memory=int(memory), seconds=int(seconds))
    except SandboxError:
        return OPEN
    try:
        with open(0, "rb", closefd=False) as source:
            found = _pdf(source) if by_pdfium else _other(source, suffix)
    except MemoryError:
        return MEMORY
    return 0 if found else EMPTY


def _readable() -> list[str]:
    """Where Python, its packages and this program lie."""
    ours = Path(__file__).resolve().parents[3]
    paths = [*sysconfig.get_paths().values(), *site.getsitepackages(), *sys.path]
    return sorted({sys.prefix, sys.base_prefix, str(ours), *(path for path in paths if path)})


def _pdf(source: BinaryIO) -> bool:
    """Text page by page."""
    import pypdfium2  # noqa: PLC0415  (an extra)

    found = False
    document = pypdfium2.PdfDocument(source)
    for number, page in enumerate(document, 1):
        words: Any = page.get_textpage()
        text = str(words.get_text_bounded()).replace("\r\n", "\n").strip()
        page.close()
        if text:
            _say(f"## Page {number}\n\n{text}\n\n")
            found = True
    return found


def _other(source: BinaryIO, suffix: str) -> bool:
    from markitdown import (  # noqa: PLC0415  (an extra)
        MissingDependencyException,
        StreamInfo,
        converters,
    )

    kind: Any = getattr(converters, _MARKITDOWN[suffix])
    try:
        result = kind().convert(io.BytesIO(source.read()), StreamInfo(extension=suffix))
    except MissingDependencyException:
        raise SystemExit(MISSING) from None
    text = str(result.markdown).strip()
    if text:
        _say(text + "\n")
    return bool(text)


def _say(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    raise SystemExit(main())
