"""Which files a task asks for, which are missing, and the one reminder that the model gets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply

OUTPUTS = "/mnt/user-data/outputs/"
REMINDER = "deerflow_reminder"

_EXTENSIONS = (
    "md|txt|csv|tsv|json|jsonl|html?|xml|ya?ml|toml|pdf|docx?|xlsx?|pptx?|png|jpe?g|svg|gif|webp|py|js|ts|css|sql|sh|"
    "ipynb|tex|zip|rst|ics|parquet|mp3|wav|mp4"
)
_FILE = re.compile(rf"(?<![\w/.:@-])((?:[\w-]+/)*[\w-][\w.-]*\.(?:{_EXTENSIONS}))(?![\w/-])", re.I)
_SOURCE = re.compile(
    r"(?:\b(?:read|open|load|parse|review|summari[sz]e|analy[sz]e|translate|explain|debug|fix|edit|update|change|"
    r"refactor|convert|compare|inspect|check|see|from|in|of|using|with|than|like)|读取?|打开|分析|总结|根据|从)"
    r"[\s,:]*(?:the\s+|a\s+|my\s+|file\s+|and\s+|attached\s+|uploaded\s+)*[`'\"“「]?$",
    re.I,
)
_MAKING = re.compile(
    r"\b(?:write|save|create|produce|generate|make|export|deliver|put|store|draft|output|record|report)\b|写|保存|生成|创建|输出",
    re.I,
)
_INTO = re.compile(r"\b(?:in|with|using)[\s`'\"“「]*(?:the\s+|a\s+)?(?:file\s+)?[`'\"“「]?$", re.I)


def requested_files(task: str, existing: Collection[str] = ()) -> tuple[str, ...]:
    """Names below outputs that a task asks to be written, in order.

    A file that the task names counts unless it is a source: it exists already in the thread, or a
    word of reading stands before it ("summarise data.csv", "from a.json"). "Save it in a.md"
    counts: a word of
    making comes first.

    Args:
        task: the user's words.
        existing: names of files that the thread has (uploads, workspace).
    """
    found: dict[str, None] = {}
    for match in _FILE.finditer(task.replace(OUTPUTS, "")):
        name = match.group(1)
        if name in existing or name.rsplit("/", 1)[-1] in existing or _is_source(task, match, name):
            continue
        found[name] = None
    return tuple(found)


def _is_source(task: str, match: re.Match[str], name: str) -> bool:
    before = task[: task.find(name, max(0, match.start() - len(OUTPUTS)))]
    before = before.removesuffix(OUTPUTS)
    if not _SOURCE.search(before):
        return False
    sentence = re.split(r"[.!?。!?\n;]\s", before)[-1]
    return not (_INTO.search(before) and _MAKING.search(sentence))


def missing_files(outputs: Path, names: Collection[str]) -> list[str]:
    """Those of the names that are absent or empty below outputs; links do not lead out of it."""
    missing: list[str] = []
    for name in names:
        path = outputs / name
        try:
            good = (
                not outputs.is_symlink()
                and path.is_file()
                and path.stat().st_size > 0
                and path.resolve().is_relative_to(outputs.resolve())
            )
        except OSError:
            good = False
        if not good:
            missing.append(name)
    return missing


class Deliverables(Middleware):
    """Kernel row, outermost: tells a small model what must be written next, reminds any other once.

    Args:
        compact: whether a model takes the `deliverables` setting (the embedded one constrains its
            action by it).
    """

    def __init__(self, compact: Callable[[BaseChatModel], bool]) -> None:
        self._compact = compact

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Add the setting on the way in; on a last turn with files missing ask once more."""
        run = call.run
        if not run.expect:
            return await next_(call)
        missing = await asyncio.to_thread(missing_files, run.folders.outputs, run.expect)
        if self._compact(call.model):
            paths = [OUTPUTS + name for name in missing]
            return await next_(call.with_(settings={**call.settings, "deliverables": paths}))
        reply = await next_(call)
        if reply.message is None or reply.message.tool_calls or reply.jump or not missing:
            return reply
        return await self._remind(reply, run, missing)

    async def _remind(self, reply: ModelReply, run: RunContext, missing: list[str]) -> ModelReply:
        if run.scratch.get(Deliverables) or run.turn + 1 >= run.max_turns:
            return reply
        run.scratch[Deliverables] = True
        names = ", ".join(OUTPUTS + name for name in missing)
        reminder = HumanMessage(
            content=f"The task asks for {names}, which does not exist or is empty. "
            "Write it now, or say why it cannot be written.",
            additional_kwargs={REMINDER: True},
        )
        reply.update.setdefault("messages", []).append(reminder)
        reply.jump = "model"
        return reply
