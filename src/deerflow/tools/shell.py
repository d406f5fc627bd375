"""`bash` and `python`: commands in the agent's sandbox."""

from __future__ import annotations

import re
import shlex
import uuid
from typing import Annotated, Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from deerflow.errors import ToolError
from deerflow.sandbox.protocol import WORKSPACE, CommandResult
from deerflow.tools.place import current_directory
from deerflow.tools.schema import Runtime, answer, make_tool, optional

SPILL = "deerflow_spill"
"""additional_kwargs of a result: virtual path of the file that holds the whole output."""
SCRIPTS = f"{WORKSPACE}/.tool-results"
"""Where the code of `python` lies while it runs; listings hide the folder."""
_WINDOWS = re.compile(r"(?<![\w/'\"])[A-Za-z]:\\[\w\\]")
_UNLIMITED = (None, 0, "")


def _seconds(value: Any) -> Any:
    return None if value in _UNLIMITED else value


Seconds = Annotated[float | None, BeforeValidator(_seconds), WithJsonSchema({"type": "number"})]


class BashArgs(BaseModel):
    """Arguments of bash."""

    command: str
    timeout: Seconds = optional()


class PythonArgs(BaseModel):
    """Arguments of python."""

    code: str


def shell_tools() -> list[BaseTool]:
    """The two tools."""
    return [
        make_tool(
            "bash",
            "Run a command in your persistent shell; timeout in seconds.",
            BashArgs,
            bash,
            {"sandbox": True},
        ),
        make_tool(
            "python",
            "Run Python code in a fresh interpreter; print what you want to see.",
            PythonArgs,
            python,
            {"sandbox": True},
        ),
    ]


async def bash(command: str, runtime: Runtime, timeout: float | None = None) -> Any:  # noqa: ASYNC109
    """Run a command; an exit code other than 0 is a result like any other."""
    if not command.strip():
        raise ToolError("The command is empty.", cure="Write what bash is to run.")
    if timeout is not None and timeout <= 0:
        raise ToolError(f"timeout {timeout} is not a time.", cure="Give seconds above 0, or none.")
    context = runtime.context
    sandbox = await context.sandbox()
    here = current_directory(runtime)
    alone = context.alone(runtime.tool_call_id or "")
    result = await sandbox.run(
        command,
        agent=context.agent,
        alone=alone,
        timeout=timeout,
        cwd=here or None,
    )
    notes = _notes(result)
    if result.exit_code != 0 and _WINDOWS.search(command):
        notes.append("bash takes \\ as an escape: write / in paths, or quote them")
    moved = alone and result.cwd not in ("", here or WORKSPACE)
    return _answer("bash", runtime, result, notes, moved=moved)


async def python(code: str, runtime: Runtime) -> Any:
    """Run code from a file of its own, in the agent's current directory."""
    if not code.strip():
        raise ToolError("The code is empty.", cure="Write what Python is to run.")
    context = runtime.context
    sandbox = await context.sandbox()
    script = f"{SCRIPTS}/code-{uuid.uuid4().hex[:12]}.py"
    try:
        data = code.encode()
    except UnicodeEncodeError:
        raise ToolError("The code is not valid Unicode.", cure="Write whole characters.") from None
    await sandbox.write(script, data)
    here = current_directory(runtime)
    result = await sandbox.run(
        python_command(script), agent=context.agent, alone=False, cwd=here or None
    )
    return _answer("python", runtime, result, _notes(result))


def python_command(script: str) -> str:
    """Shell text that runs a script as if it lay in the current directory, and removes it."""
    name = shlex.quote(script)
    return (
        f'(PYTHONIOENCODING=utf-8 PYTHONPATH="$PWD${{PYTHONPATH:+:$PYTHONPATH}}" python {name}; '
        f"code=$?; rm -f {name}; exit $code)"
    )


def _notes(result: CommandResult) -> list[str]:
    notes: list[str] = []
    if result.timed_out:
        notes.append(f"stopped by the time limit after {result.seconds:.0f} s; the shell goes on")
    elif result.limit is not None:
        notes.append(f"stopped by the {result.limit} limit; do it in smaller parts")
    if result.exit_code != 0:
        notes.append(f"exit code {result.exit_code}")
    if result.spill is not None:
        notes.append(
            f"{result.total_bytes:,} bytes in all; whole output: {result.spill}, "
            "read it in windows with read_file"
        )
    return notes


def _answer(
    name: str, runtime: Runtime, result: CommandResult, notes: list[str], *, moved: bool = False
) -> Any:
    text = result.output.replace("\0", "\\x00").rstrip("\n")
    if not text and not notes:
        text = "(no output)"
    tail = f"[{'; '.join(notes)}]" if notes else ""
    content = "\n".join(filter(None, (text, tail)))
    update: dict[str, Any] = {}
    if moved:
        update["sandbox"] = {"cwd": {runtime.context.agent: result.cwd}}
    extra = {SPILL: result.spill} if result.spill is not None else {}
    return answer(name, runtime, content, update, additional_kwargs=extra)
