"""The generated sample and the masking of secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deerflow.config.document import read_document
from deerflow.config.load import load_config
from deerflow.config.sample import sample
from deerflow.config.schema import AppConfig

GOLDEN = Path(__file__).parent.parent / "golden" / "config.example.yaml"


def test_the_sample_is_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden(GOLDEN.name, sample())


def test_the_sample_loads_clean_and_is_the_default(tmp_path: Path) -> None:
    loaded = load_config(GOLDEN, environ={}, cwd=tmp_path)
    assert loaded.warnings == ()
    assert loaded.config == AppConfig()


def test_the_sample_has_every_key() -> None:
    assert list(read_document(sample()).data) == list(AppConfig.model_fields)
