"""Small examples of provider responses, and scripts for `stub_upstream.upstream` to send them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from stub_upstream import Connection, Script, fixed_length

Json = dict[str, Any]


def sse(documents: Iterable[Json], *, named: bool = False, done: bool = False) -> bytes:
    """Encode a body of events as providers do; `named` events take the name from their `type`."""
    events = [
        (f"event: {item['type']}\n" if named else "") + f"data: {compact_json(item)}\n\n"
        for item in documents
    ]
    return "".join([*events, "data: [DONE]\n\n" if done else ""]).encode()


def ndjson(*documents: Json) -> bytes:
    """Encode documents as one line each."""
    return "".join(f"{compact_json(item)}\n" for item in documents).encode()


def compact_json(json_response: Json) -> str:
    return json.dumps(json_response, ensure_ascii=False, separators=(",", ":"))


def split_bytes(body: bytes, size: int = 41) -> list[bytes]:
    """Split a body into pieces of this size: inside events and inside characters."""
    return [body[begin : begin + size] for begin in range(0, len(body), size)]


def chat_chunk(finish: str | None = None, **delta: Any) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    base_fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000}
    return base_fields | {"model": "gpt-5", "choices": [choice]}


def chat_stream(*words: str) -> bytes:
    chunks = [
        chat_chunk(role="assistant", content=""),
        *(chat_chunk(content=word) for word in words),
    ]
    return sse([*chunks, chat_chunk("stop")], done=True)


def tool_stream() -> bytes:
    def call_chunk(index: int, **fields: Any) -> Json:
        return chat_chunk(tool_calls=[{"index": index} | fields])

    def call_start(index: int, id_: str) -> Json:
        function = {"name": "get_weather", "arguments": ""}
        return call_chunk(index, id=id_, type="function", function=function)

    return sse(
        [
            chat_chunk(role="assistant", content=None),
            call_start(0, "call_a"),
            call_chunk(0, function={"arguments": '{"city":'}),
            call_chunk(0, function={"arguments": '"Zürich"}'}),
            call_start(1, "call_b"),
            call_chunk(1, function={"arguments": '{"city":"Oslo"}'}),
            chat_chunk("tool_calls"),
        ],
        done=True,
    )


CHAT_COMPLETION: Json = {
    "id": "chatcmpl-5", "object": "chat.completion", "created": 1700000000, "model": "gpt-5",
    "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None,
                 "message": {"role": "assistant", "content": "Grüße 🌊", "refusal": None}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}  # fmt: skip

USAGE: Json = {"input_tokens": 9, "output_tokens": 2}
MESSAGE: Json = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
    "content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
COMPLETE_MESSAGE = MESSAGE | {
    "content": [{"type": "text", "text": "Grüße 🌊"}], "stop_reason": "end_turn",
}  # fmt: skip


def message_stream() -> bytes:
    def block_start(index: int, block: Json) -> Json:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def block_delta(index: int, **delta: str) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    tool = {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {}}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": MESSAGE},
        block_start(0, {"type": "text", "text": ""}),
        {"type": "ping"},
        block_delta(0, type="text_delta", text="Grüße "),
        block_delta(0, type="text_delta", text="🌊"),
        {"type": "content_block_stop", "index": 0},
        block_start(1, tool),
        block_delta(1, type="input_json_delta", partial_json='{"city": '),
        block_delta(1, type="input_json_delta", partial_json='"Zürich"}'),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": stop, "usage": USAGE},
        {"type": "message_stop"},
    ]
    return sse(events, named=True)


def response_stream() -> bytes:
    text = {"type": "output_text", "text": "Grüße 🌊", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    response = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5"}
    position = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Json] = [
        {"type": "response.created", "response": response | {"output": []}},
        {"type": "response.output_text.delta", "delta": "Grüße "} | position,
        {"type": "response.output_text.delta", "delta": "🌊"} | position,
        {"type": "response.completed", "response": response | {"output": [item]}},
    ]
    return sse(
        [{"sequence_number": number} | event for number, event in enumerate(events)], named=True
    )


def ollama_line(*, done: bool = False, **fields: Any) -> Json:
    base_fields: Json = {"model": "qwen3", "created_at": "2026-11-21T10:00:00.000000001Z"}
    final_fields: Json = {"done_reason": "stop", "eval_count": 2} if done else {}
    return base_fields | fields | {"done": done} | final_fields


def assistant_message(content: str, **message_fields: Any) -> Json:
    return {"role": "assistant", "content": content} | message_fields


TOOL_CALL = {"function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}
OLLAMA_LINES = ndjson(
    ollama_line(message=assistant_message("Grüße ")),
    ollama_line(message=assistant_message("🌊", tool_calls=[TOOL_CALL])),
    ollama_line(message=assistant_message(""), done=True),
)


def ndjson_stream(body: bytes) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type="application/x-ndjson")
        for piece in split_bytes(body):
            await connection.chunk(piece)
        await connection.finish()

    return script


def json_response(body: Json) -> Script:
    return fixed_length(compact_json(body).encode())
