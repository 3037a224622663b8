"""Lists and calls every tool of `fleet mcp` and of `/mcp` with the official Python SDK, and holds each result to its schema.

FLEET is the binary, FLEET_PROJECT a folder with a fleet, FLEET_URL and FLEET_TOKEN a server of another one.
"""

import asyncio
import os
import sys

import httpx2
import jsonschema
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

# One call after another, as an agent works. A value in braces is taken from an answer before.
CALLS = [
    ("fleet_status", {}),
    ("fleet_mission", {"action": "create", "title": "Round trip", "sorties": ["One", "Two"]}),
    ("fleet_mission", {"action": "list"}),
    ("fleet_mission", {"action": "start"}),
    ("fleet_agents", {"action": "register", "name": "tester"}),
    ("fleet_agents", {"action": "list"}),
    ("fleet_sortie", {"action": "claim", "agent": "tester"}),
    ("fleet_sortie", {"action": "update", "sortie": "{sortie}", "text": "half", "next": "rest", "agent": "tester"}),
    ("fleet_sortie", {"action": "list"}),
    ("fleet_heartbeat", {"step": "testing", "agent": "tester"}),
    ("fleet_lock", {"action": "acquire", "paths": ["src/a.rs"], "agent": "tester"}),
    ("fleet_lock", {"action": "check", "paths": ["src/a.rs"]}),
    ("fleet_lock", {"action": "release", "agent": "tester"}),
    ("fleet_note", {"kind": "decision", "text": "by hand", "agent": "tester"}),
    ("fleet_note", {"action": "list"}),
    ("fleet_mail", {"action": "send", "to": ["tester"], "subject": "hello", "body": "you", "agent": "tester"}),
    ("fleet_mail", {"action": "inbox", "agent": "tester"}),
    ("fleet_context", {"agent": "tester"}),
    ("fleet_context", {"ack": "{nonce}", "agent": "tester"}),
    ("fleet_checkpoint", {"note": "half way", "agent": "tester"}),
    ("fleet_checkpoints", {"action": "list"}),
    ("fleet_checkpoints", {"action": "show", "checkpoint": "@latest"}),
    ("fleet_effect", {"action": "begin", "key": "deploy", "agent": "tester"}),
    ("fleet_effect", {"action": "done", "key": "deploy", "agent": "tester"}),
    ("fleet_effect", {"action": "list"}),
    ("fleet_resume", {"action": "detect", "agent": "tester"}),
    ("fleet_resume", {"action": "preview", "agent": "tester"}),
    ("fleet_events", {}),
    ("fleet_replay", {}),
    ("fleet_sortie", {"action": "complete", "sortie": "{sortie}", "agent": "tester"}),
]

CORE = 8
FULL = 15


async def fly(client, how):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(tools) == FULL, f"{how}: {sorted(tools)}"
    known = {}
    called = set()
    for name, given in CALLS:
        arguments = {key: known[value[1:-1]] if str(value)[:1] == "{" else value for key, value in given.items()}
        # The SDK checks structured content by itself; it is checked here as well, whatever it does.
        result = await client.call_tool(name, arguments)
        told = result.content[0].text
        assert not result.is_error, f"{how}: {name} {arguments}: {told}"
        assert len(told.splitlines()) <= 10, f"{how}: {name}: {told}"
        content = result.structured_content
        jsonschema.validate(content, tools[name].output_schema)
        jsonschema.validate(arguments, tools[name].input_schema)
        if name == "fleet_sortie" and arguments["action"] == "claim":
            known["sortie"] = content["sortie"]["id"]
        if name == "fleet_context" and "nonce" in content:
            known["nonce"] = content["nonce"]
        called.add(name)
    assert called == set(tools), f"{how}: not called: {set(tools) - called}"
    refused = await client.call_tool("fleet_sortie", {"action": "show", "sortie": "srt-ffff"})
    assert refused.is_error and "next: call" in refused.content[0].text, refused
    assert (await client.list_resources()).resources[0].uri == "fleet://status"
    for uri in ["fleet://status", "fleet://checkpoints/@latest/briefing", "fleet://agents/tester/inbox"]:
        assert (await client.read_resource(uri)).contents[0].text
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert prompts == ["recover", "checkpoint", "handoff", "standup"], prompts
    for name, arguments in [("recover", {"agent": "tester"}), ("handoff", {"agent": "tester"}), ("standup", {})]:
        assert (await client.get_prompt(name, arguments)).messages
    print(f"{how}: {len(CALLS)} calls of {len(called)} tools, resources and prompts")


def over_stdio(project, *arguments):
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    words = ["-C", project, "mcp", *arguments]
    return StdioServerParameters(command=os.environ["FLEET"], args=words, env=environment)


async def main():
    projects = os.environ["FLEET_PROJECTS"].split(":")
    async with Client(over_stdio(projects[0])) as client:
        tools = (await client.list_tools()).tools
        assert len(tools) == CORE, [tool.name for tool in tools]
    for mode, project in zip(["auto", "legacy"], projects):
        async with Client(over_stdio(project, "--tools", "full"), mode=mode) as client:
            await fly(client, f"stdio, {mode}")
    headers = {"Authorization": f"Bearer {os.environ['FLEET_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(os.environ["FLEET_URL"] + "/mcp", http_client=http)
        async with Client(transport) as client:
            await fly(client, "HTTP, auto")


if sys.version_info < (3, 10):
    sys.exit("Python 3.10 or newer is needed")
asyncio.run(main())
