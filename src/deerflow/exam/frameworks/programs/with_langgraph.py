"""The exam in LangGraph: a graph with a cycle, resolve to validate and back by a conditional edge.

A role's answer is plain text that holds JSON; it is read by the shared strict reader.
"""

from __future__ import annotations

from typing import TypedDict

import proctor
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """What goes along the edges."""

    sheet: proctor.Sheet


def build(model: str, base_url: str) -> proctor.Solve:
    """The compiled graph as an inner loop."""
    chat = ChatOpenAI(model=model, base_url=base_url)

    async def ask(sheet: proctor.Sheet, system: str, prompt: str) -> str:
        reply = await chat.ainvoke([SystemMessage(system), HumanMessage(prompt)])
        used = reply.usage_metadata or {}
        sheet.spend(used.get("input_tokens", 0), used.get("output_tokens", 0))
        return reply.text

    async def resolve(state: State) -> State:
        sheet = state["sheet"]
        text = await ask(sheet, sheet.question.resolver, sheet.resolver_prompt())
        sheet.resolved(proctor.resolution_in(text))
        return {"sheet": sheet}

    async def validate(state: State) -> State:
        sheet = state["sheet"]
        text = await ask(sheet, sheet.question.validator, sheet.validator_prompt())
        sheet.judged(proctor.verdict_in(text))
        return {"sheet": sheet}

    def route(state: State) -> str:
        return END if state["sheet"].settled else "resolve"

    graph = StateGraph(State)
    graph.add_node("resolve", resolve)
    graph.add_node("validate", validate)
    graph.add_edge(START, "resolve")
    graph.add_edge("resolve", "validate")
    graph.add_conditional_edges("validate", route, ["resolve", END])
    compiled = graph.compile()

    async def solve(sheet: proctor.Sheet) -> None:
        await compiled.ainvoke({"sheet": sheet})

    return solve


if __name__ == "__main__":
    proctor.main("langgraph", ["langgraph", "langchain-openai"], build)
