"""Grammars that keep a small model legal: JSON actions by the schemas of the tools.

Grammars are written for llguidance, which the xllamacpp wheels are built with: Lark rules, regular
expressions and `%json` with a JSON schema (docs/syntax.md of guidance-ai/llguidance).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

_HEAD = "%llguidance {}\n"
_DEPTH = 4
"""Nested objects and arrays that a model may open; deeper ones must be empty."""
_STRING = 200
_CONTENT = 2_000
_LONG = frozenset({"content", "text", "body", "new_str", "old_str", "code"})
_ITEMS = 4
_SAFE_INTEGER = 1_000_000

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model is told of it.

    Attributes:
        name: unique.
        description: for the model.
        parameters: JSON schema of its arguments, an object.
    """

    name: str
    description: str
    parameters: Schema

    @classmethod
    def from_openai(cls, entry: Mapping[str, Any]) -> Tool:
        """From the OpenAI form `{type: function, function: {…}}`."""
        function = entry.get("function", entry)
        parameters = cast("Schema", function.get("parameters") or {"type": "object"})
        return cls(str(function["name"]), str(function.get("description") or ""), parameters)

    def accepts(self, args: Mapping[str, Any]) -> bool:
        """Whether the arguments obey the tool's own schema, all of it."""
        try:
            validator = cast("Any", Draft202012Validator(self.parameters))
            return bool(validator.is_valid(args))
        except (SchemaError, Unresolvable, RecursionError):
            return False

    def rendered(self) -> str:
        """One line, `name(a, b?): first sentence`."""
        required = set(self.parameters.get("required", ()))
        names = [
            name if name in required else f"{name}?"
            for name in self.parameters.get("properties", ())
        ]
        return f"{self.name}({', '.join(names)}): {_first_sentence(self.description)}"


@dataclass(frozen=True, slots=True)
class Action:
    """What the model wants: a call of a tool, or (tool None) to answer in prose."""

    tool: str | None
    args: dict[str, Any]


def instructions(tools: Sequence[Tool], *, may_answer: bool) -> str:
    """What the system prompt says about the tools, as short as can be."""
    lines = ['Reply with one JSON object: {"tool": NAME, "args": {...}}']
    if may_answer:
        lines[0] += ', or {"answer": ""} to answer in words'
    return "\n".join([lines[0] + ".", *(tool.rendered() for tool in tools)])


def action_grammar(
    tools: Sequence[Tool], *, may_answer: bool, optional: bool, paths: Sequence[str] = ()
) -> str:
    """A grammar whose every sentence is an action of these tools.

    Args:
        tools: at least one, or `may_answer`.
        may_answer: whether `{"answer": ""}` is among the choices.
        optional: whether optional arguments are offered too; a tiny model fills them with noise.
        paths: what arguments called `path` may say; empty = anything.
    """
    choices: list[Schema] = []
    for tool in tools:
        args = _Bounds(tool.parameters, optional, paths).of(tool.parameters, "", _DEPTH)
        choices.append(_object({"tool": {"const": tool.name}, "args": args}))
    if may_answer:
        choices.append(_object({"answer": {"const": ""}}))
    return json_grammar(choices[0] if len(choices) == 1 else {"anyOf": choices})


def json_grammar(schema: Schema) -> str:
    """A grammar for JSON of a schema, without optional white space (a small model loops in it)."""
    compact = {"x-guidance": {"whitespace_flexible": False}, **schema}
    return f"{_HEAD}start: %json {json.dumps(compact)}\n"


def lark(rules: str) -> str:
    """A grammar from Lark rules; the first rule must be `start`."""
    return _HEAD + rules


