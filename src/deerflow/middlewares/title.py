"""Row 24: names a thread after its first exchange, by itself unless a model is configured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.config.schema import TitleConfig
from deerflow.errors import LimitError, ModelError
from deerflow.middlewares.requests import is_request
from deerflow.middlewares.side_calls import side_call, spec_for
from deerflow.models.protocol import Catalog

SECONDS = 20
"""A title is not worth more waiting."""

_PROMPT = (
    "Give this conversation a title of at most {max_words} words in the language of the user. "
    "Answer with the title alone.\n\nUser: {user_msg}\n\nAssistant: {assistant_msg}"
)
_EXCERPT = 500

_MARKDOWN = (
    (re.compile(r"```.*?(?:```|\Z)", re.S), " "),  # code blocks
    (re.compile(r"!\[([^\]]*)\]\([^)]*\)"), r"\1"),  # images
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),  # links
    (re.compile(r"<[^<>\s][^<>]{0,80}>"), " "),  # tags
    (
        re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d+[.)][ \t]+)", re.M),
        "",
    ),  # line marks
    (re.compile(r"(\*{1,3}|_{2,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1"), r"\2"),  # emphasis, code
)
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE = re.compile(rf"\s*(?:[{_CJK}]|[^\s{_CJK}]+)")
_SIGN = re.compile(rf"\s*[{_CJK}]")
_CJK_SHARE = 0.3
"""Words that one CJK character counts as (words of two characters, read by the phrase)."""

_SENTENCE = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")
_EDGE = " \t,;:.-–—·|，、；：。"


class TitleMiddleware(Middleware):
    """Sets `title` once a thread; a name that the user gave stays.

    Args:
        config: `title`.
        model: the model that `title.model_name` names, None to derive the title from the request.
        catalog: its price.
    """

    def __init__(
        self,
        *,
        config: TitleConfig,
        model: BaseChatModel | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self._config = config
        self._model = model
        self._catalog = catalog

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Name the thread when it has no name."""
        if not self._config.enabled or state.get("title"):
            return None
        if run.title:
            return {"title": run.title}
        title = await self._title(state["messages"], run)
        if not title:
            return None
        run.emit("title", {"title": title})
        run.storage.threads.update(run.thread_key, title=title)
        return {"title": title}

    async def _title(self, messages: Sequence[AnyMessage], run: RunContext) -> str:
        user = next((m.text for m in messages if is_request(m) and m.text.strip()), "")
        answer = next((m.text for m in messages if m.type == "ai" and m.text.strip()), "")
        if self._model is not None:
            asked = await self._asked(run, self._model, str(user), str(answer))
            if asked:
                return asked
        return self._short(str(user)) or self._short(str(answer))

    async def _asked(self, run: RunContext, model: BaseChatModel, user: str, answer: str) -> str:
        """The model's title, "" when it fails or is too dear: the derived one is good enough."""
        prompt = self._config.prompt_template or _PROMPT
        values = {
            "max_words": str(self._config.max_words),
            "user_msg": user[:_EXCERPT],
            "assistant_msg": answer[:_EXCERPT],
        }
        for key, value in values.items():
            prompt = prompt.replace("{" + key + "}", value)
        try:
            async with asyncio.timeout(SECONDS):
                asked = [HumanMessage(content=prompt)]
                spec = spec_for(self._catalog, model, self._config.model_name or "")
                reply = await side_call(run, spec, model, asked, caller="title")
        except (LimitError, ModelError, TimeoutError):
            return ""
        return self._short(str(reply.text).strip().strip("\"'“”「」*"))

    def _short(self, text: str) -> str:
        return derived_title(text, self._config.max_words, self._config.max_chars)


def derived_title(text: str, max_words: int = 6, max_chars: int = 60) -> str:
    """The beginning of the first sentence that says something, as plain text on one line.

    Args:
        text: Markdown or plain text of any length.
        max_words: whole words that are kept; a CJK character counts as 0.3 of one.
        max_chars: characters that are kept, the ellipsis included.
    """
    plain = text[:4000]
    for pattern, kept in _MARKDOWN:
        plain = pattern.sub(kept, plain)
    lines = (_UNSEEN.sub(" ", line).strip(_EDGE) for line in _SENTENCE.split(plain))
    sentence = next((line for line in lines if any(sign.isalnum() for sign in line)), "")
    return _cut(" ".join(sentence.split()), max_words, max_chars)


def _cut(sentence: str, max_words: int, max_chars: int) -> str:
    words, kept = 0.0, ""
    for match in _PIECE.finditer(sentence):
        piece = match[0]
        words += _CJK_SHARE if _SIGN.fullmatch(piece) else 1
        if words > max_words + 1e-9 or len(kept) + len(piece) > max_chars:
            break
        kept += piece
    if kept == sentence:
        return kept
    kept = (kept or sentence[: max_chars - 1])[: max_chars - 1]
    return kept.rstrip(_EDGE) + "…"
