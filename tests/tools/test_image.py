"""view_image: one blob, one entry in the state, clear refusals."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from deerflow.errors import PathError, ToolError
from deerflow.tools import image
from fakes.filetrees import FILE_TREES
from fakes.toolruns import ToolRun

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
WORK = "/mnt/user-data/workspace"


@pytest.fixture(params=sorted(FILE_TREES))
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRun:
    return ToolRun(await FILE_TREES[request.param](tmp_path))


async def test_view(run: ToolRun) -> None:
    await run.files.write("图.png", PNG)
    text = await run("view_image", path="图.png")
    digest = hashlib.sha256(PNG).hexdigest()
    assert text == f"{WORK}/图.png (image/png, {len(PNG)} bytes) is shown to you."
    assert run.state == {
        "viewed_images": {
            f"{WORK}/图.png": {"sha256": digest, "media_type": "image/png", "size": len(PNG)}
        }
    }
    assert run.context.blobs == {digest: (PNG, "image/png")}
    assert run.last is not None
    assert run.last.artifact == {"path": f"{WORK}/图.png"}


async def test_refusals(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    await run.files.write("a.png", b"<svg/>")
    await run.files.write("b.png", b"BM" + b"\0" * 60)
    for path, message in (
        ("a.png", "no known image type"),
        ("b.png", "image/bmp"),
        ("c.png", "does not exist"),
        (WORK, "is a directory"),
    ):
        with pytest.raises(ToolError, match=message) as caught:
            await run("view_image", path=path)
        assert caught.value.cure
    with pytest.raises(PathError):
        await run("view_image", path="/etc/logo.png")
    monkeypatch.setattr(image, "MAX_IMAGE", 10)
    await run.files.write("big.png", PNG)
    with pytest.raises(ToolError, match="10 are allowed"):
        await run("view_image", path="big.png")
    assert run.context.blobs == {}