def read_action(text: str, tools: Sequence[Tool]) -> Action | None:
    """The action that a text says; None when it is cut, or breaks the tool's full schema."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    said = cast("dict[str, Any]", value)
    if "answer" in said:
        return Action(None, {})
    tool = next((tool for tool in tools if tool.name == said.get("tool")), None)
    args = said.get("args")
    if tool is None or not isinstance(args, dict) or not tool.accepts(cast("dict[str, Any]", args)):
        return None
    return Action(tool.name, cast("dict[str, Any]", args))


def bounded(schema: Schema, *, optional: bool = True) -> Schema:
    """A stricter schema whose every value is finite and short, in the subset that llguidance takes.

    Keywords outside the subset (pattern, format, not …) are left out; `Tool.accepts` has the last
    word on the result.
    """
    return _Bounds(schema, optional, ()).of(schema, "", _DEPTH)


class _Bounds:
    """Walks a schema; `$ref` is resolved inside the document, recursion ends at `_DEPTH`."""

    def __init__(self, root: Schema, optional: bool, paths: Sequence[str]) -> None:
        self._root = root
        self._optional = optional
        self._paths = list(paths)

    def of(self, schema: Any, name: str, depth: int) -> Schema:
        if not isinstance(schema, dict):  # true, or missing: anything is legal, a string is short
            return _string({}, name)
        schema = self._resolved(cast("Schema", schema))
        if "const" in schema:
            return {"const": schema["const"]}
        if schema.get("enum"):
            return {"enum": schema["enum"]}
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return {"anyOf": [self.of(choice, name, depth) for choice in schema[word]]}
        if schema.get("allOf"):
            return self.of(_merged(schema), name, depth)
        kind: Any = schema.get("type") or ("object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kinds = cast("list[str]", kind)
            return {"anyOf": [self.of({**schema, "type": one}, name, depth) for one in kinds]}
        return self._typed(str(kind), schema, name, depth)

    def _typed(self, kind: str, schema: Schema, name: str, depth: int) -> Schema:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, name, depth)
        if kind in ("integer", "number"):
            return _integer(schema)
        if kind in ("boolean", "null"):
            return {"type": kind}
        if name == "path" and self._paths:
            return {"enum": self._paths}
        return _string(schema, name)

    def _object(self, schema: Schema, depth: int) -> Schema:
        properties = cast("dict[str, Any]", schema.get("properties") or {})
        required = [name for name in schema.get("required", ()) if name in properties]
        chosen = list(properties) if self._optional else required
        if depth <= 0:
            chosen = required if depth > -_DEPTH else []
        kept = {name: self.of(properties[name], name, depth - 1) for name in chosen}
        return _object(kept, required=[name for name in required if name in kept])

    def _array(self, schema: Schema, name: str, depth: int) -> Schema:
        least = int(schema.get("minItems", 0))
        most = min(int(schema.get("maxItems", _ITEMS)), max(_ITEMS, least))
        if depth <= 0:
            most = least
        items = self.of(schema.get("items"), name, depth - 1) if most else {"type": "null"}
        return {"type": "array", "items": items, "minItems": least, "maxItems": most}

    def _resolved(self, schema: Schema) -> Schema:
        seen = 0
        while isinstance(ref := schema.get("$ref"), str) and seen < _DEPTH:
            seen += 1
            target: Any = self._root
            for part in ref.removeprefix("#/").split("/"):
                key = part.replace("~1", "/").replace("~0", "~")
                target = cast("Schema", target).get(key) if isinstance(target, dict) else None
            if not isinstance(target, dict):
                return {}
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**cast("Schema", target), **rest}
        return schema


def _object(properties: Mapping[str, Schema], required: Sequence[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def _string(schema: Schema, name: str) -> Schema:
    least = int(schema.get("minLength", 0))
    usual = max(_CONTENT if name in _LONG else _STRING, least)
    return {
        "type": "string",
        "minLength": least,
        "maxLength": min(int(schema.get("maxLength", usual)), usual),
    }


def _integer(schema: Schema) -> Schema:
    """Whole numbers serve for both number types: the digits of a fraction have no bound."""
    low = int(schema.get("minimum", schema.get("exclusiveMinimum", -_SAFE_INTEGER)))
    high = int(schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + _SAFE_INTEGER)))
    return {"type": "integer", "minimum": low, "maximum": max(low, high)}


def _merged(schema: Schema) -> Schema:
    merged: Schema = {key: value for key, value in schema.items() if key != "allOf"}
    for part in _dicts(schema["allOf"]):
        properties = {**merged.get("properties", {}), **part.get("properties", {})}
        required = [*merged.get("required", ()), *part.get("required", ())]
        merged = {**merged, **part}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = required
    return merged


def _dicts(values: Sequence[Any]) -> Iterator[Schema]:
    return (cast("Schema", value) for value in values if isinstance(value, dict))


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    head = line.split(". ", 1)[0].rstrip(".")
    return (head if len(head) <= _LINE else head[: _LINE - 1].rstrip() + "…") + "."


_LINE = 70
"""Characters of a tool's description that the compact prompt shows."""
