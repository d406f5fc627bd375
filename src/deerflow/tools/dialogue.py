"""`present_files`, `ask_clarification` and `write_todos`: what the agent tells its user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from langchain_core.tools import BaseTool
from pydantic import BaseModel, BeforeValidator, ConfigDict

from deerflow.errors import PathError, ToolError
from deerflow.sandbox.protocol import OUTPUTS, Sandbox
from deerflow.tools.place import located
from deerflow.tools.schema import (
    Flag,
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
MAX_FIELDS = 20
"""Fields of a form."""


class PresentArgs(BaseModel):
    """Arguments of present_files."""

    paths: Names


def _wordless(schema: dict[str, Any]) -> None:
    schema.pop("description", None)


_KINDS = {
    "number": "number",
    "integer": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "checkbox": "boolean",
    "choice": "choice",
    "select": "choice",
    "enum": "choice",
}


def _kind(value: Any) -> Any:
    """The type of a field; what models write instead of it is understood, the rest is text."""
    return _KINDS.get(str(value).lower(), "text")


def _labelled(value: Any) -> Any:
    """A field that came as its label alone."""
    return {"label": value} if isinstance(value, str) else value


class FieldArgs(BaseModel):
    """One field of a form."""

    model_config = ConfigDict(json_schema_extra=_wordless)

    label: str
    type: Annotated[Literal["text", "number", "boolean", "choice"], BeforeValidator(_kind)] = (
        optional(lambda: "text")
    )
    options: Names = optional(list[str])
    required: Flag = optional(bool)


class ClarifyArgs(BaseModel):
    """Arguments of ask_clarification."""

    question: str
    options: Names = optional(list[str])
    fields: Annotated[list[Annotated[FieldArgs, BeforeValidator(_labelled)]], Listed] = optional(
        list[FieldArgs]
    )
    context: Text = optional(str)


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
    fields: list[FieldArgs] | None = None,
    context: str = "",
) -> Any:
    """Put a question; the row ClarificationMiddleware ends the run."""
    if not question.strip():
        raise ToolError("The question is empty.", cure="Say what you need to know.")
    form = form_of(fields or ())
    lines = [context.strip(), question.strip()]
    lines += [f"{number}. {option}" for number, option in enumerate(options or (), start=1)]
    lines += [_field_line(field) for field in form]
    card = {
        "version": 2 if form else 1,
        "kind": "human_input_request",
        "source": "ask_clarification",
        "request_id": f"clarification:{runtime.tool_call_id}",
        "tool_call_id": runtime.tool_call_id,
        "question": question.strip(),
        "input_mode": "form" if form else "choice_with_other" if options else "free_text",
        "options": [
            {"id": f"option_{number}", "label": option, "value": option}
            for number, option in enumerate(options or (), start=1)
        ],
        "fields": form,
        "context": context.strip(),
    }
    text = "\n".join(filter(None, lines))
    return answer("ask_clarification", runtime, text, artifact={"human_input": card})


def form_of(fields: Sequence[FieldArgs]) -> list[dict[str, Any]]:
    """The fields of a form: id, label, type, options, required.

    Raises:
        ToolError: too many, one without a label, or a choice without options.
    """
    if len(fields) > MAX_FIELDS:
        raise ToolError(f"A form has at most {MAX_FIELDS} fields.", cure="Ask for what matters.")
    form: list[dict[str, Any]] = []
    for number, field in enumerate(fields, start=1):
        label = field.label.strip()
        if not label:
            raise ToolError("A field of the form has no label.", cure="Say what to fill in.")
        if field.type == "choice" and not field.options:
            raise ToolError(f"The choice {label!r} has no options.", cure="Name them.")
        kind = "choice" if field.options else field.type
        form.append(
            {
                "id": f"field_{number}",
                "label": label,
                "type": kind,
                "options": list(field.options),
                "required": field.required,
            }
        )
    return form


def _field_line(field: dict[str, Any]) -> str:
    details = ", ".join(field["options"]) or field["type"]
    return f"- {field['label']} ({details}{'; required' if field['required'] else ''})"


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
