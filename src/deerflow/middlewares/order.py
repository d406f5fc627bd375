"""THE LIST: every row of the chain, outermost first, with the reason for its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deerflow.agent.context import Audience
from deerflow.agent.hooks import Middleware
from deerflow.agent.journal import ModelJournal, ToolJournal
from deerflow.middlewares.clarification import ClarificationMiddleware
from deerflow.middlewares.dangling_tool_call import DanglingToolCallMiddleware
from deerflow.middlewares.deferred_tool_filter import DeferredToolFilterMiddleware
from deerflow.middlewares.dynamic_context import DynamicContextMiddleware
from deerflow.middlewares.guardrail import GuardrailMiddleware
from deerflow.middlewares.input_sanitization import InputSanitizationMiddleware
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import LoopDetectionMiddleware
from deerflow.middlewares.memory import MemoryMiddleware
from deerflow.middlewares.read_before_write import ReadBeforeWriteMiddleware
from deerflow.middlewares.safety_finish_reason import SafetyFinishReasonMiddleware
from deerflow.middlewares.sandbox import SandboxMiddleware
from deerflow.middlewares.sandbox_audit import SandboxAuditMiddleware
from deerflow.middlewares.skill_activation import SkillActivationMiddleware
from deerflow.middlewares.subagent_limit import SubagentLimitMiddleware
from deerflow.middlewares.summarization import SummarizationMiddleware
from deerflow.middlewares.thread_data import ThreadDataMiddleware
from deerflow.middlewares.title import TitleMiddleware
from deerflow.middlewares.todo_list import TodoListMiddleware
from deerflow.middlewares.token_budget import TokenBudgetMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from deerflow.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
from deerflow.middlewares.tool_result_sanitization import ToolResultSanitizationMiddleware
from deerflow.middlewares.uploads import UploadsMiddleware
from deerflow.middlewares.view_image import ViewImageMiddleware

Hook = Literal["start", "model", "tool", "finish"]
HOOKS: tuple[Hook, ...] = ("start", "model", "tool", "finish")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of THE LIST.

    Attributes:
        number: as in the documentation; None for the two sides of the journal.
        cls: the class.
        hooks: the hooks that it has.
        audience: "both", or "lead" when children go without it.
        reason: why it stands where it stands.
        test: the function of tests/middlewares/test_order.py that swaps it with its neighbour.
    """

    number: int | None
    cls: type[Middleware]
    hooks: tuple[Hook, ...]
    audience: Literal["both", "lead"]
    reason: str
    test: str


