"""The key-value store of the LangGraph protocol over anything that keeps rows.

A store belongs to one user and cannot see another's items. There is no vector index: `query` of a
search has no effect, as the protocol has it for stores without one.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NoReturn, Protocol, TypeVar, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from deerflow.errors import UsageError
from deerflow.storage.encoding import copied

Namespace = tuple[str, ...]
T = TypeVar("T", Item, SearchItem)
REFRESH_PART = 0.1
"""A read moves an item's end only when that gains such a part of its time; each costs a write."""
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as a shelf keeps it; times in UTC seconds, `ttl` in minutes as the protocol's."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: float
    updated_at: float
    ttl: float | None = None
    expires_at: float | None = None

    def as_item(self, kind: type[T]) -> T:
        """What the protocol calls it."""
        return kind(
            value=self.value,
            key=self.key,
            namespace=self.namespace,
            created_at=datetime.fromtimestamp(self.created_at, UTC),
            updated_at=datetime.fromtimestamp(self.updated_at, UTC),
        )


class Shelf(Protocol):
    """One user's rows inside a transaction. Expired rows are as good as gone."""

    now: float

    def one(self, namespace: Namespace, key: str) -> StoredItem | None:
        """A row."""
        ...

    def newest(self, prefix: Namespace, limit: int | None) -> Iterable[StoredItem]:
        """Rows below a namespace by `updated_at`, newest first, then by namespace and key."""
        ...

    def namespaces(self) -> list[Namespace]:
        """Those that have rows."""
        ...

    def put(self, row: StoredItem) -> None:
        """Insert, or replace all but `created_at`."""
        ...

    def remove(self, namespace: Namespace, key: str) -> None:
        """Delete a row that may not exist."""
        ...

    def sweep(self) -> None:
        """Delete what has expired."""
        ...


class UserItems(BaseStore):
    """One user's items; async only."""

    supports_ttl = True

    @abstractmethod
    async def _perform(self, ops: list[Op], *, writes: bool) -> tuple[list[Result], list[Touched]]:
        """Call `perform` with a shelf, in one transaction."""

    @abstractmethod
    async def _touch(self, touched: list[Touched]) -> None:
        """Move the ends of items that were read."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See BaseStore: reads see the state before the batch's writes.

        Raises:
            UsageError: an unknown operator in a filter, a negative limit or offset.
            InvalidNamespaceError: a label is empty, or holds a period or NUL.
            StorageError: a value is not JSON, or the database failed.
        """
        checked = [_checked(op) for op in ops]
        writes = any(isinstance(op, PutOp) for op in checked)
        results, touched = await self._perform(checked, writes=writes)
        if touched:
            await self._touch(touched)
        return results

    def batch(self, ops: Iterable[Op]) -> NoReturn:
        """Not offered."""
        raise NotImplementedError("This store is async only: use aget, asearch, aput, adelete.")


Touched = tuple[Namespace, str, float]
"""An item that was read, and its new end."""


def perform(shelf: Shelf, ops: list[Op]) -> tuple[list[Result], list[Touched]]:
    """Results of operations, and the items whose end their being read moves."""
    touched: list[Touched] = []
    results: list[Result] = []
    for op in ops:
        if isinstance(op, GetOp):
            found = shelf.one(op.namespace, op.key)
            results.append(None if found is None else found.as_item(Item))
            seen = [] if found is None else [found]
        elif isinstance(op, SearchOp):
            seen = _search(shelf, op)
            results.append([row.as_item(SearchItem) for row in seen])
        else:
            results.append(_namespaces(shelf, op) if isinstance(op, ListNamespacesOp) else None)
            continue
        if op.refresh_ttl:
            touched.extend(_prolonged(seen, shelf.now))
    puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
    _write(shelf, puts.values())
    return results, [entry for entry in touched if entry[:2] not in puts]


def matches(wanted: Any, value: Any) -> bool:
    """Whether a value is what a filter wants: equal, or as operators `$eq`, `$ne`, `$gt`, … say."""
    if isinstance(wanted, dict):
        fields = cast("dict[str, Any]", wanted)
        if any(name.startswith("$") for name in fields):
            return all(_compared(value, name, other) for name, other in fields.items())
        if not isinstance(value, dict):
            return False
        given = cast("dict[str, Any]", value)
        return all(matches(inner, given.get(name)) for name, inner in fields.items())
    if isinstance(wanted, list | tuple):
        each = cast("list[Any]", wanted)
        given = cast("list[Any]", value)
        return (
            isinstance(value, list)
            and len(given) == len(each)
            and all(matches(inner, item) for inner, item in zip(each, given, strict=True))
        )
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _compared(value: Any, name: str, other: Any) -> bool:
    if name == "$eq":
        return matches(other, value)
    if name == "$ne":
        return not matches(other, value)
    try:
        return bool(_COMPARE[name](value, other))
    except TypeError:  # values of different kinds have no order
        return False


def _checked(op: Op) -> Op:
    """The operation, copied where its caller could change it later."""
    validate_op_namespace(op)
    if isinstance(op, PutOp):
        return op if op.value is None else op._replace(value=copied(op.value), ttl=_ttl(op.ttl))
    if isinstance(op, SearchOp | ListNamespacesOp):
        if op.limit < 0 or op.offset < 0:
            raise UsageError(
                f"limit {op.limit} and offset {op.offset} must not be negative.",
                cure="Give numbers from 0.",
            )
        if isinstance(op, SearchOp) and op.filter:
            _check_filter(op.filter)
    return op


def _ttl(minutes: float | None) -> float | None:
    if minutes is not None and not (math.isfinite(minutes) and minutes > 0):
        raise UsageError(f"ttl {minutes!r} is no time.", cure="Give minutes above 0, or null.")
    return minutes


def _check_filter(wanted: Any) -> None:
    known = ("$eq", "$ne", *_COMPARE)
    if isinstance(wanted, dict):
        for name, inner in cast("dict[str, Any]", wanted).items():
            if name.startswith("$") and name not in known:
                raise UsageError(
                    f"The filter's operator {name!r} is unknown.", cure=f"Use {', '.join(known)}."
                )
            _check_filter(inner)


def _search(shelf: Shelf, op: SearchOp) -> list[StoredItem]:
    end = op.offset + op.limit
    wanted = op.filter
    if not wanted:
        return list(shelf.newest(op.namespace_prefix, end))[op.offset :]
    rows = shelf.newest(op.namespace_prefix, None)
    return list(islice((row for row in rows if matches(wanted, row.value)), op.offset, end))


def _namespaces(shelf: Shelf, op: ListNamespacesOp) -> list[Namespace]:
    conditions = op.match_conditions or ()
    found = {
        namespace[: op.max_depth]
        for namespace in shelf.namespaces()
        if all(_fits(namespace, condition) for condition in conditions)
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _prolonged(rows: list[StoredItem], now: float) -> list[Touched]:
    found: list[Touched] = []
    for row in rows:
        if row.ttl is not None:
            span = row.ttl * 60
            end = now + span
            if end - (row.expires_at or 0) >= span * REFRESH_PART:
                found.append((row.namespace, row.key, end))
    return found


def _write(shelf: Shelf, puts: Iterable[PutOp]) -> None:
    swept = False
    for op in puts:
        if op.value is None:
            shelf.remove(op.namespace, op.key)
            continue
        row = StoredItem(op.namespace, op.key, dict(op.value), shelf.now, shelf.now)
        if op.ttl is not None:
            row = replace(row, ttl=op.ttl, expires_at=shelf.now + op.ttl * 60)
        if op.ttl is not None and not swept:
            shelf.sweep()
            swept = True
        shelf.put(row)
