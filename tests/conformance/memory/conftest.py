"""Processes that write to one storage."""

import multiprocessing
from multiprocessing.context import ForkServerContext

import pytest


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Starts processes quickly: what they import is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deerflow.memory.deermem.sql", "deerflow.memory.deermem.file"])
    return context
