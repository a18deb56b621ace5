"""MCP round trips: the SDK's own client, LangChain's adapter, LlamaIndex's; stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.serving.conftest import TOKENS, command, embed, failed
from tests.suites.manual_time import PATIENCE

from phasegraph.apps.server.agents import mcp_server
from phasegraph.apps.server.following import Served
from phasegraph.apps.server.view import UNLIKELY


async def told(session: ClientSession) -> tuple[set[str], dict, dict, list[str]]:
    await session.initialize()
    tools = (await session.list_tools()).tools
    found = await session.call_tool("search", {"query": "Who met the keeper in Oslo?", "k": 3})
    given = await session.call_tool("passages", {"ids": ["red-1", "blue-1"]})
    wrong = [
        await session.call_tool(name, arguments)
        for name, arguments in (
            ("search", {"query": " "}),
            ("search", {"query": "x", "k": 0}),
            ("passages", {"ids": []}),
        )
    ]
    assert all(failed(one) for one in wrong)
    texts = [one.content[0].text for one in wrong]
    return {one.name for one in tools}, json.loads(found.content[0].text), json.loads(given.content[0].text), texts


def check(names, found, given, wrong, *, team):
    assert names == {"search", "explain", "passages"}
    assert found["passages"][0]["id"] == f"{team}-1"
    assert {one["id"].partition("-")[0] for one in found["passages"]} == {team}
    other = "blue" if team == "red" else "red"
    assert [one["id"] for one in given["passages"]] == [f"{team}-1"]
    assert given["missing"] == [f"{other}-1"]
    assert [word for word, text in zip(("query", "k", "ids"), wrong, strict=True) if word in text] == [
        "query",
        "k",
        "ids",
    ]


@pytest.mark.parametrize("model", [embed, None])
def test_agents_refuse_by_the_confidence_only_if_it_knows_vectors(folder, model):
    view = Served(folder, model, filters={"": None}).views[""]
    said = mcp_server(view).instructions
    assert (f"below {UNLIKELY}, say that the answer is unknown" in said) == (model is not None)
    assert ("do not refuse because the confidence is low" in said) == (model is None)


@pytest.mark.parametrize("guide", ["serving", "inspector"])
def test_the_guides_name_the_same_confidence(guide):
    page = Path(__file__).parents[2] / "docs" / "guide" / f"{guide}.md"
    assert f"below {UNLIKELY}".replace(" 0.", " .") in page.read_text(encoding="utf-8")


def test_over_stdio(folder):
    async def run():
        program, *arguments = command(str(folder), "--filter", "team=red")
        parameters = StdioServerParameters(command=program, args=arguments)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            return await told(session)

    check(*asyncio.run(run()), team="red")


def test_agents_read_about_the_passages_and_the_confidence_in_the_description_of_search(folder):
    """Many programs do not pass the instructions of a server on to the model."""

    async def tools(view, about=""):
        return {one.name: one for one in await mcp_server(view, about).list_tools()}

    view = Served(folder, embed, filters={"": None}).views[""]
    found = asyncio.run(tools(view, "Agents and their keepers"))
    assert all("The collection: Agents and their keepers." in one.description for one in found.values())
    assert f"below {UNLIKELY}, say that the answer is unknown" in found["search"].description
    assert "if degraded is true" in found["search"].description
    assert "The collection:" not in asyncio.run(tools(view))["search"].description
    hints = [one.annotations.model_dump(by_alias=True) for one in found.values()]
    assert {(one["readOnlyHint"], one["openWorldHint"]) for one in hints} == {(True, False)}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search", {"query": "x", "k": None}, "k must be an integer; got None"),
        ("search", {"query": "x", "k": 2.5}, "k must be an integer; got 2.5"),
        ("search", {"query": ["x"]}, "query must be text; got list"),
        ("search", {"query": "x", "k": 101}, "k must be at most 100; got 101"),
        ("search", {}, "the field 'query' is missing: add it to the request"),
        ("passages", {"ids": "red-1"}, "ids must be a list, not a string; got 'red-1'"),
    ],
)
def test_a_wrong_argument_of_a_tool_is_refused_as_over_http(folder, name, arguments, said):
    server = mcp_server(Served(folder, filters={"": None}).views[""])
    with pytest.raises(Exception, match=f"^{re.escape(said)}$"):
        asyncio.run(server.call_tool(name, arguments))


def test_any_text_about_the_passages_can_be_sent(folder):
    server = mcp_server(Served(folder, filters={"": None}).views[""], "Machines\n of hall\x1b[2J \udcff.")
    (tool, *_) = asyncio.run(server.list_tools())
    assert r"The collection: Machines of hall\x1b[2J \udcff. The confidence" in tool.description
    assert tool.model_dump_json()


def test_what_a_model_prints_is_no_message_of_the_server(folder):
    asks = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    calls = {"name": "search", "arguments": {"query": "Oslo"}}
    sent = [
        {"id": 1, "method": "initialize", "params": asks},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": calls},
    ]
    with subprocess.Popen(
        command(str(folder), "--embedder", "tests.serving.loud:embed"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in sent))
        process.stdin.flush()
        said = [process.stdout.readline() for _ in range(2)]
        rest, errors = process.communicate(timeout=PATIENCE)
    assert [json.loads(one)["id"] for one in [*said, *rest.splitlines()]] == [1, 2]
    assert "a model was loaded" in errors
    assert "a library wrote to the descriptor" in errors
    assert "a question was embedded" in errors


def test_standard_error_names_the_transport(folder):
    done = subprocess.run(
        command(str(folder)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0
    assert done.stdout == ""
    assert "stdio: MCP on standard input and output" in done.stderr


@pytest.mark.parametrize("team", list(TOKENS))
def test_over_streamable_http_each_tenant_sees_its_own(served, team):
    async def run():
        async with (
            httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKENS[team]}"}) as client,
            streamable_http_client(f"{served}/mcp", http_client=client) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            return await told(session)

    check(*asyncio.run(run()), team=team)


def test_without_a_token_there_is_no_session(served):
    async def run():
        async with streamable_http_client(f"{served}/mcp") as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(asyncio.wait_for(run(), 20))
    # Version 2 of the SDK names no status.
    assert caught.group_contains(Exception, match="401|Server returned an error response")
    assert httpx.post(f"{served}/mcp", json={}).status_code == 401


@pytest.mark.parametrize("team", list(TOKENS))
def test_through_langchains_adapter(served, team):
    MultiServerMCPClient = pytest.importorskip("langchain_mcp_adapters.client").MultiServerMCPClient

    async def run():
        where = {"url": f"{served}/mcp", "transport": "http", "headers": {"Authorization": f"Bearer {TOKENS[team]}"}}
        tools = {one.name: one for one in await MultiServerMCPClient({"phasegraph": where}).get_tools()}
        return set(tools), await tools["search"].ainvoke({"query": "Who met the keeper in Oslo?", "k": 2})

    names, answer = asyncio.run(run())
    assert names == {"search", "explain", "passages"}
    assert f"{team}-1" in str(answer)
    assert ("bluesecret" if team == "red" else "redsecret") not in str(answer)


@pytest.mark.parametrize("team", list(TOKENS))
def test_through_llamaindexs_adapter(served, team):
    mcp = pytest.importorskip("llama_index.tools.mcp")

    async def run():
        client = mcp.BasicMCPClient(f"{served}/mcp", headers={"Authorization": f"Bearer {TOKENS[team]}"})
        tools = {one.metadata.name: one for one in await mcp.McpToolSpec(client).to_tool_list_async()}
        return set(tools), await tools["search"].acall(query="Who met the keeper in Oslo?", k=2)

    names, answer = asyncio.run(run())
    assert names == {"search", "explain", "passages"}
    assert f"{team}-1" in answer.content
    assert ("bluesecret" if team == "red" else "redsecret") not in answer.content
