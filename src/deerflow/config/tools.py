"""Keys about tools: which there are, how their output is cut, what stops endless calls."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from deerflow.config.section import Count, OpenSection, Positive, Ratio, Section, mapping


class ToolConfig(OpenSection):
    """One entry of `tools`; keys that are not listed go to the tool."""

    name: str = Field(min_length=1, description="Name that the model calls.")
    group: str | None = Field(default=None, description="Group of tool_groups that it belongs to.")
    use: str = Field(description="The tool as module:name.")


class ToolGroupConfig(Section):
    """One entry of `tool_groups`."""

    name: str = Field(min_length=1, description="Name of the group.")


class ToolSearchConfig(Section):
    """`tool_search`: hide rarely needed tools until the model looks for them."""

    enabled: bool = Field(default=False, description="Hide schemas of external tools until needed.")
    auto_promote_top_k: Count = Field(
        default=3, description="Best matches that a search makes callable."
    )


class ToolOutputLimits(Section):
    """One entry of `tool_output.tool_overrides`; null = the general value."""

    externalize_min_chars: Positive | None = Field(
        default=None, description="Characters that stay."
    )
    preview_head_chars: Count | None = Field(default=None, description="First characters shown.")
    preview_tail_chars: Count | None = Field(default=None, description="Last characters shown.")


class ToolOutputConfig(Section):
    """`tool_output`: long results go to a file, the model sees head, tail and a handle."""

    enabled: bool = Field(default=True, description="Move long results to a file.")
    externalize_min_chars: Positive = Field(default=12_000, description="Longer results are moved.")
    preview_head_chars: Count = Field(default=2000, description="First characters that stay.")
    preview_tail_chars: Count = Field(default=1000, description="Last characters that stay.")
    fallback_max_chars: Positive = Field(
        default=30_000, description="Longest result when it cannot be stored."
    )
    fallback_head_chars: Count = Field(default=8000, description="First characters kept then.")
    fallback_tail_chars: Count = Field(default=3000, description="Last characters kept then.")
    storage_subdir: str = Field(default=".tool-results", description="Folder below the workspace.")
    exempt_tools: tuple[str, ...] = Field(
        default=("read_file", "read_file_tool"), description="Tools with limits of their own."
    )
    tool_overrides: dict[str, ToolOutputLimits] = Field(
        default_factory=dict[str, ToolOutputLimits], description="Other limits by tool name."
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any) -> Any:
        """2.x files may give an override as a number of characters."""
        raw = mapping(value)
        overrides = mapping(raw.get("tool_overrides")) if raw else None
        if raw is None or overrides is None:
            return value
        plain = {
            name: {"externalize_min_chars": item} if isinstance(item, int) else item
            for name, item in overrides.items()
        }
        return {**raw, "tool_overrides": plain}


class SuggestionsConfig(Section):
    """`suggestions`: follow-up questions shown after an answer."""

    enabled: bool = Field(default=True, description="Offer follow-up questions.")
    max_suggestions: int = Field(default=3, ge=1, le=5, description="How many at most (1 to 5).")
    model_name: str | None = Field(
        default=None, description="Model that writes them; null = the run's."
    )


class InputPolishConfig(Section):
    """`input_polish`: rewrite a draft on request."""

    enabled: bool = Field(default=True, description="Offer to rewrite a draft.")
    max_chars: Positive = Field(default=4000, description="Longest draft in characters.")
    model_name: str | None = Field(
        default=None, description="Model that rewrites; null = the default."
    )


class ToolFrequencyLimits(Section):
    """One entry of `loop_detection.tool_freq_overrides`."""

    warn: Positive = Field(description="Calls that bring nothing new before the warning.")
    hard_limit: Positive = Field(description="Calls that bring nothing new before the refusal.")


class LoopDetectionConfig(Section):
    """`loop_detection`: warn, then refuse calls that bring nothing new."""

    enabled: bool = Field(default=True, description="Watch for loops.")
    warn_threshold: Positive = Field(default=3, description="Identical calls before the warning.")
    hard_limit: Positive = Field(default=5, description="Identical calls before the refusal.")
    window_size: Positive = Field(default=20, description="Calls that are looked back on.")
    max_tracked_threads: Positive = Field(
        default=100, description="Accepted; each run keeps its own."
    )
    tool_freq_warn: Positive = Field(
        default=30, description="Calls of one tool without progress before the warning."
    )
    tool_freq_hard_limit: Positive = Field(
        default=50, description="Calls of one tool without progress before the refusal."
    )
    tool_freq_overrides: dict[str, ToolFrequencyLimits] = Field(
        default_factory=dict[str, ToolFrequencyLimits], description="Other limits by tool name."
    )

    @model_validator(mode="after")
    def _ordered(self) -> LoopDetectionConfig:
        if self.hard_limit < self.warn_threshold:
            raise ValueError("hard_limit must not be below warn_threshold")
        if self.tool_freq_hard_limit < self.tool_freq_warn:
            raise ValueError("tool_freq_hard_limit must not be below tool_freq_warn")
        return self


class ToolProgressConfig(Section):
    """`tool_progress`: a second watch of 2.x; loop_detection already measures progress."""

    enabled: bool = Field(default=False, description="Accepted; loop_detection does this.")
    stagnation_threshold: Positive = Field(default=3, description="Results alike before a hint.")
    escalation_threshold: Positive = Field(default=2, description="Hints before the stop.")
    jaccard_threshold: Ratio = Field(default=0.8, description="Likeness that counts as the same.")
    min_words: Count = Field(default=10, description="Shorter results are not compared.")
    exempt_tools: tuple[str, ...] = Field(
        default=("ask_clarification", "write_todos", "present_files", "task"),
        description="Tools that are not watched.",
    )


class ReadBeforeWriteConfig(Section):
    """`read_before_write`: an existing file must have been read before it is overwritten."""

    enabled: bool = Field(default=True, description="Ask for a read of the present version first.")


class SafetyDetectorConfig(OpenSection):
    """One entry of `safety_finish_reason.detectors`; further keys go to its class."""

    use: str = Field(description="The detector as module:Class.")


class SafetyFinishReasonConfig(Section):
    """`safety_finish_reason`: what a provider's safety stop or length cut does."""

    enabled: bool = Field(default=True, description="Never run calls of an answer that was cut.")
    detectors: tuple[SafetyDetectorConfig, ...] | None = Field(
        default=None, description="Own detectors; null = the built-in ones."
    )


PdfConverter = Literal["auto", "pymupdf4llm", "markitdown", "pypdf"]


class UploadsConfig(Section):
    """`uploads`: how many files of which size."""

    max_files: Positive = Field(default=10, description="Files per upload.")
    max_file_size: Positive = Field(default=50 * 1024 * 1024, description="Bytes per file.")
    max_total_size: Positive = Field(default=100 * 1024 * 1024, description="Bytes per upload.")
    auto_convert_documents: bool = Field(
        default=False,
        description="Convert uploaded documents (PDF, Word, PowerPoint, Excel, EPUB) to Markdown"
        " in the background; needs the extra `documents`.",
    )
    pdf_converter: PdfConverter = Field(
        default="auto",
        description="Who converts PDF files: `markitdown`, or pypdfium2 for every other value.",
    )
