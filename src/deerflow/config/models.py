"""Keys about models: which there are, what they cost, how their calls are limited."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from deerflow.config.section import (
    Count,
    Money,
    OpenSection,
    Positive,
    Ratio,
    Seconds,
    Section,
    mapping,
)


class TokenUsageConfig(Section):
    """`token_usage`: count tokens by model and by caller."""

    enabled: bool = Field(default=True, description="Count tokens by model and by caller.")


class TokenBudgetConfig(Section):
    """`token_budget`: how much a run, a user or a day may use."""

    enabled: bool = Field(default=False, description="Enforce the token limits of this section.")
    max_tokens: Positive = Field(default=200_000, description="Tokens of a run, input and output.")
    max_input_tokens: Positive | None = Field(default=None, description="Input tokens of a run.")
    max_output_tokens: Positive | None = Field(default=None, description="Output tokens of a run.")
    warn: Ratio = Field(default=0.8, description="Share of a limit at which the model is warned.")
    hard: Ratio = Field(default=1.0, description="Share of a limit at which the run ends.")
    run: Positive | None = Field(default=None, description="Tokens per run; null = max_tokens.")
    user_day: Positive | None = Field(default=None, description="Tokens per user and day.")
    money_day: Money | None = Field(
        default=None, description="Money per user and day, in `currency`."
    )
    currency: str | None = Field(
        default=None, description="Currency of money_day, as in models[].pricing; null adds up all."
    )

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, value: Any) -> Any:
        """2.x files say warn_threshold and hard_stop_threshold."""
        return rename(value, {"warn_threshold": "warn", "hard_stop_threshold": "hard"})


class PricingConfig(Section):
    """`models[].pricing`: prices per million tokens."""

    currency: str = Field(default="USD", description="Currency of the prices.")
    input: Money = Field(description="Price of a million input tokens.")
    output: Money = Field(description="Price of a million output tokens.")
    cached_input: Money | None = Field(
        default=None, description="Price of a million cached input tokens; null = input."
    )


class ModelConfig(OpenSection):
    """One entry of `models`; keys that are not listed go to the class that `use` names."""

    name: str = Field(min_length=1, description="Name by which runs choose the model.")
    display_name: str | None = Field(default=None, description="Name shown to people; null = name.")
    description: str | None = Field(default=None, description="One line for people who choose.")
    use: str | None = Field(
        default=None, description="Chat class as module:Class; null = by the prefix of `model`."
    )
    model: str | None = Field(
        default=None, description="The provider's model name, or the shorthand provider:name."
    )
    provider: str | None = Field(
        default=None,
        description="Whose private fields the model keeps; null = seen from use and base_url.",
    )
    base_url: str | None = Field(default=None, description="Address of the endpoint.")
    api_key: str | None = Field(default=None, description="Key of the endpoint, best as $VARIABLE.")
    max_tokens: Positive | None = Field(default=None, description="Longest answer in tokens.")
    context_window: Positive | None = Field(default=None, description="Window in tokens.")
    supports_thinking: bool = Field(default=False, description="The model can think.")
    supports_vision: bool = Field(default=False, description="The model takes images.")
    supports_reasoning_effort: bool = Field(
        default=False, description="The model takes a reasoning effort."
    )
    supports_tools: bool = Field(default=True, description="The model can call tools.")
    compact: bool | None = Field(
        default=None, description="Short prompt and few tools; null = only for the embedded model."
    )
    when_thinking_enabled: dict[str, Any] | None = Field(
        default=None, description="Constructor keys that apply when thinking is on."
    )
    when_thinking_disabled: dict[str, Any] | None = Field(
        default=None, description="Constructor keys that apply when thinking is off."
    )
    thinking: dict[str, Any] | None = Field(
        default=None, description="Short for when_thinking_enabled: {thinking: …}."
    )
    pricing: PricingConfig | None = Field(
        default=None, description="Prices, for costs and budgets."
    )
    fallbacks: tuple[str, ...] = Field(
        default=(), description="Models that take over when this one fails, in order."
    )
    first_byte_timeout: Seconds | None = Field(
        default=None, description="Seconds to the first byte; null = llm_call's."
    )
    idle_timeout: Seconds | None = Field(
        default=None, description="Seconds between two bytes; null = llm_call's."
    )


class CircuitBreakerConfig(Section):
    """`circuit_breaker`: when a failing model is left alone."""

    failure_threshold: Positive = Field(
        default=5, description="Failures in a row that open the breaker."
    )
    recovery_timeout_sec: Seconds = Field(
        default=60, description="Seconds until one call may try again."
    )


class LlmCallConfig(Section):
    """`llm_call`: retries and limits of one model call."""

    max_concurrent_calls: Count = Field(
        default=0, description="Calls at once per process; 0 = no limit."
    )
    retry_max_attempts: Positive = Field(
        default=3, description="Attempts in all, the first one included."
    )
    retry_base_delay_ms: Count = Field(
        default=1000, description="First delay in milliseconds, doubled."
    )
    retry_cap_delay_ms: Count = Field(default=8000, description="Longest delay in milliseconds.")
    burst_retry_base_delay_ms: Count = Field(
        default=5000, description="First delay in milliseconds after `too many requests`."
    )
    first_byte_timeout_seconds: Seconds = Field(
        default=60, description="Seconds to the first byte."
    )
    idle_timeout_seconds: Seconds = Field(default=60, description="Seconds between two bytes.")


def rename(value: Any, names: dict[str, str]) -> Any:
    """A copy of a raw section with old key names replaced; the new name wins when both stand."""
    given = mapping(value)
    if given is None:
        return value
    raw = dict(given)
    for old, new in names.items():
        if old in raw:
            moved = raw.pop(old)
            raw.setdefault(new, moved)
    return raw
