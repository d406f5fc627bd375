"""The server dies in mid-text: what was shown stays shown, and the run goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx

from deerflow.gateway.frames.parts import CUT
from fakes.gateway import serve
from fakes.streams import FOUR, Sent, frames_of, text_of

SCRIPT: list[Any] = [
    {"text": "A long answer, word after word. " * 30, "when": "Hello", "gap_ms": 20, "times": 9}
]
BODY = {
    "input": {"messages": [{"role": "user", "content": "Hello"}]},
    "stream_mode": FOUR,
    "assistant_id": "lead_agent",
}


async def test_p06_text_shown_before_a_kill_is_marked_and_the_answer_comes(tmp_path: Path) -> None:
    raw = b""
    async with serve(tmp_path, SCRIPT) as served:
        async with (
            httpx.AsyncClient(base_url=served.url, timeout=30) as client,
            client.stream("POST", "/api/threads/t/runs/stream", json=BODY) as answer,
        ):
            try:
                async for chunk in answer.aiter_bytes():
                    raw += chunk
                    if raw.count(b"event: messages") >= 10 and served.process.returncode is None:
                        await served.stop(signal.SIGKILL)
            except httpx.RemoteProtocolError:
                pass
    seen = frames_of(raw[: raw.rindex(b"\n\n") + 2])
    message = _messages(seen)[0]
    shown = text_of(seen, message)
    assert 0 < len(shown) < len(SCRIPT[0]["text"])
    async with (
        serve(tmp_path, SCRIPT) as served,
        httpx.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        path = f"/api/threads/t/runs/{seen[0].data['run_id']}"
        modes = "&".join(f"stream_mode={mode}" for mode in FOUR)
        answer = await client.get(f"{path}/stream?{modes}", headers={"Last-Event-ID": seen[-1].id})
        rest = frames_of(answer.content)
        page = (await client.get("/api/threads/t/messages/page")).json()
    assert text_of([*seen, *rest], message).startswith(shown)
    cut = [f.data[0] for f in rest if f.event == "messages" and f.data[0]["id"] == message][-1]
    assert cut["additional_kwargs"] == {CUT: True}
    second = _messages(rest)[-1]
    assert second != message
    assert text_of(rest, second) == SCRIPT[0]["text"]
    assert rest[-1].event == "end"
    last = [frame.data for frame in rest if frame.event == "values"][-1]
    assert [m["id"] for m in last["messages"] if m["type"] == "ai"] == [second]
    assert [entry["content"]["type"] for entry in page["data"]] == ["human", "ai"]


def _messages(frames: list[Sent]) -> list[str]:
    return list(dict.fromkeys(f.data[0]["id"] for f in frames if f.event == "messages"))
