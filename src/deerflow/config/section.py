"""What configuration sections share: frozen, strict about keys, number types, secret names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_SECRET = re.compile(
    r"(^|[_-])(api[_-]?key|key|token|secret|password|passwd|authorization|cookie|credentials?)$|_url$|"
    r"^connection_string$",
    re.IGNORECASE,
)
_PUBLIC = frozenset({"base_url", "token_url", "frontend_base_url"})
_PRIVATE_MAPS = frozenset(
    {"environment", "env", "headers", "default_headers", "extra_token_params"}
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_MASK = "***"


def mapping(value: Any) -> dict[str, Any] | None:
    """The value when it is a mapping, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def is_secret(name: str) -> bool:
    """Whether a value under this key must not be shown.

    Database and Redis URLs count, because they carry passwords; addresses of web services do not.
    """
    return name not in _PUBLIC and _SECRET.search(name) is not None


def masked(value: Any, key: str = "") -> Any:
    """A copy of plain settings in which no secret can be read.

    Args:
        value: mappings, lists and scalars.
        key: the key that `value` stands under.
    """
    entries = mapping(value)
    if entries is not None:
        hidden = key in _PRIVATE_MAPS
        return {name: _MASK if hidden else masked(item, name) for name, item in entries.items()}
    if isinstance(value, list | tuple):
        return [masked(item, key) for item in cast("list[Any]", value)]
    if is_secret(key):
        return _MASK if value else value
    return _CREDENTIALS.sub(_MASK, value) if isinstance(value, str) else value


def _number(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic would read true as 1
        raise ValueError("Input should be a number")
    return value


_MOST = 2**53
"""Whole numbers up to here survive JSON and every database."""
Count = Annotated[int, BeforeValidator(_number), Field(ge=0, le=_MOST)]
"""A whole number, 0 or more."""
Positive = Annotated[int, BeforeValidator(_number), Field(ge=1, le=_MOST)]
"""A whole number, 1 or more."""
Seconds = Annotated[float, BeforeValidator(_number), Field(gt=0)]
"""A duration in seconds, more than 0."""
Ratio = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1)]
"""A share between 0 and 1."""
Money = Annotated[float, BeforeValidator(_number), Field(ge=0)]
"""An amount in the currency that stands beside it."""


class Section(BaseModel):
    """One key of the YAML file: frozen, and a key it does not know is reported."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Show every field except secrets, so that a logged section leaks nothing."""
        for name, value in super().__repr_args__():
            yield name, masked(value, name or "")


class OpenSection(Section):
    """A section whose further keys belong to the class that `use` names."""

    model_config = ConfigDict(extra="allow")

    @property
    def extra(self) -> dict[str, Any]:
        """Keys that are not fields: keyword arguments for the constructor."""
        return dict(self.model_extra or {})
