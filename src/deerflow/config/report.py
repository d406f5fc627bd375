"""Collects what is wrong with a file, each line with file, line and key, sorted by line."""

from __future__ import annotations

from dataclasses import dataclass, field

from deerflow.config.document import Document, Path
from deerflow.config.structure import show


@dataclass(slots=True)
class Report:
    """Problems of one file.

    Attributes:
        name: how the file is called in messages.
        document: for the lines.
        errors, warnings, unknown: (line, text) as they came; `unknown` are keys we do not know.
        broken: paths that have an error.
    """

    name: str
    document: Document
    errors: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    warnings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    unknown: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    broken: set[Path] = field(default_factory=set[Path])

    def error(self, path: Path, message: str, *, line: int | None = None) -> None:
        """Something that stops the load."""
        self._add(self.errors, path, message, line)
        self.broken.add(path)

    def warn(self, path: Path, message: str, *, line: int | None = None) -> None:
        """Something that is worth a word."""
        self._add(self.warnings, path, message, line)

    def unknown_key(self, path: Path, message: str) -> None:
        """A key that the schema does not know: a warning, unless other things are wrong too."""
        self._add(self.unknown, path, message, None)

    def problem_lines(self) -> list[str]:
        """All errors and unknown keys in the order of the file; empty when there is no error."""
        return _sorted(self.errors + self.unknown) if self.errors else []

    def warning_lines(self) -> list[str]:
        """All warnings and unknown keys, in the order of the file."""
        return _sorted(self.warnings + self.unknown)

    def _add(
        self, entries: list[tuple[int, str]], path: Path, message: str, line: int | None
    ) -> None:
        where = self.document.line(path) if line is None else line
        key = f"{show(path)}: " if path else ""
        entry = (where, f"{self.name}:{where}: {key}{message}")
        if entry not in entries:
            entries.append(entry)


def _sorted(entries: list[tuple[int, str]]) -> list[str]:
    return [text for _, text in sorted(entries, key=lambda entry: entry[0])]
