"""Packages that load when they are used; in processes of their own, as modules load once."""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = "import sys\nfrom deerflow.gateway.postponed import postpone\npostpone(); postpone()\n"


def told(program: str, *arguments: str, begin: str = BEGIN) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", begin + program, *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SERVED = """
import asyncio, pathlib, sys
import uvicorn.lifespan.on
from deerflow.config.load import load_config
from deerflow.gateway.app import create_app
from deerflow.gateway.config import GatewayConfig
from langsmith import traceable

async def main(home):
    environ = {"DEER_FLOW_HOME": str(home)}
    loaded = load_config(None, environ=environ, cwd=home)
    app = create_app(GatewayConfig(), loaded, environ)
    async with app.router.lifespan_context(app):
        await app.state.opening.settled.wait()
        assert app.state.opening.ready, app.state.opening.failure
        traceable(main)
        print(*sorted(sys.modules))

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""
OPENAPI = """
from deerflow.gateway.app import create_app
from deerflow.gateway.config import GatewayConfig
import json
app = create_app(GatewayConfig(), None, {}, opener=lambda: None)
print(json.dumps(app.openapi(), sort_keys=True))
"""
LEFT_OUT = {
    "argon2", "charset_normalizer", "croniter", "deerflow.verify", "httpx", "httpx2",
    "langgraph_sdk.client", "langsmith._client", "langsmith.types", "multiprocessing",
    "opentelemetry.sdk", "psutil._common", "psycopg", "pydantic.v1.main",
    "requests.sessions", "rich", "sqlalchemy.ext.asyncio", "sqlalchemy.orm",
    "urllib3.connectionpool", "uvicorn.main", "watchfiles", "yaml",
}  # fmt: skip
"""Together 30 MiB: a served process has none of them before somebody uses it."""


def test_a_served_process_loads_none_of_what_it_may_never_use(tmp_path: Path):
    loaded = set(told(SERVED, str(tmp_path)).split())

    assert {"deerflow.wiring.runtime", "dbos", "sqlalchemy", "langsmith.run_trees"} <= loaded
    assert loaded & LEFT_OUT == set()
    assert not {"sqlite3", "pysqlite3"} <= loaded, "one SQLite is enough"


def test_the_description_of_the_interface_is_the_same():
    assert told(OPENAPI) == told(OPENAPI, begin="import warnings\n")


def test_what_a_run_needs_loads_no_client():
    program = "import langgraph.runtime, langchain.agents\n"
    program += "print([name for name in ('httpx', 'rich', 'websockets') if name in sys.modules])"
    assert told(program) == "[]"


@pytest.mark.parametrize(
    "line",
    [
        "from langgraph_sdk import get_client; get_client(url='http://127.0.0.1:1')",
        "import langgraph_sdk; langgraph_sdk.get_client(url='http://127.0.0.1:1')",
        "import langgraph_sdk.auth; from langgraph_sdk import Auth; Auth()",
        "from langchain.agents.middleware import AgentMiddleware; AgentMiddleware()",
        "import uvicorn; uvicorn.Config('a:b'); assert uvicorn.__version__",
        "from langgraph_sdk import *",
        "import urllib3.response; import urllib3; urllib3.PoolManager()",
        "from pydantic.v1.fields import ModelField; ModelField",
        "from pydantic.v1 import BaseModel, Field\nclass A(BaseModel):\n  x: int = Field(1)\nA()",
        "import langsmith.run_trees as own, langsmith\n"
        "class Mine(langsmith.Client): pass\n"
        "assert issubclass(Mine, own.Client) and own.Client is langsmith.Client",
        "from sqlalchemy.dialects import registry; registry.load('postgresql.asyncpg').driver",
    ],
)
def test_names_of_the_package_are_there(line: str):
    assert told(line) == ""


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert told("import uvicorn\nprint(hasattr(uvicorn, 'nothing'))") == "False"


def test_before_a_package_is_loaded_nothing_is_of_its_classes():
    program = """
from langsmith import Client
from pydantic.v1 import BaseModel
from requests import HTTPError
assert not isinstance(1, Client) and not issubclass(int, BaseModel)
try:
    raise ValueError("else")
except HTTPError:
    print("caught")
except ValueError as error:
    print(error, "langsmith.types" in sys.modules, "pydantic.v1.main" in sys.modules)
"""
    assert told(program) == "else False False"


def test_who_took_a_stand_in_has_the_real_one_afterwards():
    program = """
import langchain_core.tools.base as tools, langchain_core.utils.utils as words
import pydantic.v1, requests
before = type(tools.ValidationErrorV1) is type(pydantic.v1.ValidationError) is type
requests.get, pydantic.v1.parse_obj_as
print(before, tools.ValidationErrorV1 is pydantic.v1.ValidationError,
      words.HTTPError is requests.exceptions.HTTPError)
"""
    assert told(program) == "False True True"


def test_a_traced_call_reaches_the_client():
    program = """
from langsmith import Client, traceable, tracing_context

class Kept(Client):
    def __init__(self): self.names, self.otel_exporter = [], None
    def create_run(self, name, *args, **kwargs): self.names.append(name)
    def update_run(self, *args, **kwargs): pass

@traceable
def work(): return 1

kept = Kept()
with tracing_context(enabled=True, client=kept):
    work()
print(kept.names)
"""
    assert told(program) == "['work']"
