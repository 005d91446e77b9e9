"""A test that a model runs is replayed with today's port, ids and times, and with nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from in_process_proxy import proxy
from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import DialectResponse, request_dialects
from llm_proxy.exchange import Request, header_value
from llm_proxy.framing import split_messages
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.turns import Text, ToolCall, ToolResult, Turn
from raw_http import RawResponse, build_http_request, send_request
from stub_upstream import Connection, upstream

RULES: Final = parse_rules(["llm-pytest"])
MODELS: Final = {"bedrock": "us.anthropic.claude-sonnet-5"}
DIALECTS: Final = {
    name: dialect for name, dialect in request_dialects().items() if name != "openai-completions"
}
each_dialect = each_row("name", DIALECTS)


@dataclass(frozen=True)
class Run:
    """What differs in each run of a test."""

    port: int
    ulid: str
    uuid: str
    object_id: str
    time: str
    elapsed_ms: float
    folder: str

    @property
    def url(self) -> str:
        """The order that the model asks for after it has seen its id."""
        return f"http://127.0.0.1:{self.port}/orders/{self.ulid}?by=ord_{self.object_id}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the model's later calls."""
        return {"url": self.url, "port": self.port, "timeout": 43121}

    def result(self, **changes: Any) -> str:
        """The result of the first tool call."""
        values = {
            "status": 200,
            "port": self.port,
            "elapsed_ms": self.elapsed_ms,
            "url": f"http://127.0.0.1:{self.port}/orders",
            "body": {
                "id": self.ulid,
                "customer": self.uuid,
                "reference": f"ord_{self.object_id}",
                "created_at": self.time,
                "file": f"{self.folder}/orders.json",
                "count": 3,
                "note": "lamp",
            },
        } | changes
        return json.dumps({key: value for key, value in values.items() if value is not None})


FIRST: Final = Run(
    port=43121,
    ulid="01KAZ8Q0Y4T7Z9W1V3X5B6C8D0",
    uuid="6df1cf23-dcea-4413-9116-c66b27ebf5c8",
    object_id="6921e5b1c0a8f2d3b4e5a697",
    time="2026-11-22T13:05:09.123Z",
    elapsed_ms=12.5,
    folder="/var/folders/ab/x1/T",
)
SECOND: Final = Run(
    port=8080,
    ulid="01KBDM3N5P7Q9R1S3T5V7W9X1Y",
    uuid="0198c1f0-7c1d-7f3e-8a5b-0c1d2e3f4a5b",
    object_id="6930aa01f2d3b4e5a697c0a8",
    time="2026-12-24T07:00:00Z",
    elapsed_ms=340,
    folder="/var/folders/zz/k3/T",
)


def request_of(name: str, run: Run, result: str) -> Request:
    """The model's second request of a run, in a dialect."""
    conversation = Conversation(
        (
            RequestMessage("user", (Text(f"Test http://127.0.0.1:{run.port} on 2026-05-05."),)),
            RequestMessage(
                "assistant",
                (ToolCall("call_1", "http_get", json.dumps({"port": run.port})),),
            ),
            RequestMessage("tool", (ToolResult("call_1", result, "http_get"),)),
        ),
        system="Carry out the test.",
        tools=(ToolDefinition("http_get", "Sends GET.", {"type": "object"}),),
        model=MODELS.get(name, "m"),
    )
    return DIALECTS[name].encode_request(conversation)


def raw_request(request: Request) -> bytes:
    path = f"{request.path}?{request.query}" if request.query else request.path
    headers = (f"{name}: {value}" for name, value in request.headers)
    return build_http_request(path, request.body, *headers)


def encode_calls(name: str, run: Run) -> DialectResponse:
    """A response that calls a tool with the id again and again.

    The arguments of the nth call are streamed in two pieces, the first of n characters.
    """
    arguments = json.dumps(run.arguments)
    numbers = count(1)

    def split(text: str) -> list[str]:
        begin = next(numbers) if text == arguments else len(text)
        return [piece for piece in (text[:begin], text[begin:]) if piece]

    calls = tuple(ToolCall(f"call_{n}", "http_get", arguments) for n in range(2, len(arguments)))
    request = request_of(name, run, run.result())
    context = replace(ENCODE_CONTEXT, split_text=split)
    return DIALECTS[name].encode_response(request, [Turn(calls)], context)


async def record(folder: Path, name: str) -> DialectResponse:
    """Record the first run's second request with a response; returns the response."""
    response = encode_calls(name, FIRST)

    async def serve(connection: Connection) -> None:
        content_type = header_value(response.head.headers, "content-type") or ""
        await connection.begin(content_type=content_type)
        for message in response.framed_messages:
            await connection.chunk(message)
        await connection.finish()

    request = raw_request(request_of(name, FIRST, FIRST.result()))
    async with (
        upstream(serve) as stub,
        proxy("record", folder, stub.url, match_rules=RULES) as recording,
    ):
        assert (await send_request(recording.url, request)).status == 200
    return response


async def replay(folder: Path, *requests: Request) -> list[RawResponse]:
    async with proxy("replay", folder, match_rules=RULES, pace=InstantPace()) as replaying:
        return [await send_request(replaying.url, raw_request(item)) for item in requests]


@each_dialect
async def test_a_streamed_call_has_todays_port_and_ids_wherever_it_is_split(
    tmp_path: Path, name: str
) -> None:
    response = await record(tmp_path / name, name)

    [raw] = await replay(tmp_path / name, request_of(name, SECOND, SECOND.result()))

    messages = tuple(split_messages(response.codec_name, raw.body))
    [turn] = DIALECTS[name].decode_response(replace(response, framed_messages=messages))
    arguments = [json.loads(part.arguments) for part in turn.parts if isinstance(part, ToolCall)]
    assert arguments == [SECOND.arguments] * (len(json.dumps(FIRST.arguments)) - 2)


CHANGES: Final[dict[str, dict[str, Any]]] = {
    "another status": {"status": 500},
    "no status": {"status": None},
    "another number": {"body": {**json.loads(SECOND.result())["body"], "count": 4}},
    "another text": {"body": {**json.loads(SECOND.result())["body"], "note": "desk"}},
    "another id in one place": {
        "body": {**json.loads(SECOND.result())["body"], "customer": SECOND.ulid}
    },
    "no id": {"body": {**json.loads(SECOND.result())["body"], "id": ""}},
    "no time": {"body": {**json.loads(SECOND.result())["body"], "created_at": None}},
    "another port": {"url": "http://127.0.0.1:8081/orders"},
    "another duration": {"elapsed_ms": "soon"},
}
RESULT_PATHS: Final = {
    "anthropic": "messages[2].content[0].content",
    "bedrock": "messages[2].content[0].toolResult.content",
    "gemini": "contents[2].parts[0].functionResponse.response",
    "gemini-interactions": "input[2].result",
    "openai-responses": "input[2].output",
}
"""The paths of the result; in the others it is that of a message."""


@each_dialect
async def test_any_other_change_of_a_tool_result_is_a_miss_that_names_its_path(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    await record(folder, name)

    played = await replay(
        folder,
        *(request_of(name, SECOND, SECOND.result(**change)) for change in CHANGES.values()),
    )

    for what, raw in zip(CHANGES, played, strict=True):
        assert raw.status == 424, what
        path = RESULT_PATHS.get(name, "content")
        assert path in raw.body.decode(), (what, raw.body.decode())
