"""A chat-completions endpoint that sits exams: plays resolver and validator by the prompt alone.

    async with ExamEndpoint() as endpoint:  # endpoint.base_url, endpoint.calls
    python tests/fakes/exam_endpoint.py --port 8901 [--dataset FILE] [--revise]

Which role is asked is told by the prompt: a candidate's answer in it asks for a verdict. Answers
are JSON, as text, or as a call of the only tool when the request forces one. Nothing is kept but
counts, so the same request always has the same reply.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Self

from aiohttp import web

Body = dict[str, Any]

_OPTION = re.compile(r"^([A-H])\. ", re.MULTILINE)
_ANSWER = re.compile(r"--- BEGIN answer (\w+) ---\n(.*?)\n--- END answer \1 ---", re.DOTALL)
_QUESTION = re.compile(r"# Question\n\n(.*)", re.DOTALL)
CANDIDATE = "# The candidate's answer"
REVIEWED = "# What a reviewer said about it"


class ExamEndpoint:
    """Async context manager on loopback.

    Args:
        keys: right answers by the question's text; others are made up from a digest.
        revise: whether the first answer to every fifth question is wrong and is sent back.
        say: a reply for everything instead, e.g. "ok".
    """

    def __init__(
        self, keys: dict[str, str] | None = None, *, revise: bool = False, say: str | None = None
    ) -> None:
        self._keys = keys or {}
        self._revise = revise
        self._say = say
        self.counts: Counter[str] = Counter()
        self.base_url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/reset", self._reset)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, found = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{found}/v1"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def calls(self) -> int:
        return self.counts["calls"]

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.counts))

    async def _reset(self, request: web.Request) -> web.Response:
        self.counts.clear()
        return web.json_response({})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body: Body = json.loads(raw)
        prompt = "\n\n".join(map(_text, body["messages"]))
        role = "validator" if CANDIDATE in prompt else "resolver"
        self.counts.update({"calls": 1, role: 1, "bytes": len(raw)})
        said = self._say if self._say is not None else self._reply(role, prompt)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(said) // 4 + 1}
        usage["total_tokens"] = sum(usage.values())
        message = _message(body, said)
        if body.get("stream"):
            return await _streamed(request, body, message, usage)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return web.json_response({**_head(body), "choices": [choice], "usage": usage})

    def _reply(self, role: str, prompt: str) -> str:
        asked = _QUESTION.search(prompt)
        after = asked[1] if asked else prompt
        question = after.partition("\n\n")[0].strip()  # what frameworks add comes later
        known = max(filter(after.startswith, self._keys), key=len, default=None)
        right = self._keys[known] if known else _made_up(question, _OPTION.findall(prompt))
        if role == "resolver":
            slips = self._revise and REVIEWED not in prompt and _number(question) % 5 == 0
            said = _wrong(right) if slips else right
            found: Body = {"reasoning": "It follows.", "response": said, "final": said}
            return json.dumps({**found, "confidence": 0.9}, ensure_ascii=False)
        answer = _ANSWER.search(prompt)
        agrees = answer is not None and answer[2].strip() == right
        found = {"checked_answer": right, "accepted": agrees}
        found["feedback"] = "" if agrees else "Another result."
        return json.dumps(found, ensure_ascii=False)


def keys_of(dataset: Path) -> dict[str, str]:
    """Right answers by the question's text."""
    found = json.loads(dataset.read_text("utf-8"))
    return {each["question"].strip(): each["answer"] for each in found}


def _text(message: Body) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _number(question: str) -> int:
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:4], "big")


def _made_up(question: str, letters: list[str]) -> str:
    number = _number(question)
    return letters[number % len(letters)] if letters else f"result {number % 1000}"


def _wrong(right: str) -> str:
    return ("B" if right == "A" else "A") if len(right) == 1 else f"not {right}"


def _message(body: Body, said: str) -> Body:
    """As text, or as a call of the tool that the request forces."""
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    if not names or body.get("tool_choice", "auto") in ("auto", "none"):
        return {"role": "assistant", "content": said}
    chosen = body["tool_choice"]
    name = chosen["function"]["name"] if isinstance(chosen, dict) else names[0]
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": said}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _head(body: Body, kind: str = "chat.completion") -> Body:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body["model"]}


async def _streamed(
    request: web.Request, body: Body, message: Body, usage: Body
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    delta = dict(message)
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": 0, **delta["tool_calls"][0]}]
    finish = "tool_calls" if "tool_calls" in delta else "stop"
    head = _head(body, "chat.completion.chunk")
    frames: list[Body] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    if (body.get("stream_options") or {}).get("include_usage"):
        frames.append({**head, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(frame, ensure_ascii=False)}\n\n" for frame in frames]
    await response.write("".join([*lines, "data: [DONE]\n\n"]).encode())
    await response.write_eof()
    return response


async def serve(given: argparse.Namespace) -> None:
    keys = keys_of(Path(given.dataset)) if given.dataset else None
    endpoint = ExamEndpoint(keys, revise=given.revise)
    await endpoint.start(given.port)
    print(endpoint.base_url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dataset")
    parser.add_argument("--revise", action="store_true")
    asyncio.run(serve(parser.parse_args()))
