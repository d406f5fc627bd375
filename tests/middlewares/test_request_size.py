"""Sizes of requests: counted once, corrected by the provider's last number."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, SystemMessage

from deerflow.middlewares.request_size import RESERVE, UNKNOWN_WINDOW, Sizes, counted, room
from deerflow.models.protocol import ModelSpec
from deerflow.models.usage import estimate
from fakes.rows import calls, result, tool, user


def reply(tokens: int, id: str = "a") -> AIMessage:
    usage: Any = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
    return AIMessage("fine", id=id, usage_metadata=usage)


def spec(window: int | None, answer: int | None = None) -> ModelSpec:
    return ModelSpec("m", "p", "m", context_window=window, max_output=answer)


def test_a_message_is_counted_as_the_models_package_does() -> None:
    messages = [user("hello"), calls("look", q="deer"), result("look", "鹿" * 10), user("")]
    assert Sizes().of(messages) == estimate(messages)


def test_a_shortened_copy_is_counted_by_itself() -> None:
    sizes = Sizes()
    long, short = result("look", "x" * 9000), result("look", "x" * 90)
    assert long.id == short.id
    assert sizes.of([long, short, long]) == estimate([long, short, long])


def test_what_was_counted_is_not_read_again() -> None:
    sizes, message = Sizes(), user("x" * 300)
    before = sizes.of([message])
    message.additional_kwargs["anything"] = True
    sizes.messages[(message.id or "", 300)] = before + 1
    assert sizes.of([message]) == before + 1


def test_schemas_and_system_text_count() -> None:
    sizes = Sizes()
    one = sizes.of_tools([tool("look")])
    assert one > 10
    assert sizes.of_tools([tool("look"), {"name": "grep", "parameters": {}}]) > one
    assert sizes.of_system(None) == 0
    assert sizes.of_system(SystemMessage("x" * 300)) > 100


def test_the_providers_number_counts_with_what_came_after() -> None:
    sizes, text = Sizes(), user("x" * 3000, id="u")
    more = user("y" * 300, id="v")
    view = [text, reply(700), more]
    assert counted(view, sizes.of(view), 0, sizes) == 700 + sizes.of([reply(700), more])


def test_a_number_that_cannot_be_is_not_believed() -> None:
    sizes, text = Sizes(), user("x" * 3000, id="u")
    for told in (0, 3, 1_000_000):
        view = [text, reply(told, id=str(told))]
        assert counted(view, sizes.of(view), 0, sizes) == sizes.of(view)


def test_a_number_from_before_the_compaction_does_not_count() -> None:
    sizes, text = Sizes(), user("x" * 3000, id="u")
    view = [text, reply(700), user("more", id="v")]
    assert counted(view, sizes.of(view), 2, sizes) == sizes.of(view)


def test_room_is_left_for_the_answer() -> None:
    assert room(spec(100_000)) == 100_000 - RESERVE
    assert room(spec(100_000, 8_000)) == 92_000
    assert room(spec(8_000)) == 6_000
    assert room(spec(8_000, 8_000)) == 6_000
    assert room(spec(None)) == room(None) == UNKNOWN_WINDOW - RESERVE


def test_a_view_that_grows_is_counted_where_it_grew() -> None:
    sizes, view = Sizes(), [user("x" * 300, id="u"), reply(9)]
    assert sizes.grown(view) == estimate(view)
    longer = [*view, user("more", id="v")]
    assert sizes.grown(longer) == estimate(longer)
    other = [user("y" * 900, id="w"), *view[1:], user("z", id="x")]
    assert sizes.grown(other) == estimate(other)
    assert sizes.grown([]) == 0
    assert sizes.grown(view[:1]) == estimate(view[:1])
