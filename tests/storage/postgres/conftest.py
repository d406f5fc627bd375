"""A schema of the tests' own on the server of this machine."""

from fakes.postgres import place, shared_schema

__all__ = ["place", "shared_schema"]
