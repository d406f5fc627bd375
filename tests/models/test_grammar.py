"""Bounds of schemas and what counts as a legal action; the real grammar runs in test_local."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from deerflow.models.grammar import (
    Tool,
    action_grammar,
    bounded,
    instructions,
    json_grammar,
    read_action,
)

READ = Tool(
    "read_file",
    "Read a text file, or a window of its lines. Long ones are cut.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "start_line": {"type": "integer"}},
        "required": ["path"],
    },
)
PICK = Tool(
    "pick",
    "Pick a colour",
    {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)


def schema_of(grammar: str) -> dict[str, Any]:
    return json.loads(grammar.split("%json ", 1)[1])


def test_tools_take_one_line_each() -> None:
    text = instructions((READ, PICK), may_answer=True)
    assert text.splitlines()[1:] == [
        "read_file(path, start_line?): Read a text file, or a window of its lines.",
        "pick(colour): Pick a colour.",
    ]
    assert "answer" in text
    assert "answer" not in instructions((READ,), may_answer=False)


def test_an_action_names_a_tool_or_answers() -> None:
    schema = schema_of(action_grammar((READ, PICK), may_answer=True, optional=True))
    legal = Draft202012Validator(schema)
    assert legal.is_valid({"tool": "pick", "args": {"colour": "red"}})
    assert legal.is_valid({"answer": ""})
    assert not legal.is_valid({"tool": "pick", "args": {"path": "x"}})
    assert not legal.is_valid({"tool": "bash", "args": {}})


def test_a_tiny_model_gets_required_arguments_and_known_paths() -> None:
    grammar = action_grammar((READ,), may_answer=False, optional=False, paths=["/mnt/a", "/mnt/b"])
    args = schema_of(grammar)["properties"]["args"]
    assert args["properties"] == {"path": {"enum": ["/mnt/a", "/mnt/b"]}}


def test_white_space_is_not_flexible() -> None:
    assert schema_of(json_grammar({"type": "null"}))["x-guidance"] == {"whitespace_flexible": False}


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ('{"tool":"pick","args":{"colour":"red"}}', "pick"),
        ('{"answer":""}', None),
    ],
)
def test_legal_actions_are_read(text: str, tool: str | None) -> None:
    action = read_action(text, (READ, PICK))
    assert action is not None
    assert action.tool == tool


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"tool":"pick","args":{"colour":"re',
        '{"tool":"pick","args":{"colour":"green"}}',
        '{"tool":"pick","args":[]}',
        '{"tool":"unknown","args":{}}',
        '"pick"',
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert read_action(text, (READ, PICK)) is None


def test_references_and_unions_are_resolved() -> None:
    schema = {
        "type": "object",
        "$defs": {"Todo": {"type": "object", "properties": {"text": {"type": "string"}}}},
        "properties": {
            "todos": {"type": "array", "items": {"$ref": "#/$defs/Todo"}},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "both": {"type": ["string", "null"]},
        },
    }
    properties = bounded(schema)["properties"]
    assert properties["todos"]["items"]["properties"]["text"]["maxLength"] == 2_000
    assert properties["todos"]["maxItems"] == 4
    assert [choice["type"] for choice in properties["limit"]["anyOf"]] == ["integer", "null"]
    assert [choice["type"] for choice in properties["both"]["anyOf"]] == ["string", "null"]


def test_recursion_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name", "children"],
            }
        },
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
    }
    assert len(json.dumps(bounded(node))) < 5_000


SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "pattern": "^a+$"},
        {"type": "string", "minLength": 3, "maxLength": 9},
        {"type": "integer", "minimum": 5},
        {"type": "number", "maximum": -3},
        {"type": "boolean"},
        {"enum": ["x", 1, None]},
        {"const": "only"},
        {"type": ["integer", "null"]},
        {},
    ]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "required": sorted(properties)[:1],
            },
            st.dictionaries(st.sampled_from(["path", "content", "n", "list"]), inner, max_size=3),
        ),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_bounds_hold_for_any_schema(schema: dict[str, Any]) -> None:
    strict = bounded(schema)
    Draft202012Validator.check_schema(strict)

    def unbounded(part: dict[str, Any]) -> bool:
        if "anyOf" in part:
            return any(unbounded(choice) for choice in part["anyOf"])
        kind = part.get("type")
        if kind == "object":
            inner = part["properties"].values()
            return part["additionalProperties"] is not False or any(map(unbounded, inner))
        needs = {"string": "maxLength", "array": "maxItems", "integer": "maximum"}
        return kind in needs and needs[kind] not in part

    assert not unbounded(strict)
