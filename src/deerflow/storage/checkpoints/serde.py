"""Compact encoding of checkpoints: msgpack, messages as their non-default fields, never pickle."""

from __future__ import annotations

from typing import Any, cast

import ormsgpack
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as _Snapshot,  # pyright: ignore[reportPrivateUsage]
)
from langgraph.types import Send

DeltaSnapshot = _Snapshot
"""LangGraph's mark of a stored whole value of a delta channel."""

KIND = "deer"
"""Type name of this encoding in `dumps_typed`."""

_MESSAGE, _SNAPSHOT, _SEND, _FOREIGN = 100, 101, 102, 103
"""Extension codes; LangGraph's own end at 7."""

_CLASSES: dict[str, type[BaseMessage]] = {
    "h": HumanMessage,
    "a": AIMessage,
    "t": ToolMessage,
    "s": SystemMessage,
    "r": RemoveMessage,
    "A": AIMessageChunk,
}
_LETTERS = {cls: letter for letter, cls in _CLASSES.items()}
_DEFAULTS: dict[type[BaseMessage], dict[str, Any]] = {
    cls: {
        name: info.get_default(call_default_factory=True)
        for name, info in cls.model_fields.items()
        if not info.is_required()
    }
    for cls in _LETTERS
}
_OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
_MISSING = object()
_EMPTY: dict[type, bytes] = {kind: ormsgpack.packb(kind()) for kind in (dict, list, str)}


def _fields(message: BaseMessage) -> dict[str, Any]:
    """Fields that differ from their defaults, extra ones included."""
    defaults = _DEFAULTS[type(message)]
    found = {
        name: value
        for name, value in message.__dict__.items()
        if value != defaults.get(name, _MISSING)
    }
    if message.__pydantic_extra__:
        found.update(message.__pydantic_extra__)
    return found


class CompactSerde(JsonPlusSerializer):
    """LangGraph's serializer and allow-list, with short forms for what fills checkpoints.

    Types outside the allow-list (LangGraph's safe types plus what `with_msgpack_allowlist` added)
    come back as plain data.
    """

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def pack(self, value: Any) -> bytes:
        """Bytes of a value."""
        if not value and type(value) in _EMPTY:  # most channels of most checkpoints
            return _EMPTY[type(value)]
        return ormsgpack.packb(value, default=self._encode, option=_OPTIONS)

    def unpack(self, data: bytes) -> Any:
        """What `pack` was given (tuples come back as lists)."""
        return ormsgpack.unpackb(data, ext_hook=self._decode, option=ormsgpack.OPT_NON_STR_KEYS)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See SerializerProtocol."""
        return KIND, self.pack(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See SerializerProtocol."""
        return self.unpack(data[1]) if data[0] == KIND else super().loads_typed(data)

    def _encode(self, value: Any) -> ormsgpack.Ext:
        letter = _LETTERS.get(cast("type[BaseMessage]", type(value)))
        if letter is not None:
            return ormsgpack.Ext(_MESSAGE, self.pack([letter, _fields(value)]))
        if isinstance(value, DeltaSnapshot):
            return ormsgpack.Ext(_SNAPSHOT, self.pack(value.value))
        if type(value) is Send and getattr(value, "timeout", None) is None:
            return ormsgpack.Ext(_SEND, self.pack([value.node, value.arg]))
        kind, data = super().dumps_typed(value)
        return ormsgpack.Ext(_FOREIGN, self.pack([kind, data]))

    def _decode(self, code: int, data: bytes) -> Any:
        found = self.unpack(data)
        if code == _MESSAGE:
            return _CLASSES[found[0]](**found[1])
        if code == _SNAPSHOT:
            return DeltaSnapshot(found)
        if code == _SEND:
            return Send(*found)
        return super().loads_typed((found[0], found[1]))
