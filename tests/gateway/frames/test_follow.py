from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from deerflow.gateway.frames.parts import CUT
from fakes.streams import FOUR, Log, Sent, frames_of, log, text_of

ANSWER = "The answer is forty-two, as everybody knows."
TOOL = {"id": "c1", "name": "ls", "args": {"path": "/mnt"}}


async def written(found: Log) -> None:
    """A run with a call, a child, a plan, a title and an answer."""
    await found.begin()
    await found.say("m1", "", tool_calls=[TOOL])
    await found.add("tool_started", tool_call_id="c1", name="ls", args=TOOL["args"])
    await found.add("tool_completed", tool_call_id="c1", name="ls", status="success")
    result = {"type": "tool", "id": "r1", "tool_call_id": "c1", "name": "ls", "content": "a.txt"}
    await found.add("message", message=result | {"status": "success"})
    await found.add("todos", todos=[{"content": "look", "status": "completed"}])
    await found.say("m2", ANSWER, usage_metadata={"input_tokens": 3, "output_tokens": 9})
    await found.add("title", title="Answers")
    await found.end()


async def test_frames_of_a_run_in_the_web_client_s_modes(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        await written(found)
        frames = await found.read(FOUR)
    assert [frame.event for frame in frames] == [
        *("metadata", "values", "messages", "updates", "messages", "updates", "updates"),
        *("messages", "updates", "updates", "values", "end"),
    ]
    assert frames[0].data == {"run_id": found.run.run_id, "thread_id": "t"}
    assert [m["type"] for m in frames[1].data["messages"]] == ["human"]
    call = frames[2].data[0]["tool_call_chunks"][0]
    assert (call["name"], call["args"], call["index"]) == ("ls", '{"path":"/mnt"}', 0)
    assert frames[4].data[0]["content"] == "a.txt"
    assert frames[4].data[1]["langgraph_node"] == "tools"
    assert frames[6].data == {"tools": {"todos": [{"content": "look", "status": "completed"}]}}
    assert frames[7].data[0]["usage_metadata"]["output_tokens"] == 9
    assert frames[9].data == {"TitleMiddleware.after_model": {"title": "Answers"}}
    assert frames[-1].data is None


async def test_a_reader_who_comes_back_after_any_frame_gets_the_others_once(
    tmp_path: Path,
) -> None:
    modes = [*FOUR, "tools", "tasks", "events", "debug", "messages"]
    async with log(tmp_path) as found:
        await written(found)
        whole = await found.read(modes)
        for number, frame in enumerate(whole):
            if frame.id:
                rest = await found.read(modes, frame.id)
                assert rest == (whole[number + 1 :] or whole[-1:]), frame  # the end is told again
    assert len({frame.id for frame in whole[1:]}) == len(whole) - 1  # metadata has none


async def test_text_is_told_in_pieces_and_the_finished_message_adds_only_what_is_missing(
    tmp_path: Path,
) -> None:
    async with log(tmp_path) as found, aclosing(found.follow(["messages-tuple"])) as chunks:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 0, ANSWER[:10])
        seen = await _until(chunks, "m", ANSWER[:10])
        await found.piece("m", 10, ANSWER[10:20])
        seen += await _until(chunks, "m", ANSWER[10:20])
        await found.finish("m", ANSWER)
        await found.end()
        seen += frames_of(b"".join([chunk async for chunk in chunks]))
    assert text_of(seen, "m") == ANSWER
    assert [frame.event for frame in seen][-1] == "end"


