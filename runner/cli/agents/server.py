"""Serves the commands to software agents by the Model Context Protocol, on standard input and output.

Each command that has --json is a tool. Without --write, only commands that write nothing are tools, and settings that
reach outside of a run are refused. A call runs the command in its own process, in the server's working folder.
It needs the SDK: pip install 'tiryns[mcp]'.
"""

import asyncio
import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import suppress

from tiryns.runner.cli.agents.tools import READERS, command_schema, has_document, words_of
from tiryns.runner.cli.commands import COMMANDS
from tiryns.runner.cli.schema import Schema
from tiryns.runner.config.reach import reaches
from tiryns.runner.run.command.failure import Failure, coded, failure_of
from tiryns.runner.run.command.lifetime import same_modules

INSTRUCTIONS = (
    "Tiryns pretrains and finetunes transformer encoders. Runs are folders below `outputs`: `runs` lists them, `info` "
    "lists settings, `plan` shows what a run would do. A failure is an object with code, message and fix."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--write", action="store_true", help="offers commands that write or train, too")


def main(arguments: Namespace) -> None:
    """Serves until standard input ends."""
    try:
        import mcp.server.lowlevel  # noqa: F401
    except ImportError as error:
        raise ImportError(f"tiryns mcp needs the package mcp: pip install 'tiryns[mcp]' ({error})") from error
    asyncio.run(serve(arguments.write))


async def serve(write: bool) -> None:
    """Answers a client on standard input and output."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    tools = tools_of(write)

    async def list_tools(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools.values()])

    async def call_tool(_: object, call: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer, is_error = await run(words_of_call(call.name, call.arguments or {}, write))
        except ValueError as error:
            answer, is_error = failure_of(error, str(error), call.name.split("_"))._asdict(), True
        text = types.TextContent(type="text", text=json.dumps(answer, ensure_ascii=False))
        document = answer if isinstance(answer, dict) else None
        return types.CallToolResult(content=[text], structured_content=document, is_error=is_error)

    server: Server[object] = Server(
        "tiryns", instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def tools_of(write: bool) -> dict[str, Schema]:
    """Returns the tools by name, with underscores for spaces; tools that write are included only if `write`."""
    names = (name for name in COMMANDS if write or name in READERS)
    tools = [_tool(name, () if write else READERS[name]) for name in names if has_document(name)]
    return {tool["name"]: tool for tool in tools}


def _tool(name: str, exclusions: tuple[str, ...]) -> Schema:
    schema = command_schema(name)
    arguments, properties = schema["arguments"], schema["arguments"]["properties"]
    selection = {key: one for key, one in properties.items() if key not in exclusions}
    reads = name in READERS and not any(one.get("writes") for one in selection.values())
    return {
        "name": name.replace(" ", "_"),
        "description": f"{schema['about']}. Answers with JSON: {json.dumps(schema['prints'])}",
        "inputSchema": {**arguments, "properties": selection},
        "annotations": {"readOnlyHint": reads},
    }


def words_of_call(tool: str, inputs: Mapping[str, object], write: bool) -> list[str]:
    """Returns the words of a call of a tool; raises ValueError for a tool or argument that the server does not offer."""
    name = tool.replace("_", " ")
    if name not in COMMANDS or not has_document(name):
        raise coded("no_such_command", f"there is no tool {tool!r}; there are: {', '.join(tools_of(write))}")
    if not write and (reason := _writes(name, inputs)):
        raise coded("refused", f"this server only reads, but {reason}; start `tiryns mcp --write` for it")
    return words_of(name, inputs)


def _writes(name: str, inputs: Mapping[str, object]) -> str:
    """Returns how a call writes, runs code or reaches outside of the run; empty if it only reads."""
    if name not in READERS:
        return f"`{name}` writes"
    if flag := next((key for key in inputs if key in READERS[name]), None):
        return f"the argument {flag!r} of `{name}` may write"
    words = [str(one) for value in inputs.values() for one in (value if isinstance(value, list) else [value])]
    setting = next((word for word in words if word.lstrip("+~").startswith("hydra") or reaches(word)), None)
    return f"the setting {setting!r} may write or reach further" if setting else ""


async def run(words: list[str]) -> tuple[object, bool]:
    """Runs a command; returns `(document, False)`, or `(failure, True)` if it fails. If cancelled, ends the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *same_modules(), "-m", "tiryns", *words, "--json",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        stdout, stderr = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()
        raise
    if stdout:
        return json.loads(stdout), False
    last = (stderr.decode(errors="replace").splitlines() or [""])[-1]
    try:
        return json.loads(last), True
    except ValueError:
        message = f"`{shlex.join(['tiryns', *words])}` ended with status {process.returncode}: {last}"
        return Failure("unexpected", message, None)._asdict(), True
