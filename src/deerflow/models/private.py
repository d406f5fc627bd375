"""Names under which an AI message carries what only its own provider may see again.

All of it stands in `additional_kwargs`, as JSON with text keys, so it survives copying, msgpack
and JSON.
"""

from __future__ import annotations

ORIGIN = "deerflow_origin"
"""`provider/model` that wrote the message; private fields go back to exactly this one."""
CALL_FIELDS = "deerflow_calls"
"""Position of a call in its message ("0", "1" …) → opaque fields of the call (signatures)."""
BAD_CALLS = "deerflow_bad_calls"
"""Position of a malformed call ("0", "1" …) → what is wrong with it; its arguments are {}."""
REASONING = "reasoning_content"
"""The thinking as text (LangChain's name for it)."""
REASONING_KEY = "deerflow_reasoning"
"""Wire name of the thinking when not `reasoning_content`; "tags" when it stood in the content."""
MESSAGE_FIELDS = frozenset(
    {"reasoning_details", "extra_content", "thought_signature", "thinking_blocks"}
)
"""Opaque fields of a whole message, sent back as they came."""
