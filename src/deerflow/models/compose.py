"""Writes the content of a file with a small model: the form comes from code, the words from it.

A 135M model left alone with "write notes.md" loops, or writes about files. Asked for single
sentences under a grammar it stays readable, so a document is a title, a paragraph and a list, each
generated on its own.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from deerflow.models.engine import Session
from deerflow.models.grammar import lark

UNWRITABLE = frozenset(
    "pdf doc docx xls xlsx ppt pptx png jpg jpeg gif webp zip parquet mp3 wav mp4 ipynb".split()
)
"""Endings of files that plain text is not."""
_CODE = frozenset("py js ts css sql sh xml svg yaml yml toml tex jsonl".split())

PROSE: dict[str, Any] = {
    "temperature": 0.2,
    "min_p": 0.1,
    "repeat_penalty": 1.05,
    "repeat_last_n": 256,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 4,
}
"""Found by comparing samples: warmer wanders off, colder without DRY repeats itself."""

_SENTENCE = 200
_ITEM = 120
_PLAIN = r'[^\n.!?#*_~`<>\[\]|:;"(){}@\\=\/]'
_WORDS = rf"({_PLAIN}|[0-9]\.[0-9])"
_PARAGRAPH_RULES = rf"""start: sentence (" " sentence){{2,3}}
sentence: /[A-Z]{_WORDS}{{20,{_SENTENCE}}}\./
"""
_LIST_RULES = rf"""start: item{{LEAST,MOST}}
item: "- " /[A-Z]{_WORDS}{{12,{_ITEM}}}\./ "\n"
"""
_NAME = r"[`'\"“]?(?:/?[\w-]+/)*[\w-][\w.-]*\.[A-Za-z][A-Za-z0-9]{0,4}[`'\"”]?"
_FILE_PHRASE = re.compile(
    r"\s*,?\s*(?:(?:and|then)\s+)*"
    r"(?:(?:save|store|put|write|export|output)\s+(?:it|this|that|them|the \w+)\s+)?"
    rf"(?:to|in|into|as|at|named|called)\s+(?:(?:a|the)\s+)?(?:file\s+)?(?:named\s+|called\s+)?{_NAME}",
    re.I,
)
_FOLDER = re.compile(
    r"\s*,?\s*(?:to|in|into|inside|under)\s+(?:(?:the|my|your)\s+)?outputs?"
    r"(?:\s+(?:folder|directory))?\b",
    re.I,
)
_BARE_NAME = re.compile(rf"(?<!\w){_NAME}\s*(?:[:,-]|with|containing|about(?=\s+a\b))?\s*", re.I)
_LEAD = re.compile(
    r"^(?:please\s+)?(?:(?:can|could|would) you\s+)?(?:please\s+)?"
    r"(?:write|create|make|draft|prepare|produce|generate|compose|give)\s+(?:me\s+|us\s+)?"
    r"(?:(?:a|an|the|some)\s+)?(?:[\w-]+\s+){0,4}?"
    r"(?:notes?|reports?|summary|guide|document|article|essay|text|page|paragraph|checklist|list|overview|"
    r"introduction|letter|file|memo|steps|tips|ideas|facts)\s+"
    r"(?:about|on|of|for|to|describing|explaining)\s+",
    re.I,
)
_LISTING = re.compile(r"\b(?:checklist|check-list|list|steps|tips|ideas|facts|to-?dos?)\b", re.I)
_VAGUE = frozenset(
    "notes note report summary output result readme index file document answer text".split()
)
_FENCE = re.compile(r"```[\w-]*\n(.*?)(?:\n```|\Z)", re.S)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a small model wrote: a title, a paragraph ("" in a plain list) and points."""

    title: str
    paragraph: str
    points: tuple[str, ...]

    def rendered(self, ending: str) -> str:
        """As the text of a file with this ending: json, csv, html, txt, else Markdown."""
        if ending == "json":
            value = {"title": self.title, "summary": self.paragraph, "points": self.points}
            return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        if ending == "csv":
            table = io.StringIO()
            rows = [("number", "point"), *enumerate(self.points, 1)]
            csv.writer(table, lineterminator="\n").writerows(rows)
            return table.getvalue()
        if ending in ("html", "htm"):
            return self._html()
        mark = "" if ending == "txt" else "#"
        points = "".join(f"- {point}\n" for point in self.points)
        if self.paragraph and points:
            points = f"{mark * 2} Key points".strip() + f"\n\n{points}"
        blocks = (f"{mark} {self.title}".strip(), self.paragraph, points)
        return "\n\n".join(block for block in blocks if block).rstrip() + "\n"

    def _html(self) -> str:
        title = html.escape(self.title)
        paragraph = f"<p>{html.escape(self.paragraph)}</p>\n" if self.paragraph else ""
        points = "".join(f"<li>{html.escape(point)}</li>\n" for point in self.points)
        return (
            f'<!doctype html>\n<html>\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
            f"<body>\n<h1>{title}</h1>\n{paragraph}<ul>\n{points}</ul>\n</body>\n</html>\n"
        )


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes one file's content.

    Attributes:
        session: the model.
        small: write sentence by sentence in a fixed form; a larger model writes freely.
        max_tokens: of one file, when written freely.
        seed: of the sampler; another one gives another text.
    """

    session: Session
    small: bool
    max_tokens: int
    seed: int

    def document(self, task: str, path: str) -> str:
        """The content of the file at `path` that the task asks for; "" when nothing came.

        Args:
            task: the user's words.
            path: decides the form by its ending.
        """
        name = PurePosixPath(path).name
        ending = PurePosixPath(path).suffix.lstrip(".").lower()
        if ending in _CODE or not self.small or not _latin(task):
            return self._free(task, name)
        parts = self.parts(task, name)
        return parts.rendered(ending) if parts.paragraph or parts.points else ""

    def parts(self, task: str, name: str) -> Parts:
        """Title, paragraph and points for a task."""
        request = bare_request(task)
        title, subject = heading(task, name)
        if _LISTING.search(request):
            return Parts(title, "", self._points([_user(f"{request}.")], least=4, most=6))
        about = f"Write a short, factual paragraph about {subject}." if subject else f"{request}."
        paragraph = self._paragraph(about)
        ask = _user(f"List four key facts about {subject or 'this'}.")
        said = {"role": "assistant", "content": paragraph}
        return Parts(title, paragraph, self._points([_user(about), said, ask], least=3, most=4))

    def sentence(self, content: str) -> str:
        """One sentence about a text, "" when none came."""
        ask = f"{content[:1200]}\n\nSay in one short sentence what this text is about."
        rules = rf"start: /[A-Z]{_WORDS}{{15,{_SENTENCE}}}\./" + "\n"
        text = self._ask([_user(ask)], rules, max_tokens=60)
        return text if text.endswith(".") and len(text) < _SENTENCE else ""

    def _paragraph(self, ask: str) -> str:
        text = self._ask([_user(ask)], _PARAGRAPH_RULES, max_tokens=220)
        sentences = re.split(r"(?<=\.) ", text)
        whole = [one for one in sentences if one.endswith(".") and len(one) < _SENTENCE]
        return " ".join(dict.fromkeys(whole)) or (_closed(text) if text else "")

    def _points(self, messages: list[dict[str, str]], *, least: int, most: int) -> tuple[str, ...]:
        rules = _LIST_RULES.replace("LEAST", str(least)).replace("MOST", str(most))
        text = self._ask(messages, rules, max_tokens=220)
        points = [line[2:] for line in text.split("\n") if line[:2] == "- " and line[-1:] == "."]
        seen: dict[str, str] = {}
        for point in points:
            seen.setdefault(" ".join(point.lower().split()[:6]), point)
        return tuple(point for point in seen.values() if len(point) < _ITEM)

    def _free(self, task: str, name: str) -> str:
        ask = f"{task}\n\nWrite the complete content of {name}. Answer with the content only."
        text = self._ask([_user(ask)], None, max_tokens=self.max_tokens)
        fenced = _FENCE.search(text)
        text = (fenced.group(1) if fenced else text).strip()
        return f"{text}\n" if text else ""

    def _ask(self, messages: list[dict[str, str]], rules: str | None, *, max_tokens: int) -> str:
        grammar = None if rules is None else lark(rules)
        done = self.session.chat(
            messages, max_tokens=max_tokens, kind="call", grammar=grammar, seed=self.seed, **PROSE
        )
        return done.text.strip()


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bare_request(task: str) -> str:
    """A task without the file that it is to be written to, and without the full stop."""
    text = _FOLDER.sub("", _FILE_PHRASE.sub("", " ".join(task.split())))
    text = _BARE_NAME.sub(" ", text)
    text = " ".join(text.split()).rstrip(" .:;,")
    return text[:600]


def heading(task: str, name: str) -> tuple[str, str]:
    """Title of the document, and its subject ("" when the task does not say it in a known way)."""
    request = bare_request(task)
    found = _LEAD.match(request)
    subject = (
        re.split(r"[.;:!?\n]|, (?:with|and|in)\b", request[found.end() :])[0].strip()
        if found
        else ""
    )
    stem = re.sub(r"[_\W]+", " ", PurePosixPath(name).stem).strip()
    if subject and len(subject) <= 80:
        title = subject
    elif stem.lower() not in _VAGUE:
        title = stem
    else:
        title = request if len(request) <= 80 else stem
    title = re.sub(r"^(?:the|a|an)\s+", "", title, flags=re.I) or title
    return title[:1].upper() + title[1:], subject if len(subject) <= 200 else ""


def _closed(text: str) -> str:
    """The first words of a text without one whole sentence, ended at a word."""
    return text[:_SENTENCE].rsplit(" ", 1)[0].rstrip(" ,.-") + "."


def _latin(text: str) -> bool:
    letters = [sign for sign in text if sign.isalpha()]
    return sum(sign.isascii() for sign in letters) * 2 >= len(letters)
