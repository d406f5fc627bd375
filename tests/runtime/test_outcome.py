"""What counts as delivered: regular files below outputs, whatever an agent put in their place."""

from __future__ import annotations

import os
from pathlib import Path

from deerflow.runtime.outcome import scan_outputs
from deerflow.runtime.request import RunRequest
from fakes.harness import scripted_harness


def test_regular_files_alone_are_listed(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    (outputs / "deep").mkdir(parents=True)
    (outputs / "deep" / "report.md").write_text("x", encoding="utf-8")
    (outputs / ".hidden").write_text("x", encoding="utf-8")
    (outputs / "link").symlink_to("/etc/passwd")
    (outputs / "folder").symlink_to("/etc")
    os.mkfifo(outputs / "pipe")
    assert list(scan_outputs(outputs)) == ["deep/report.md"]


def test_a_link_in_the_place_of_outputs_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("x", encoding="utf-8")
    (tmp_path / "outputs").symlink_to(tmp_path / "elsewhere")
    assert scan_outputs(tmp_path / "outputs") == {}


async def test_a_form_is_in_event_outcome_and_answer(tmp_path: Path) -> None:
    args = {"question": "What exactly?", "fields": [{"label": "Name", "required": True}]}
    script = [{"calls": [{"name": "ask_clarification", "args": args}]}, {"text": "Hello Ann."}]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest(task="Greet", thread_id="t"))
        events = [event async for event in handle.events()]
        result = await handle.result()
        answer = await harness.runs.start(RunRequest(task="Name: Ann", thread_id="t"))
        assert (await answer.result()).text == "Hello Ann."
    field = {"id": "field_1", "label": "Name", "type": "text", "options": [], "required": True}
    question = {"question": "What exactly?", "options": [], "fields": [field], "context": ""}
    assert result.outcome is not None
    assert result.outcome.to_dict() == {"kind": "waiting_for_human", "question": question}
    assert [event.payload for event in events if event.type == "question"] == [question]
