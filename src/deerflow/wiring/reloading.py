"""The configuration read again while runs go on: what is new holds for the next run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from deerflow.config.load import LoadedConfig, reload_config
from deerflow.errors import ConfigError
from deerflow.wiring.harness import Harness, joined
from deerflow.wiring.parts import lead_parts, models_of

KEPT = ("memory",)
"""Sections that are read once, beside STARTUP_ONLY: their parts live as long as the process."""


async def reload_harness(
    harness: Harness, environ: Mapping[str, str] | None = None
) -> LoadedConfig:
    """Read the files of the configuration again, by content, and work with them from now on.

    A broken file, or one that names what cannot be loaded, changes nothing: the last good state
    stays in force and `reload_problems` says why. Runs under way end as they began.

    Args:
        harness: open; its `loaded`, `catalog` and `found` are replaced.
        environ: in which keys are looked up from now on; None takes the one of the start.

    Returns:
        What is in force; the same object when nothing has changed.
    """
    before = harness.loaded
    environ = harness.environ if environ is None else environ
    fresh = await asyncio.to_thread(reload_config, before, environ=environ)
    if fresh.reload_problems or fresh is before:
        harness.loaded = fresh
        return fresh
    fresh = _without_kept(before, fresh)
    try:
        given = harness.given
        models, found = ((), "") if given.models else await models_of(fresh, environ)
        models = models or fresh.config.models
        parts = lead_parts(fresh, models, environ=environ, given=given)
        catalog = parts.catalog
        harness.closing.push_async_callback(catalog.aclose)
        made = joined(parts, fresh, harness.storage, harness.memory, harness.profiles)
        harness.agents.renew(made)
    except ConfigError as error:
        harness.loaded = replace(before, reload_problems=tuple(error.problems))
        return harness.loaded
    harness.parts.config, harness.parts.catalog = fresh.config, catalog
    harness.loaded, harness.catalog, harness.found = fresh, catalog, found
    harness.environ, harness.skills = environ, made.skills
    return fresh


def _without_kept(before: LoadedConfig, fresh: LoadedConfig) -> LoadedConfig:
    changed = [key for key in KEPT if getattr(before.config, key) != getattr(fresh.config, key)]
    if not changed:
        return fresh
    kept = {key: getattr(before.config, key) for key in changed}
    notes = tuple(f"{key}: changed, takes effect at the next start" for key in changed)
    config = fresh.config.model_copy(update=kept)
    return replace(fresh, config=config, warnings=(*fresh.warnings, *notes))
