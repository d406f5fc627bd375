"""Change what the model is asked: by a LangChain middleware, and by a row of your own.

The first works everywhere: `extensions.middlewares: [your_module:Polite]`.
The second has the hooks of the rows in `middlewares/order.py`, in an agent of your own.
"""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.config.extensions import ExtensionsConfig
from deerflow.config.load import load_config, read_environ
from deerflow.models.scripted import ScriptedChatModel
from deerflow.runtime.request import RunRequest
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.wiring.harness import open_harness


class Polite(AgentMiddleware[Any, Any, Any]):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        text = f"{request.system_message.text}\nBe polite."
        return await handler(request.override(system_message=SystemMessage(text)))


class Shout(Middleware):
    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        reply = await next_(call)  # the rows further in, then the model
        if reply.message is not None:
            reply.message.content = reply.message.text.upper()
        return reply


async def main() -> None:
    environ = read_environ()
    loaded = load_config(None, environ=environ, cwd=Path.cwd())
    own = ExtensionsConfig(middlewares=("__main__:Polite",))
    config = loaded.config.model_copy(update={"extensions": own})
    async with open_harness(dataclasses.replace(loaded, config=config), environ) as harness:
        handle = await harness.runs.start(RunRequest(task="Say a polite good morning."))
        print((await handle.result()).text)

    parts = (ThreadFolders(loaded.home), InMemoryStorage(), InMemoryProvider())
    run = RunContext("me", "t", "key", "run", *parts, model_name="scripted")
    model = ScriptedChatModel(script=[{"text": "good morning"}])
    graph = build_agent(AgentParts(model, tools=[], system="You help.", rows=[Shout()]))
    state = await graph.ainvoke({"messages": [HumanMessage("Greet me.")]}, context=run)
    print(state["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
