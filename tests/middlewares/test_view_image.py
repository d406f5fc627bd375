"""Row 10: viewed images are sent while they matter, to models that see."""

import base64
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.errors import ModelRequestError
from deerflow.middlewares.view_image import REFUSED, SENT, ViewImageMiddleware
from deerflow.models.scripted import ScriptedChatModel
from fakes.rows import calls, result, run_context, turn, user

SEES = ViewImageMiddleware(vision=lambda _: True)
BLIND = ViewImageMiddleware(vision=lambda _: False)
PATH = "/mnt/user-data/uploads/cat.png"


async def viewed(run: RunContext, *paths: str) -> dict[str, Any]:
    """A state in which one turn viewed these images."""
    images: dict[str, Any] = {}
    results: list[AnyMessage] = []
    ids: list[Any] = []
    for number, path in enumerate(paths):
        sha256 = await run.put_blob(f"png {path}".encode(), "image/png")
        images[path] = {"sha256": sha256, "media_type": "image/png", "size": 3}
        ids.append(
            {"name": "view_image", "args": {"path": path}, "id": f"v{number}", "type": "tool_call"}
        )
        results.append(
            ToolMessage(
                "Viewed.",
                name="view_image",
                tool_call_id=f"v{number}",
                id=f"r{number}",
                artifact={"path": path},
            )
        )
    turn_ = AIMessage(content="", id="a1", tool_calls=ids)
    return {"messages": [user("what is it?"), turn_, *results], "viewed_images": images}


def images_in(messages: list[AnyMessage] | None) -> list[str]:
    assert messages is not None
    return [
        base64.b64decode(part["base64"]).decode()
        for message in messages
        if isinstance(message.content, list)
        for part in message.content
        if isinstance(part, dict) and part.get("type") == "image"
    ]


async def test_an_image_follows_the_results_of_its_turn() -> None:
    run = run_context()
    state = await viewed(run, PATH, "/mnt/user-data/outputs/plot.png")
    sent, _ = await turn([SEES], state, run)
    assert sent is not None
    assert [m.type for m in sent] == ["human", "ai", "tool", "tool", "human"]
    assert images_in(sent) == [f"png {PATH}", "png /mnt/user-data/outputs/plot.png"]
    assert sent[-1].content[0] == {"type": "text", "text": f"{PATH}:"}
    assert len(state["messages"]) == 4


async def test_it_stays_at_its_place_until_the_request_is_answered() -> None:
    run = run_context()
    state = await viewed(run, PATH)
    first, _ = await turn([SEES], state, run)
    state["messages"] = [*state["messages"], calls("bash", id="a2"), result("bash")]
    second, _ = await turn([SEES], state, run)
    assert first is not None
    assert second is not None
    assert second[: len(first)] == first, "the prefix keeps its bytes"
    state["messages"] = [*state["messages"], AIMessage("A cat.", id="a3"), user("thanks", id="u2")]
    later, _ = await turn([SEES], state, run)
    assert later is state["messages"]


async def test_models_without_eyes_get_none() -> None:
    run = run_context()
    state = await viewed(run, PATH)
    sent, _ = await turn([BLIND], state, run)
    assert sent is state["messages"]


async def test_the_newest_ones_are_sent_and_a_repeated_one_once() -> None:
    run = run_context()
    paths = [f"/mnt/user-data/uploads/{n}.png" for n in range(SENT + 2)]
    sent, _ = await turn([SEES], await viewed(run, *paths), run)
    assert images_in(sent) == [f"png {path}" for path in paths[2:]]
    twice = await viewed(run, PATH, PATH)
    sent, _ = await turn([SEES], twice, run)
    assert images_in(sent) == [f"png {PATH}"]


async def test_a_failed_view_and_another_users_image_show_nothing() -> None:
    run = run_context()
    state = await viewed(run, PATH)
    state["messages"][-1].status = "error"
    sent, _ = await turn([SEES], state, run)
    assert sent is state["messages"]
    stranger = run_context(user_id="bob", storage=run.storage)
    sent, _ = await turn([SEES], await viewed(run, PATH), stranger)
    assert images_in(sent) == []
    assert sent is not None
    assert sent[-1].content == [{"type": "text", "text": f"{PATH}: the image is no longer stored."}]


async def test_an_image_that_the_provider_refuses_does_not_end_the_run() -> None:
    run = run_context()
    state = await viewed(run, PATH)
    sent: list[list[AnyMessage]] = []

    async def terminal(call: ModelCall) -> ModelReply:
        sent.append(call.messages)
        if any("broken" in image for image in images_in(call.messages)):
            raise ModelRequestError("refused (400)", model="m")
        return ModelReply(AIMessage("seen"))

    async def ask() -> ModelReply:
        messages = state["messages"]
        call = ModelCall(ScriptedChatModel(), messages, None, [], {}, state, run, 1)
        return await SEES.model(call, terminal)

    await ask()
    more = await viewed(run, PATH, "/mnt/user-data/outputs/broken.png")
    state["messages"] = more["messages"]
    state["viewed_images"] = more["viewed_images"]
    for _ in range(2):  # the second time it is not even tried
        assert (await ask()).message is not None
    tried = [len(images_in(messages)) for messages in sent]
    assert tried == [1, 2, 1, 1]
    assert f"broken.png: {REFUSED}" in str(sent[-1][-1].content)


async def test_a_refusal_that_no_new_image_explains_is_passed_on() -> None:
    run = run_context()
    state = await viewed(run, PATH)
    asked: list[int] = []

    async def terminal(call: ModelCall) -> ModelReply:
        asked.append(len(images_in(call.messages)))
        if len(asked) > 1:
            raise ModelRequestError("no such model", model="m")
        return ModelReply(AIMessage("seen"))

    call = ModelCall(ScriptedChatModel(), state["messages"], None, [], {}, state, run, 1)
    await SEES.model(call, terminal)
    with pytest.raises(ModelRequestError):
        await SEES.model(call, terminal)
    assert asked == [1, 1]