async def test_a_reader_who_comes_back_in_mid_text_gets_the_rest(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        async with aclosing(found.follow(["messages-tuple"])) as chunks:
            await found.piece("m", 0, ANSWER[:10])
            seen = await _until(chunks, "m", ANSWER[:10])
        await found.piece("m", 10, ANSWER[10:20])  # while nobody reads
        async with aclosing(found.follow(["messages-tuple"], seen[-1].id)) as chunks:
            more = await _until(chunks, "m", ANSWER[10:20])
        await found.finish("m", ANSWER)
        await found.end()
        rest = await found.read(["messages-tuple"], more[-1].id)
    assert text_of([*seen, *more, *rest], "m") == ANSWER


async def test_a_piece_may_come_before_the_event_that_begins_its_message(tmp_path: Path) -> None:
    """Pieces and events reach other processes by ways of their own."""
    modes = ["messages-tuple", "updates"]
    async with log(tmp_path) as found, aclosing(found.follow(modes)) as chunks:
        await found.begin()
        await found.add("title", title="Answers")
        seen = frames_of(await anext(chunks))
        while seen[-1].event != "updates":  # the reader is up to date
            seen += frames_of(await anext(chunks))
        await found.piece("m", 0, ANSWER[:10])
        seen += await _until(chunks, "m", ANSWER[:10])
        first = seen[-1].id
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 10, ANSWER[10:20])
        seen += await _until(chunks, "m", ANSWER[10:20])
        await found.finish("m", ANSWER)
        await found.end()
        seen += frames_of(b"".join([chunk async for chunk in chunks]))
        rest = await found.read(modes, first)
    assert text_of(seen, "m") == ANSWER
    assert text_of(rest, "m") == ANSWER[10:]
    assert CUT not in str([frame.data for frame in (*seen, *rest)])


async def test_reasoning_travels_beside_the_text(tmp_path: Path) -> None:
    async with log(tmp_path) as found, aclosing(found.follow(["messages-tuple"])) as chunks:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m~thinking", 0, "Hm, ")
        await found.piece("m", 0, "Yes")
        seen = await _until(chunks, "m", "Yes")
        await found.finish("m", "Yes.", additional_kwargs={"reasoning_content": "Hm, well."})
        await found.end()
        seen += frames_of(b"".join([chunk async for chunk in chunks]))
    messages = [frame.data[0] for frame in seen if frame.event == "messages"]
    thought = [m.get("additional_kwargs", {}).get("reasoning_content", "") for m in messages]
    assert "".join(thought) == "Hm, well."
    assert text_of(seen, "m") == "Yes."


async def test_who_comes_back_after_any_frame_in_mid_text_is_told_nothing_twice(
    tmp_path: Path,
) -> None:
    """Events fall in between, a message is cut off, the next has reasoning as well."""
    modes = ["messages-tuple", "custom"]
    async with log(tmp_path) as found, aclosing(found.follow(modes)) as chunks:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 0, ANSWER[:10])
        seen = await _until(chunks, "m", ANSWER[:10])
        await found.add("handed_over", reason="its worker died")
        failed = {"model": "scripted", "attempt": 1, "code": "process_died", "message": "It died."}
        again = {"wait_seconds": 0.0, "next_model": "scripted"}
        await found.add("model_retry", **failed, **again, message_id="m")
        await found.storage.deltas.finish(found.run.run_id, "m")
        await found.add("model_started", turn=1, message_id="n")
        await found.piece("n~thinking", 0, "Hm, ")
        await found.piece("n", 0, ANSWER[:20])
        seen += await _until(chunks, "n", ANSWER[:20])
        await found.add("handed_over", reason="its worker stops")  # a place in mid-text
        while seen[-1].event != "custom":
            seen += frames_of(await anext(chunks))
        now = [asyncio.create_task(found.raw(modes, frame.id)) for frame in seen]
        async with aclosing(found.follow(modes)) as latest:  # when it reads, the others do
            await _until(latest, "n", ANSWER[:20])
        await found.finish("n", ANSWER, additional_kwargs={"reasoning_content": "Hm, well."})
        await found.end()
        seen += frames_of(b"".join([chunk async for chunk in chunks]))
        backs = [(n, frames_of(await task)) for n, task in enumerate(now)]
        backs += [(n, await found.read(modes, frame.id)) for n, frame in enumerate(seen)]
        for number, back in backs:
            frame, whole = seen[number], [*seen[: number + 1], *back]
            shown = text_of(seen[: number + 1], "m")
            assert text_of(whole, "m") == shown, frame  # what nobody has of it is gone
            assert str([f.data for f in whole]).count(CUT) == bool(shown), frame
            assert text_of(whole, "n") == ANSWER, frame
            assert _reasoning(whole) == "Hm, well.", frame


def _reasoning(frames: list[Sent]) -> str:
    chunks = [frame.data[0] for frame in frames if frame.event == "messages"]
    extras = [chunk.get("additional_kwargs", {}) for chunk in chunks]
    return "".join(extra.get("reasoning_content", "") for extra in extras)


