"""Row 6: what the user answered to a question stays together with the question."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from deerflow.config.schema import SummarizationConfig
from deerflow.middlewares.clarification import MARK
from deerflow.middlewares.summarization import SummarizationMiddleware
from fakes.catalogs import ScriptedCatalog
from fakes.rows import calls, result, run_context, turn, user


async def test_a_short_answer_stays_with_its_question() -> None:
    asked = result("ask_clarification", "asked", id="q.0")
    asked.additional_kwargs[MARK] = {"question": "What may it cost? And when?"}
    answer = user("Five hundred euros\nFriday", id="u-answer")
    messages = [user("Plan a trip.", id="u"), calls("ask_clarification", id="q"), asked, answer]
    for n in range(400):
        messages += [user(f"Question {n} about " + "deer " * 40 + "?", id=f"u{n}")]
        messages += [AIMessage(f"Answer {n}. " + "x" * 600, id=f"a{n}")]
    catalog = ScriptedCatalog(main=[{"text": "**State**: all well.", "times": 9}])
    row = SummarizationMiddleware(SummarizationConfig(), catalog)
    state = {"messages": [*messages, user("Now.")]}
    sent, _ = await turn([row], state, run_context(), model=catalog.models["main"])
    [frame, *_] = sent or []
    about = "Answer to the question \u2039What may it cost? And when?\u203a: "
    assert f"- {about}Five hundred euros\nFriday\n" in frame.text
    assert "Plan a trip." not in frame.text, "there is no room for everything"
