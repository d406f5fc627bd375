"""Counts tokens and money of a run, by model and by caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage

from deerflow.models.protocol import ModelSpec, Pricing

CHARS_PER_TOKEN = 3.0
"""Cautious: English text has about 4 characters a token, code and JSON about 3."""
MESSAGE_TOKENS = 4
"""What a chat template adds per message (role and separators), as OpenAI documents it."""
IMAGE_TOKENS = 1_000
"""Order of magnitude of one picture at the large providers."""


@dataclass(slots=True)
class Tokens:
    """Sums of one model and caller.

    Attributes:
        calls: model calls.
        input: tokens sent, cached ones included.
        output: tokens made, reasoning included.
        cached: part of `input` that was read from the provider's cache.
        reasoning: part of `output` that was thinking.
        cost: money by currency.
        estimated: calls whose usage the provider did not tell.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: dict[str, float] = field(default_factory=dict[str, float])
    estimated: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    def add(self, other: Tokens) -> None:
        """Add another sum to this one."""
        self.calls += other.calls
        self.input += other.input
        self.output += other.output
        self.cached += other.cached
        self.reasoning += other.reasoning
        self.estimated += other.estimated
        for currency, money in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + money

    def to_dict(self) -> dict[str, Any]:
        """JSON: the sums and `total`."""
        return {
            "calls": self.calls,
            "input": self.input,
            "output": self.output,
            "total": self.total,
            "cached": self.cached,
            "reasoning": self.reasoning,
            "cost": {currency: round(money, 8) for currency, money in self.cost.items()},
            "estimated": self.estimated,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        tokens = cls()
        for item in fields(cls):
            setattr(tokens, item.name, stored.get(item.name) or getattr(tokens, item.name))
        tokens.cost = dict(tokens.cost)
        return tokens


@dataclass(slots=True)
class UsageMeter:
    """Sums per (model, caller); callers are "lead", "title", "summary" or a child's name."""

    entries: dict[tuple[str, str], Tokens] = field(default_factory=dict[tuple[str, str], Tokens])

    def record(
        self,
        message: AIMessage,
        spec: ModelSpec,
        *,
        caller: str = "lead",
        sent: Sequence[BaseMessage] = (),
    ) -> Tokens:
        """Add one reply.

        Args:
            message: the reply; without `usage_metadata` its usage is estimated and marked.
            spec: the model that wrote it, for name and price.
            caller: who asked.
            sent: the request's messages, for an estimate.

        Returns:
            The tokens of this call alone.
        """
        tokens = count(message, sent)
        if spec.pricing is not None:
            tokens.cost = {spec.pricing.currency: price(tokens, spec.pricing)}
        self.entries.setdefault((spec.name, caller), Tokens()).add(tokens)
        return tokens

    def merge(self, other: UsageMeter) -> None:
        """Add the sums of another meter (a child's, a former process's)."""
        for key, tokens in other.entries.items():
            self.entries.setdefault(key, Tokens()).add(tokens)

    @property
    def total(self) -> Tokens:
        """Everything together."""
        return _sum(self.entries.values())

    def by_model(self) -> dict[str, Tokens]:
        """Sums per model."""
        return self._by(0)

    def by_caller(self) -> dict[str, Tokens]:
        """Sums per caller."""
        return self._by(1)

    def to_dict(self) -> dict[str, Any]:
        """JSON: `total`, `by_model`, `by_caller` and the single `entries`."""
        return {
            "total": self.total.to_dict(),
            "by_model": {name: tokens.to_dict() for name, tokens in self.by_model().items()},
            "by_caller": {name: tokens.to_dict() for name, tokens in self.by_caller().items()},
            "entries": [
                {"model": model, "caller": caller, **tokens.to_dict()}
                for (model, caller), tokens in self.entries.items()
            ],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The meter that `to_dict` described."""
        meter = cls()
        for entry in stored.get("entries", ()):
            meter.entries[(entry["model"], entry["caller"])] = Tokens.from_dict(entry)
        return meter

    def _by(self, part: int) -> dict[str, Tokens]:
        names = dict.fromkeys(key[part] for key in self.entries)
        return {
            name: _sum(tokens for key, tokens in self.entries.items() if key[part] == name)
            for name in names
        }


def count(message: AIMessage, sent: Sequence[BaseMessage] = ()) -> Tokens:
    """Tokens of one reply as the provider told them, else estimated (`estimated` = 1)."""
    usage = message.usage_metadata
    if not usage or not usage["total_tokens"]:
        return Tokens(calls=1, input=estimate(sent), output=estimate([message]), estimated=1)
    return Tokens(
        calls=1,
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cached=(usage.get("input_token_details") or {}).get("cache_read") or 0,
        reasoning=(usage.get("output_token_details") or {}).get("reasoning") or 0,
    )


def price(tokens: Tokens, pricing: Pricing) -> float:
    """Money for tokens; cached input costs `cached_input` where that is set."""
    cached_price = pricing.input if pricing.cached_input is None else pricing.cached_input
    fresh = tokens.input - tokens.cached
    millions = (fresh * pricing.input, tokens.cached * cached_price, tokens.output * pricing.output)
    return sum(millions) / 1_000_000


def estimate(messages: Sequence[BaseMessage]) -> int:
    """Tokens of messages without a tokenizer.

    ASCII characters count 1/3, others (Chinese, Japanese, emoji) a whole token each, plus
    MESSAGE_TOKENS per message and IMAGE_TOKENS per picture. Too many rather than too few.
    """
    return sum(MESSAGE_TOKENS + _of_message(message) for message in messages)


def estimate_text(text: str) -> int:
    """Tokens of a text, by the rule of `estimate`."""
    wide = 0 if text.isascii() else sum(1 for char in text if ord(char) > 0x2FF)
    return wide + round((len(text) - wide) / CHARS_PER_TOKEN + 0.5) if text else 0


def _of_message(message: BaseMessage) -> int:
    found = estimate_text(message.text)
    if isinstance(message.content, list):
        kinds = [block.get("type") for block in message.content if isinstance(block, dict)]
        found += IMAGE_TOKENS * sum(1 for kind in kinds if kind in ("image", "image_url"))
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            found += MESSAGE_TOKENS + estimate_text(call["name"] + str(call["args"]))
        found += estimate_text(str(message.additional_kwargs.get("reasoning_content") or ""))
    return found


def _sum(parts: Iterable[Tokens]) -> Tokens:
    total = Tokens()
    for part in parts:
        total.add(part)
    return total
