"""`present_files`, `ask_clarification` and `write_todos`: what the agent tells its user."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict

from deerflow.errors import PathError, ToolError
from deerflow.sandbox.protocol import OUTPUTS, Sandbox
from deerflow.tools.place import located
from deerflow.tools.schema import (
    Listed,
    Names,
    Runtime,
    Text,
    answer,
    make_tool,
    optional,
)

MAX_TODOS = 100
"""Entries of a plan."""


class PresentArgs(BaseModel):
    """Arguments of present_files."""

    paths: Names


class ClarifyArgs(BaseModel):
    """Arguments of ask_clarification."""

    question: str
    options: Names = optional(list[str])
    context: Text = optional(str)


def _wordless(schema: dict[str, Any]) -> None:
    schema.pop("description", None)


class TodoArgs(BaseModel):
    """One entry of write_todos."""

    model_config = ConfigDict(json_schema_extra=_wordless)

    content: str
    status: Literal["pending", "in_progress", "completed"]


class TodosArgs(BaseModel):
    """Arguments of write_todos."""

    todos: Annotated[list[TodoArgs], Listed]


def dialogue_tools() -> list[BaseTool]:
    """The three tools."""
    return [
        make_tool(
            "present_files",
            f"Deliver files of {OUTPUTS} to the user.",
            PresentArgs,
            present_files,
            {"idempotent": True, "sandbox": True},
        ),
        make_tool(
            "ask_clarification",
            "Ask the user and stop until the answer comes.",
            ClarifyArgs,
            ask_clarification,
            {"idempotent": True, "ends_run": True},
        ),
        make_tool(
            "write_todos",
            "Replace your plan; keep one entry in_progress.",
            TodosArgs,
            write_todos,
            {"idempotent": True},
        ),
    ]


async def present_files(paths: list[str], runtime: Runtime) -> Any:
    """Put files into the list of artifacts; all of them, or none with the reasons."""
    if not paths:
        raise ToolError("No path was given.", cure=f"Name files below {OUTPUTS}.")
    sandbox = await runtime.context.sandbox()
    good: list[str] = []
    bad: list[str] = []
    for path in paths:
        try:
            good.append(await _deliverable(path, runtime, sandbox))
        except (PathError, ToolError) as error:
            bad.append(str(error))
    if bad:
        raise ToolError(f"Nothing was presented. {' '.join(bad)}")
    files = list(dict.fromkeys(good))
    return answer("present_files", runtime, f"Presented: {', '.join(files)}", {"artifacts": files})


async def _deliverable(path: str, runtime: Runtime, sandbox: Sandbox) -> str:
    info = await sandbox.stat(located(path, runtime))
    if info is None:
        raise ToolError(f"{path} does not exist.", cure=f"Write it below {OUTPUTS} first.")
    if info.kind == "dir":
        raise ToolError(f"{info.path} is a directory.", cure="Name its files.")
    if not info.path.startswith(f"{OUTPUTS}/"):
        raise ToolError(f"{info.path} is not in {OUTPUTS}.", cure="Copy it there with bash first.")
    if info.size == 0:
        raise ToolError(f"{info.path} is empty.", cure="Write its content first.")
    return info.path


async def ask_clarification(
    question: str,
    runtime: Runtime,
    options: list[str] | None = None,
    context: str = "",
) -> Any:
    """Put a question; the row ClarificationMiddleware ends the run."""
    if not question.strip():
        raise ToolError("The question is empty.", cure="Say what you need to know.")
    lines = [context.strip(), question.strip()]
    lines += [f"{number}. {option}" for number, option in enumerate(options or (), start=1)]
    return answer("ask_clarification", runtime, "\n".join(filter(None, lines)))


async def write_todos(todos: list[TodoArgs], runtime: Runtime) -> Any:
    """Replace the plan."""
    if len(todos) > MAX_TODOS:
        raise ToolError(f"A plan has at most {MAX_TODOS} entries.", cure="Join small steps.")
    if any(not todo.content.strip() for todo in todos):
        raise ToolError("An entry of the plan has no content.", cure="Say what each step does.")
    done = sum(todo.status == "completed" for todo in todos)
    plan = [{"content": todo.content.strip(), "status": todo.status} for todo in todos]
    text = f"Plan saved: {done} of {len(plan)} done."
    return answer("write_todos", runtime, text, {"todos": plan})
