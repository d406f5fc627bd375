"""`view_image`: hands an image of the sandbox to a model that can see."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.errors import ToolError
from deerflow.tools.media import media_type
from deerflow.tools.place import existing_file
from deerflow.tools.schema import Runtime, answer, make_tool

MAX_IMAGE = 5_000_000
"""Bytes of an image; the lowest limit of the usual providers (Anthropic: 5 MB each)."""
TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What every vision model takes."""


class ViewArgs(BaseModel):
    """Arguments of view_image."""

    path: str


def image_tools() -> list[BaseTool]:
    """The tool, for models with vision."""
    return [
        make_tool(
            "view_image",
            "Look at an image file (png, jpeg, gif, webp).",
            ViewArgs,
            view_image,
            {"idempotent": True, "sandbox": True},
        )
    ]


async def view_image(path: str, runtime: Runtime) -> Any:
    """Store the image once as a blob; the row ViewImageMiddleware shows it to the model."""
    sandbox = await runtime.context.sandbox()
    info = await existing_file(path, runtime, sandbox)
    if info.size > MAX_IMAGE:
        raise ToolError(
            f"{info.path} has {info.size:,} bytes; {MAX_IMAGE:,} are allowed.",
            cure="Make a smaller copy with python (PIL: Image.thumbnail) and view that.",
        )
    data = await sandbox.read(info.path)
    kind = media_type(data)
    if kind not in TYPES:
        what = kind or "no known image type"
        raise ToolError(
            f"{info.path} cannot be viewed ({what}).",
            cure="Convert it to png with python (PIL), or read it with read_file if it is text.",
        )
    sha256 = await runtime.context.put_blob(data, kind)
    image = {"sha256": sha256, "media_type": kind, "size": len(data)}
    return answer(
        "view_image",
        runtime,
        f"{info.path} ({kind}, {len(data):,} bytes) is shown to you.",
        {"viewed_images": {info.path: image}},
        artifact={"path": info.path},
    )
