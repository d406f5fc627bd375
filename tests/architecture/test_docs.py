"""The documentation cannot lag: pages, names, links, commands and code blocks are checked."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import typer.main
from typer.core import TyperGroup

from deerflow import errors
from deerflow.config.load import load_config
from deerflow.config.schema import AppConfig
from deerflow.config.section import Section
from deerflow.config.structure import keys, section_in
from deerflow.errors import DeerFlowError
from deerflow.events import EventType, OutcomeKind, RunStatus
from deerflow.gateway.commands import app
from deerflow.middlewares.order import THE_LIST
from deerflow.tools.registry import builtin_tools
from fakes.tree import PACKAGE, ROOT, TESTS, packages

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
README_LINES = 120
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
BLOCK = re.compile(r"^```(\w+)[ \t]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
PYTHON_FILE = re.compile(r"`((?:[\w-]+/)*\w+\.py)(?:::\w+)?`")
FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
"""Names of files and folders in the repository, as pages write them."""
KEY_NEEDED = "compile only: "
"""After ```python: the block is compiled, not run, for the reason that follows."""


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(*languages: str) -> Iterator[tuple[str, str, str]]:
    """(page:line, what stands after the language, code) of each block in one of the languages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match[1] in languages:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name_of(page)}:{line}", match[2].strip(), match[3]


def cases(*languages: str) -> list[object]:
    return [pytest.param(note, code, id=place) for place, note, code in blocks(*languages)]


# ---- generated pages -------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(script().PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    kept = (REFERENCE / name).read_text(encoding="utf-8")
    assert kept == script().PAGES[name](), "run `make docs`"


def test_reference_pages_are_all_generated() -> None:
    assert {page.name for page in REFERENCE.iterdir()} == set(script().PAGES)


# ---- completeness ----------------------------------------------------------------------


def test_every_package_has_a_concept_page_of_its_name() -> None:
    assert {page.stem for page in (DOCS / "concepts").glob("*.md")} == set(packages())


def test_every_error_is_documented() -> None:
    text = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    found = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, DeerFlowError)
    ]
    assert [each for each in found if f"`{each.__name__}` | `{each.code}` |" not in text] == []
    assert [each for each in found if not each.__doc__] == []


def test_every_event_is_documented_with_its_meaning() -> None:
    text = (REFERENCE / "events.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", text, re.MULTILINE))
    assert list(rows) == list(get_args(EventType))
    assert [name for name, meaning in rows.items() if not meaning.strip()] == []
    states = (*get_args(RunStatus), *get_args(OutcomeKind))
    assert [name for name in states if f"`{name}`" not in text] == []


def test_every_row_is_documented() -> None:
    text = (REFERENCE / "order.md").read_text(encoding="utf-8")
    for row in THE_LIST:
        assert text.count(f"| {row.cls.__name__} |") == 2, row.cls.__name__


def test_every_tool_is_documented() -> None:
    text = (REFERENCE / "tools.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [tool.name for tool in builtin_tools()]


def test_every_setting_is_documented() -> None:
    text = (REFERENCE / "config.md").read_text(encoding="utf-8")
    known = {re.sub(r"\[\]|\.NAME", "", key) for key in re.findall(r"^\| `([^`]+)` \|", text, re.M)}
    assert set(settings(AppConfig, "")) == known


def settings(section: type[Section], above: str) -> Iterator[str]:
    for key, name in keys(section).items():
        yield f"{above}{key}"
        inner = section_in(section.model_fields[name].annotation)
        if inner is not None:
            yield from settings(inner, f"{above}{key}.")


def test_every_command_and_option_has_help() -> None:
    lacking = [
        f"{path} {' '.join(getattr(option, 'opts', ()))}"
        for path, command in commands(root(), "deerflow")
        for option in command.params
        if not getattr(option, "help", "")
    ]
    assert lacking == []
    assert [path for path, command in commands(root(), "deerflow") if not command.help] == []


# ---- links and names -------------------------------------------------------------------


def test_no_link_is_dead() -> None:
    dead: list[str] = []
    for page in PAGES:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith(("https://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            aim = (page.parent / path).resolve() if path else page
            if not aim.exists() or (anchor and anchor not in anchors(aim)):
                dead.append(f"{name_of(page)}: {target}")
    assert dead == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    queue = [DOCS / "index.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            aim = (page.parent / target.partition("#")[0]).resolve()
            if aim.is_relative_to(DOCS):
                queue.append(aim)
    assert [name_of(page) for page in DOCS.rglob("*.md") if page not in seen] == []


def test_every_file_that_a_page_names_exists() -> None:
    wrong: list[str] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for named in (*PYTHON_FILE.findall(text), *FOLDER.findall(text)):
            near = any((folder / named).exists() for folder in (ROOT, PACKAGE, page.parent))
            bare = "/" not in named and (any(PACKAGE.rglob(named)) or any(TESTS.rglob(named)))
            if not near and not bare:
                wrong.append(f"{name_of(page)}: {named}")
    assert wrong == []


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(page.name for page in (DOCS / "decisions").glob("*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_the_readme_is_short_and_begins_with_the_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= README_LINES
    first = next(code for _, _, code in blocks("sh") if code in text)
    assert re.findall(r"^make (\w+)", first, re.MULTILINE) == ["run", "test"]


# ---- code blocks -----------------------------------------------------------------------


@pytest.mark.parametrize(("note", "code"), cases("python"))
def test_a_python_block_runs(
    note: str, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = compile(code, "block", "exec")
    if note:
        assert note.startswith(KEY_NEEDED), "only `compile only: REASON` may follow the language"
        assert len(note) > len(KEY_NEEDED)
        return
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(ROOT / "examples" / "scripted.yaml"))
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    exec(program, {"__name__": "block"})


@pytest.mark.parametrize(("note", "code"), cases("yaml"))
def test_a_yaml_block_is_a_configuration(note: str, code: str, tmp_path: Path) -> None:
    assert not note
    file = tmp_path / "config.yaml"
    file.write_text(code, encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{?([A-Z][A-Z0-9_]*)", code), "value")
    assert load_config(file, environ=environ, cwd=tmp_path).warnings == ()


def root() -> Any:
    return typer.main.get_command(app)


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from commands(inner, f"{path} {name}")


@pytest.mark.parametrize(("note", "code"), cases("sh"))
def test_a_shell_block_names_commands_that_exist(note: str, code: str) -> None:
    assert not note
    verbs = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    known = dict(commands(root(), "deerflow"))
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= verbs, line
        elif words and words[0].rsplit("/", 1)[-1] == "deerflow":
            path = max(
                (known_path for known_path in known if line_starts(words[1:], known_path)), key=len
            )
            options = {each for option in known[path].params for each in option.opts}
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= options | {"--help", "--version"}, line


def line_starts(words: list[str], path: str) -> bool:
    return words[: path.count(" ")] == path.split()[1:]
