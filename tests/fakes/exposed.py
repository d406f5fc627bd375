"""Reads the text that Prometheus scrapes, with its own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def figures(text: str) -> dict[str, float]:
    """Value by `name{label="…"}`, labels sorted."""
    return {
        sample.name + _labels(sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _labels(labels: dict[str, str]) -> str:
    inner = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""
