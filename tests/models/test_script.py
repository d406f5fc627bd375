"""Scripts are checked when they are read: every problem at once, with turn and line."""

import textwrap

import pytest
from langchain_core.messages import HumanMessage

from deerflow import errors
from deerflow.models.script import Asked, read
from deerflow.models.scripted import ScriptedChatModel


def asks(text: str) -> list[HumanMessage]:
    return [HumanMessage(text)]


def test_yaml_problems_are_told_all_at_once_with_turn_and_line():
    text = textwrap.dedent("""\
        - text: fine
        - txt: oops
        - calls:
            - nme: look
          delay_ms: soon
        - 5
        - text: x
          when: "("
    """)
    with pytest.raises(errors.ConfigError) as caught:
        ScriptedChatModel.from_yaml(text)
    problems = caught.value.problems
    assert any("turn 2, line 2: unknown key 'txt'; did you mean 'text'?" in p for p in problems)
    assert any("turn 3, line 3" in p and "nme" in p for p in problems)
    assert any("turn 3, line 5: delay_ms" in p for p in problems)
    assert any("turn 4" in p for p in problems)
    assert any("turn 5, line 8: when" in p and "regular expression" in p for p in problems)


def test_broken_yaml_and_missing_files_are_configuration_errors(tmp_path):
    with pytest.raises(errors.ConfigError, match="line 3: not YAML"):
        ScriptedChatModel.from_yaml('- text: "open\n- text: x\n')
    with pytest.raises(errors.ConfigError, match="'gone.yaml' cannot be read"):
        ScriptedChatModel.from_yaml(tmp_path / "gone.yaml")
    with pytest.raises(errors.ConfigError, match="list of turns"):
        ScriptedChatModel(script=5)


async def test_a_script_file_is_read_as_utf8(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text("- text: 范围\n- error: {code: rate_limit, retry_after: 1.5}\n", "utf-8")
    model = ScriptedChatModel(script=str(path))
    assert (await model.ainvoke(asks("go"))).text == "范围"
    with pytest.raises(errors.RateLimitError):
        await model.ainvoke(asks("go"))


def test_plain_strings_are_text_turns_and_numbers_count_from_one():
    story = read(["one", {"text": "two", "times": 3}])["default"]
    assert [(turn.number, turn.text) for turn in story.turns] == [(1, "one"), (2, "two")]
    assert story.remaining == 4


def test_an_unknown_error_code_names_the_known_ones():
    with pytest.raises(errors.ConfigError, match="turn 1.*error.code.*'rate_limit'"):
        read([{"error": "explode"}])


def test_problems_of_a_story_name_the_story():
    with pytest.raises(errors.ConfigError, match="story 'poem', turn 1: unknown key 'tekst'"):
        read({"poem": [{"tekst": "x"}]})


def test_a_duplicate_key_is_an_error():
    with pytest.raises(errors.ConfigError, match="not YAML"):
        read("- text: a\n  text: b\n")


def test_a_turn_waits_for_the_request_that_fits():
    story = read([{"text": "a", "when": "^A"}, "any"])["default"]
    assert story.next(Asked("B", None, 0, ())).text == "any"
    assert story.next(Asked("A", None, 0, ())).text == "a"