async def test_a_repeated_text_is_whole_for_who_comes_back(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        async with aclosing(found.follow(["messages", "messages-tuple"])) as chunks:
            await found.piece("m", 0, ANSWER[:10])
            seen = await _until(chunks, "m", ANSWER[:10])
        async with aclosing(found.follow(["messages", "messages-tuple"], seen[-1].id)) as chunks:
            await found.piece("m", 10, ANSWER[10:30])
            back = await _until(chunks, "m", ANSWER[10:30])
    partial = [frame.data[0]["content"] for frame in back if frame.event == "messages/partial"]
    assert partial == [ANSWER[:30]]


async def test_p06_text_of_a_run_that_was_cut_off_is_shown_and_marked(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 0, ANSWER[:20])
        await found.end("error", {"code": "process_died", "message": "It died.", "cure": ""})
        frames = await found.read(["messages-tuple"])
    assert text_of(frames, "m") == ANSWER[:20]
    assert frames[-3].data[0]["additional_kwargs"] == {CUT: True}
    assert frames[-2].event == "error"
    assert frames[-2].data["message"] == "It died."
    assert frames[-1].event == "end"


async def test_text_that_is_written_anew_is_marked_as_void(tmp_path: Path) -> None:
    async with log(tmp_path) as found, aclosing(found.follow(["messages-tuple"])) as chunks:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 0, "Half of")
        seen = await _until(chunks, "m", "Half of")
        failed = {"model": "scripted", "attempt": 1, "code": "server", "message": "It fell."}
        again = {"wait_seconds": 0.0, "next_model": "scripted"}
        await found.add("model_retry", **failed, **again, message_id="m")
        await found.storage.deltas.finish(found.run.run_id, "m")
        await found.say("n", "All of it.")
        await found.end()
        seen += frames_of(b"".join([chunk async for chunk in chunks]))
    ends = {f.data[0]["id"]: f.data[0] for f in seen if f.event == "messages"}
    assert ends["m"]["additional_kwargs"] == {CUT: True}
    assert text_of(seen, "n") == "All of it."


@pytest.mark.parametrize("ident", ["nonsense", "99999", "3:", "-7", "1700000000000-0"])
async def test_an_id_that_is_not_ours_is_answered_with_a_gap(tmp_path: Path, ident: str) -> None:
    async with log(tmp_path) as found:
        await written(found)
        frames = await found.read(FOUR, ident)
    assert [frame.event for frame in frames] == ["gap"]
    assert frames[0].data["code"] == "stream_replay_gap"
    assert frames[0].data["requested_event_id"] == ident


async def test_a_run_that_was_removed_ends_its_streams(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        await found.begin()
        await found.end("cancelled")
        await found.storage.queue.remove(found.run.run_id)
        frames = await found.read(["messages-tuple"])
    assert frames[-1].event == "end"


async def test_p08_bytes_grow_with_the_content(tmp_path: Path) -> None:
    steps, size = 300, 2_000
    async with log(tmp_path) as found:
        await found.begin()
        for number in range(steps):
            args = {"n": number}
            call = {"id": f"c{number}", "name": "work", "args": args}
            await found.say(f"m{number}", "", tool_calls=[call])
            await found.add("tool_started", tool_call_id=call["id"], name="work", args=args)
            done = {"tool_call_id": call["id"], "name": "work", "status": "success"}
            await found.add("tool_completed", **done)
            result = {"type": "tool", "id": f"r{number}", "content": "x" * size, **done}
            await found.add("message", message=result)
            await found.add("todos", todos=[{"content": str(number), "status": "pending"}])
        await found.end()
        content = steps * size
        alone, four = await found.raw(["messages-tuple"]), await found.raw(FOUR)
    assert len(alone) <= 2 * content
    assert len(four) <= 4 * content + 1_000 * steps


async def test_many_readers_get_the_same_bytes(tmp_path: Path) -> None:
    async with log(tmp_path) as found:
        readers = [asyncio.create_task(found.raw(FOUR)) for _ in range(5)]
        await written(found)
        assert len(set(await asyncio.gather(*readers))) == 1


async def _until(chunks, message_id: str, text: str):  # type: ignore[no-untyped-def]
    """Frames until the text was told."""
    seen = []
    async with asyncio.timeout(10):
        while text_of(seen, message_id) != text:
            seen += frames_of(await anext(chunks))
    return seen
