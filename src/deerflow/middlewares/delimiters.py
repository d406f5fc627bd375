"""The tags that frame text of ours, and what keeps other text from posing as such a frame."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, cast

from langchain_core.messages import AnyMessage

REMINDER_TAG = "system-reminder"
UNTRUSTED_TAG = "untrusted-content"
UPLOADS_TAG = "uploads"
MEMORY_TAG = "memory"
SKILL_TAG = "skill-instructions"
SUMMARY_TAG = "earlier-conversation"

TAGS = (REMINDER_TAG, UNTRUSTED_TAG, UPLOADS_TAG, MEMORY_TAG, SKILL_TAG, SUMMARY_TAG)
"""Every tag that our prompts use. A new one is added here, and nowhere else."""

_INVISIBLE = "[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]*"
_OPEN = "[<\uff1c\ufe64]"
_CLOSE = "[>\uff1e\ufe65]"
_SPACE = r"\s{0,3}"  # bounded: two unbounded runs side by side take quadratic time
_HYPHEN = "[-_ \u2010-\u2015\u2212]"


def _spelt(tag: str) -> str:
    """The tag's letters with invisible signs allowed between them and any hyphen for a hyphen."""
    letters = (_HYPHEN if letter == "-" else re.escape(letter) for letter in tag)
    return _INVISIBLE.join(letters) + _INVISIBLE


_COMPOUND = "|".join(_spelt(tag) for tag in TAGS if "-" in tag)
_PLAIN = "|".join(_spelt(tag) for tag in TAGS if "-" not in tag)
_FIRST = "".join({tag[0] for tag in TAGS})
_TAG = re.compile(  # looks at the first letter ahead: most tags of a web page end there
    rf"(?P<open>{_OPEN})(?=[\s/{_INVISIBLE[1:-2]}]*[{_FIRST}]){_INVISIBLE}"
    rf"(?:{_SPACE}(?P<close>/?){_SPACE}"
    rf"(?:(?P<compound>{_COMPOUND})(?![\w-])|(?P<bare>{_PLAIN}){_SPACE}/?{_SPACE}{_CLOSE})"
    rf"|(?P<attributed>{_PLAIN})\s[^<>]*{_CLOSE})",
    re.IGNORECASE,
)
_UNSEEN = re.compile(r"[^a-z]")


def escape(text: str, *, strict: bool = False) -> str:
    """The text with our own tags made harmless: `<memory>` becomes `&lt;memory>`.

    Ordinary text comes back as the same object. A tag that is one plain word counts as ordinary
    when it stands directly after a letter (`vector<memory>`), unless the text also closes it.

    Args:
        text: any text.
        strict: escape the plain words after a letter as well.
    """
    if not any(sign in text for sign in "<\uff1c\ufe64"):
        return text
    found = list(_TAG.finditer(text))
    if not found:
        return text
    closed = {_name(match) for match in found if match["close"]}

    def harmless(match: re.Match[str]) -> str:
        before = text[match.start() - 1] if match.start() else " "
        attached = before.isalnum() or before == "_"
        if attached and not strict and not match["compound"] and _name(match) not in closed:
            return match[0]
        return "&lt;" + match[0][1:]

    safe = _TAG.sub(harmless, text)
    return text if safe == text else safe


def _name(match: re.Match[str]) -> str:
    return _UNSEEN.sub("", (match["compound"] or match["bare"] or match["attributed"]).lower())


def block(tag: str, body: str, **attributes: str) -> str:
    """A framed block on lines of its own; the body and the attributes cannot close it.

    Args:
        tag: one of TAGS.
        body: what it says.
        **attributes: shown in the opening tag, cut at 200 characters each.
    """
    shown = "".join(f' {key}="{one_line(value, 200)}"' for key, value in attributes.items())
    return f"<{tag}{shown}>\n{escape(body, strict=True)}\n</{tag}>"


def one_line(text: str, limit: int = 200) -> str:
    """A stranger's text (file name, address) on one line, without tags and control characters."""
    kept = "".join("?" if _unprintable(sign) else sign for sign in text[: limit + 1])
    kept = kept.replace("<", "\u2039").replace(">", "\u203a").replace('"', "'")
    return kept if len(text) <= limit else kept[:limit] + "\u2026"


def _unprintable(sign: str) -> bool:
    if " " <= sign <= "~":
        return False
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def before(message: AnyMessage, text: str) -> AnyMessage:
    """A copy of the message with a text before its own."""
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{text}\n\n{content}" if content else text})
    parts = cast("list[Any]", content)
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *parts]})


def after(message: AnyMessage, text: str) -> AnyMessage:
    """A copy of the message with a text after its own."""
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{content}\n\n{text}" if content else text})
    parts = cast("list[Any]", content)
    return message.model_copy(update={"content": [*parts, {"type": "text", "text": text}]})
