"""The embedded model for tests: a session with written generations, and the real file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.load import read_environ
from deerflow.models.engine import Completion
from deerflow.models.gguf import bundled
from fakes.tree import ROOT


@dataclass(slots=True)
class WrittenSession:
    """Implements `engine.Session` with texts that were written before.

    Attributes:
        texts: what each generation gives; an exception is raised.
        asked: (messages, kind, grammar, sampling) of each generation.
        said: what was reported.
    """

    texts: list[str | Exception]
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    said: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        max_tokens: int,
        kind: str,
        grammar: str | None = None,
        **sampling: Any,
    ) -> Completion:
        """The next text; ten tokens in, five out."""
        self.asked.append(
            {"messages": messages, "max_tokens": max_tokens, "grammar": grammar, **sampling}
        )
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        self.said.append((kind, text))
        return Completion(text, input_tokens=10, cached_tokens=2, output_tokens=5)

    def say(self, kind: str, text: str) -> None:
        """Note it."""
        self.said.append((kind, text))


def embedded_home() -> Path:
    """The home that holds the real model file; skips the test when there is none."""
    pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")
    home = ROOT / (read_environ(cwd=ROOT).get("DEER_FLOW_HOME") or ".deer-flow")
    if not bundled(home).is_file():
        pytest.skip("the embedded model's file is not here; run `deerflow models pull`")
    return home
