"""Items of a batch: where they come from, what is refused with which words, and the prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import ToolError
from deerflow.subagents.batch_items import (
    MAX_PROMPT,
    Sheet,
    brief,
    check_template,
    dumped,
    listed,
    loaded,
    parsed,
    rendered,
)

ROWS = [{"name": "Ann", "city": "Bonn, Rhine"}, {"name": "Bö", "city": 'the "old" town'}]
CSV = '\ufeffname,city\r\nAnn,"Bonn, Rhine"\r\n\r\nBö,"the ""old"" town"\r\n'


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.jsonl", "\n".join(json.dumps(row) for row in ROWS) + "\n\n"),
        ("a.ndjson", "\r\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.json", "\n".join(json.dumps(row) for row in ROWS)),
        ("a.csv", CSV),
        ("a.csv", 'name;city\nAnn;Bonn, Rhine\nBö;"the ""old"" town"'),
        ("a.csv", '"name";"city"\nAnn;Bonn, Rhine\nBö;"the ""old"" town"'),
        ("a.csv", 'name\tcity\nAnn\tBonn, Rhine\nBö\t"the ""old"" town"'),
        ("a.tsv", 'name\tcity\nAnn\tBonn, Rhine\nBö\t"the ""old"" town"'),
        ("list", json.dumps(ROWS)),
        ("list.txt", "\n".join(json.dumps(row) for row in ROWS)),
    ],
)
def test_objects_come_out_of_every_form(path: str, text: str) -> None:
    assert parsed(path, text.encode()).items == ROWS


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.txt", "one\n\n  two  \r\n[three]\n"),
        ("a.md", "\ufeffone\ntwo\n[three]"),
        ("a.jsonl", '"one"\n"two"\n"[three]"'),
        ("a.json", '["one", "two", "[three]"]'),
    ],
)
def test_texts_come_out_of_every_form(path: str, text: str) -> None:
    assert parsed(path, text.encode()).items == ["one", "two", "[three]"]


def test_lines_that_begin_like_json_stay_lines() -> None:
    assert parsed("a.txt", b"[ ] buy milk\n[x] call Ann").items == ["[ ] buy milk", "[x] call Ann"]
    assert parsed("a.txt", b"{name} of the day\nother").items == ["{name} of the day", "other"]


def test_only_the_ends_of_lines_part_items_and_columns() -> None:
    assert parsed("a.txt", "page\x0c one\rp\u2028two\r\nx".encode()).items == [
        "page\x0c one", "p\u2028two", "x",
    ]  # fmt: skip
    [row] = parsed("a.csv", b'"name, in full";age\nAnn;3\n').items
    assert row == {"name, in full": "Ann", "age": "3"}


def test_places_count_lines_of_the_file() -> None:
    assert parsed("a.txt", b"\none\n\ntwo").places == ["line 2", "line 4"]
    assert parsed("a.csv", b"a,b\n1,2\n\n3,4").places == ["line 2", "line 4"]
    assert listed(["a", 7, {"b": 1}]) == Sheet(["a", "7", {"b": 1}], ["item 1", "item 2", "item 3"])


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("a.jsonl", b'{"a": 1}\n\n{"a": ', "Line 3 of a.jsonl is broken JSON"),
        ("a.jsonl", b'{"a": 1}\n[1]', "Line 2 is a list."),
        ("a.jsonl", b'{"a": 1}\nnull', "Line 2 is empty."),
        ("a.jsonl", b'"x"\n"  "', "Line 2 is empty."),
        ("a.json", b"[" * 99_999, "a.json is broken JSON"),
        ("a.jsonl", b'{"a":' * 99_999, "Line 1 of a.jsonl is broken JSON"),
        ("a.csv", b"a\n" + b"x" * 150_000, "Line 2 of a.csv has a cell of more than 131,072"),
        ("a.json", b'["a",\n"b"', "a.json is broken JSON at line 2"),
        ("a.json", b'"text"', "a.json holds no JSON list."),
        ("a.csv", b"a,b\n1,2\n3", "Line 3 of a.csv has 1 cells, the header 2."),
        ("a.csv", b'a,b\n1,"2" x\n', "Line 2 of a.csv is broken CSV"),
        ("a.csv", b"a,a\n1,2", "The header of a.csv has empty or repeated names: a, a."),
        ("a.csv", b"a,,c\n1,2,3", "The header of a.csv has empty or repeated names"),
        ("a.txt", b"one\ntw\xffo", "a.txt is not UTF-8 text (line 2)."),
        ("a.txt", b"one\0two", "a.txt is not a text file."),
        ("a.jsonl", b'"\\ud800"', "Line 1 cannot be stored"),
    ],
)
def test_a_broken_file_is_refused_with_its_line_and_a_cure(
    path: str, data: bytes, said: str
) -> None:
    with pytest.raises(ToolError) as error:
        parsed(path, data)
    assert said in error.value.message
    assert error.value.cure


@pytest.mark.parametrize(
    ("template", "items", "said", "cure"),
    [
        ("Do {nmae}", ROWS, "placeholder {nmae}", "{name}, {city}, {item}"),
        ("Do {name}", ["a"], "placeholder {name}", "Placeholders: {item}."),
        ("Do it", ROWS, "no placeholder", "{name}, {city}, {item}"),
        ("Do {{item}}", ["a"], "no placeholder", "single braces"),
        ('Give {"name": 1}', ROWS, "no placeholder", "single braces"),
        ("Do {city}", [*ROWS, {"name": "Cid"}], "Item 3 has no field 'city'", "Add it"),
        ("Do {name}", [*ROWS, "text"], "Item 3 has no field 'name'", "Add it"),
        ("Do {item}", ["a", "b" * MAX_PROMPT], "prompt for item 2 has 200,003 char", "into a file"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(
    template: str, items: list[Any], said: str, cure: str
) -> None:
    with pytest.raises(ToolError) as error:
        check_template(template, listed(items))
    assert said in error.value.message
    assert cure in error.value.cure


@pytest.mark.parametrize(
    ("template", "item", "prompt"),
    [
        ("Do {item}.", "a {item} b", "Do a {item} b."),
        ("Do { name } of {city}", {"name": "{city}", "city": 3}, "Do {city} of 3"),
        ("All: {item}", {"b": [1], "a": None}, 'All: {"b":[1],"a":null}'),
        ("Own: {item}", {"item": "field"}, "Own: field"),
        ('{item} as {"x": {{y}} } {}', "a", 'a as {"x": {y} } {}'),
        ('{"a":{"b":{item}}}', 1, '{"a":{"b":1}}'),
        ("{First Name}", {"First Name": "Ann"}, "Ann"),
    ],
)
def test_prompts(template: str, item: Any, prompt: str) -> None:
    check_template(template, listed([item]))
    assert rendered(template, item) == prompt


@given(st.text() | st.dictionaries(st.text(), st.text() | st.integers(-9, 9) | st.none()))
def test_what_is_stored_comes_back_and_no_text_of_an_item_is_a_placeholder(item: Any) -> None:
    assert loaded(dumped(item)) == item
    if isinstance(item, str):
        assert rendered("<{item}>", item) == f"<{item}>"
    assert len(brief(item)) <= 60 and "\n" not in brief(item)