THE_LIST: tuple[Row, ...] = (
    Row(
        1,
        ThreadDataMiddleware,
        ("start",),
        "both",
        "Folders have names before anything speaks of files. Free beside its neighbour.",
        "test_thread_data_beside_uploads",
    ),
    Row(
        2,
        UploadsMiddleware,
        ("start", "model"),
        "lead",
        "Adds to the request before row 4 decides what of it is the user's. Free beside row 3.",
        "test_uploads_beside_sandbox",
    ),
    Row(
        3,
        SandboxMiddleware,
        ("tool",),
        "both",
        "Outside every row that touches files. Free beside row 4: one works on tools, one on text.",
        "test_sandbox_beside_input_sanitization",
    ),
    Row(
        4,
        InputSanitizationMiddleware,
        ("start", "model"),
        "both",
        "Outside every row that adds frames of ours further in, which it must not escape.",
        "test_input_sanitization_beside_dangling_tool_call",
    ),
    Row(
        5,
        DanglingToolCallMiddleware,
        ("model",),
        "both",
        "Structure is repaired before anything is counted in it or added to it.",
        "test_dangling_tool_call_beside_dynamic_context",
    ),
    Row(
        6,
        SummarizationMiddleware,
        ("model",),
        "both",
        "After repair, which it counts; before row 7, whose additions are not to be summarised.",
        "test_summarization_beside_dynamic_context",
    ),
    Row(
        7,
        DynamicContextMiddleware,
        ("start", "model"),
        "both",
        "After compaction, so that what it adds is never summarised. The order of the additions "
        "to a request is part of the cached prefix.",
        "test_dynamic_context_beside_todo_list",
    ),
    Row(
        8,
        SkillActivationMiddleware,
        ("start", "model", "tool"),
        "both",
        "A skill is part of the request before the plan is put at its end.",
        "test_skill_activation_beside_todo_list",
    ),
    Row(
        9,
        TodoListMiddleware,
        ("start", "model"),
        "lead",
        "The plan goes to the end of the transcript as it will be sent. Free beside row 10.",
        "test_todo_list_beside_view_image",
    ),
    Row(
        10,
        ViewImageMiddleware,
        ("model",),
        "both",
        "Parts that cost most are added last. Free beside row 14, which reads calls alone.",
        "test_view_image_beside_loop_detection",
    ),
    Row(
        11,
        DeferredToolFilterMiddleware,
        ("model",),
        "both",
        "Before row 12, which counts the schemas that are really sent.",
        "test_deferred_tool_filter_beside_token_budget",
    ),
    Row(
        12,
        TokenBudgetMiddleware,
        ("model",),
        "both",
        "After repair, compaction and additions: reserves for what is sent. Free beside row 13.",
        "test_token_budget_beside_subagent_limit",
    ),
    Row(
        13,
        SubagentLimitMiddleware,
        ("tool",),
        "lead",
        "A dropped call reaches no row further in. Free beside row 14, which has refused repeats.",
        "test_subagent_limit_beside_loop_detection",
    ),
    Row(
        14,
        LoopDetectionMiddleware,
        ("model", "tool"),
        "both",
        "Outside row 15: judges the reply that counts, once, not each attempt.",
        "test_loop_detection_beside_llm_error_handling",
    ),
    Row(
        15,
        LLMErrorHandlingMiddleware,
        ("model",),
        "both",
        "Outside row 16: what one attempt brought is judged within that attempt.",
        "test_llm_error_handling_beside_safety_finish_reason",
    ),
    Row(
        16,
        SafetyFinishReasonMiddleware,
        ("model",),
        "both",
        "Outside the journal: a replayed reply is judged like a fresh one.",
        "test_safety_finish_reason_beside_the_journal",
    ),
    Row(
        None,
        ModelJournal,
        ("model",),
        "both",
        "Outside row 17: a replayed reply is not paid, hence not counted, again.",
        "test_the_model_journal_beside_token_usage",
    ),
    Row(
        17,
        TokenUsageMiddleware,
        ("model",),
        "both",
        "Directly around the call: counts what was paid. Free beside row 19.",
        "test_token_usage_beside_sandbox_audit",
    ),
    Row(
        18,
        GuardrailMiddleware,
        ("tool",),
        "both",
        "A denied call is no operation of the sandbox: nothing to audit as done.",
        "test_guardrail_beside_sandbox_audit",
    ),
    Row(
        19,
        SandboxAuditMiddleware,
        ("tool",),
        "both",
        "Outside row 20: an attempt that is refused is on record too.",
        "test_sandbox_audit_beside_read_before_write",
    ),
    Row(
        20,
        ReadBeforeWriteMiddleware,
        ("tool",),
        "both",
        "Decides before the effect. Free beside row 21, which looks at texts alone.",
        "test_read_before_write_beside_tool_output_budget",
    ),
    Row(
        21,
        ToolOutputBudgetMiddleware,
        ("tool",),
        "both",
        "Outside row 22: what is stored is clean, and the handle stands outside the frame.",
        "test_tool_output_budget_beside_tool_result_sanitization",
    ),
    Row(
        22,
        ToolResultSanitizationMiddleware,
        ("tool",),
        "both",
        "Outside row 23: a stranger's error text is framed like any other of its results.",
        "test_tool_result_sanitization_beside_tool_error_handling",
    ),
    Row(
        23,
        ToolErrorHandlingMiddleware,
        ("tool",),
        "both",
        "Outside the journal: a failing journal becomes an error result as well.",
        "test_tool_error_handling_beside_the_journal",
    ),
    Row(
        None,
        ToolJournal,
        ("tool",),
        "both",
        "Directly around the tool: a replayed result is raw and passes 21 and 22 again. "
        "Free beside row 24.",
        "test_the_tool_journal_beside_title",
    ),
    Row(
        24,
        TitleMiddleware,
        ("finish",),
        "lead",
        "Before memory. Free beside row 26: one works at the end, one on calls.",
        "test_title_beside_clarification",
    ),
    Row(
        25,
        MemoryMiddleware,
        ("finish",),
        "lead",
        "After the title, whose name the exchange is stored under. Free beside row 26.",
        "test_memory_beside_clarification",
    ),
    Row(
        26,
        ClarificationMiddleware,
        ("model", "tool"),
        "lead",
        "The last: inside the journal, so that a replay does not ask twice.",
        "test_clarification_beside_the_journal",
    ),
)
"""Rows 6, 8, 11, 12, 13, 18 and 25 have their numbers kept for them."""


def rows_for(audience: Audience) -> tuple[Row, ...]:
    """The rows of an agent, in order.

    Args:
        audience: "lead" or "child".
    """
    return tuple(row for row in THE_LIST if audience == "lead" or row.audience == "both")


def markdown() -> str:
    """THE LIST as the Markdown table of the documentation."""
    lines = ["| # | row | hooks | audience | why it stands there |", "|---|---|---|---|---|"]
    for row in THE_LIST:
        number = "–" if row.number is None else str(row.number)
        hooks = ", ".join(row.hooks)
        lines.append(f"| {number} | {row.cls.__name__} | {hooks} | {row.audience} | {row.reason} |")
    return "\n".join(lines) + "\n"
