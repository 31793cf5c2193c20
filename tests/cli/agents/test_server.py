"""`tiryns mcp`, asked by the SDK's own client as a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import train_here
from tests.support import needs
from tests.support.processes import WarmPopen
from tiryns.runner.cli.agents.server import tools_of, words_of_call
from tiryns.runner.run.folder import Run

Talk = Callable[[Any], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    folder = tmp_path_factory.mktemp("served") / "outputs" / "first"
    return train_here(folder, text_file, "trainer.max_steps=2", "trainer.validate_every=0")


@pytest.fixture(autouse=True)
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers, and the commands that they start, are forked from a process that has imported the program."""
    monkeypatch.setattr(subprocess, "Popen", WarmPopen)


def talk(cwd: Path, about: Talk, *words: str) -> None:
    """Starts the server in a folder, and lets a client talk to it."""
    needs.package("mcp")
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "tiryns", "mcp", *words], cwd=cwd, env=dict(os.environ)
    )

    async def main() -> None:
        async with Client(stdio_client(server)) as client:
            await about(client)

    asyncio.run(main())


def document(result: Any) -> Any:
    (content,) = result.content
    found = json.loads(content.text)
    assert result.structured_content in (None, found)
    return found


def test_client_reads_a_run_and_may_not_write(run: Run) -> None:
    async def about(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"runs", "plan", "info", "verify", "predict"} <= tools.keys()
        assert not {"push", "new", "train", "judge", "mcp"} & tools.keys()
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert "out" not in tools["report"].input_schema["properties"]
        shown = await client.call_tool("runs", {"what": "show", "runs": ["first"]})
        assert not shown.is_error
        assert document(shown)["state"] == "done"
        assert [each["folder"] for each in document(await client.call_tool("runs", {}))] == ["outputs/first"]

        refused = await client.call_tool("push", {"run": "outputs/first", "target": "./model"})
        assert refused.is_error
        assert document(refused)["code"] == "refused"
        assert document(refused)["fix"] == "tiryns mcp --write"
        failed = await client.call_tool("runs", {"what": "show", "runs": ["frist"]})
        assert failed.is_error
        assert document(failed) == {
            "code": "no_such_run",
            "message": "no run under 'outputs' has 'frist' in the name. Did you mean 'first'?",
            "fix": "tiryns runs show first --json",
        }

    before = sorted(run.path.parent.parent.rglob("*"))
    talk(run.path.parent.parent, about)
    assert sorted(run.path.parent.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("new", {"folder": "x"}, "`new` writes"),
        ("report", {"runs": ["a"], "out": "x.html"}, "'out' of `report` may write"),
        ("verify", {"run": "a", "sign": "key"}, "'sign' of `verify` may write"),
        ("predict", {"run": "a", "import": ["mine"]}, "'import' of `predict` may write"),
        ("plan", {"settings": ["seed=1", "outputs=/elsewhere"]}, "'outputs=/elsewhere' may write"),
        (
            "plan",
            {"settings": ["+hydra.callbacks.mine._target_=mine.Callback"]},
            "may write or reach further",
        ),
        ("plan", {"settings": ["allowed_targets=[mine]"]}, "may write or reach further"),
        ("doctor", {"overrides": ["hydra/launcher=submitit_slurm"]}, "may write or reach further"),
    ],
)
def test_call_that_writes_is_refused_by_a_server_that_reads(
    tool: str, given: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        words_of_call(tool, given, write=False)
    assert words_of_call(tool, given, write=True)[0] == tool


def test_commands_without_a_document_are_no_tools() -> None:
    assert not {"train", "schema", "mcp"} & tools_of(True).keys()
    assert tools_of(False).keys() < tools_of(True).keys()
    for tool in ("train", "mcp", "schema", "exec"):
        with pytest.raises(ValueError, match="there is no tool"):
            words_of_call(tool, {}, write=True)
