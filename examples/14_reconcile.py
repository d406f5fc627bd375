"""Reconcile two lists: one model answers, another has not seen the answer, and code decides.

The roles are asked through `Asker`, any chat model will do. `Checker` is code of your own that
says what holds; an answer that it refutes is never accepted.
"""

import asyncio
import json
import re
from random import Random

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.models.scripted import ScriptedChatModel
from deerflow.verify.loop import Loop
from deerflow.verify.messages import CheckOutcome, Problem
from deerflow.verify.policy import Policy
from deerflow.verify.protocol import Ask, Reply

LEDGER = {"1001": 120.00, "1002": -45.50, "1003": 300.00}
BANK = {"1001": 120.00, "1002": -54.50, "1004": -3.20}
TASK = f"Which entries differ? Name their numbers.\nLedger: {LEDGER}\nBank: {BANK}"


class Asker:
    def __init__(self, **models: BaseChatModel) -> None:
        self.models = models

    async def ask(self, ask: Ask) -> Reply:
        sent = [SystemMessage(ask.system), HumanMessage(ask.prompt)]
        return Reply((await self.models[ask.role].ainvoke(sent)).text)


class Bookkeeper:
    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        differ = {n for n in LEDGER | BANK if LEDGER.get(n) != BANK.get(n)}
        named = set(re.findall(r"\d{4}", response))
        if named == differ:
            return CheckOutcome("verified", "All entries were compared.", "ledger")
        return CheckOutcome("refuted", f"Check {', '.join(sorted(named ^ differ))}.", "ledger")


def says(response: str) -> ScriptedChatModel:
    return ScriptedChatModel(script=[{"text": json.dumps({"response": response})}])


async def main() -> None:
    asker = Asker(resolver=says("1002 and 1003"), validator=says("1002, 1003 and 1004"))
    loop = Loop(asker, Policy(), Bookkeeper(), shuffle=Random(7))
    status = await loop.solve(Problem("march", TASK))
    for check in status.raw["checks"]:
        print(f"{check['of']} says {check['response']}: {check['result']}")
    print(f"{status.state}: {status.final_response}")


if __name__ == "__main__":
    asyncio.run(main())
