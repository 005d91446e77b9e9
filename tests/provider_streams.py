"""What providers stream, as small literals, and scripts for `stub.upstream` that stream it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from stub_upstream import Connection, Script, whole

Json = dict[str, Any]


def sse(documents: Iterable[Json], *, named: bool = False, done: bool = False) -> bytes:
    """A body of events, as the providers write them; named ones after their `type`."""
    events = [
        (f"event: {item['type']}\n" if named else "") + f"data: {compact(item)}\n\n"
        for item in documents
    ]
    return "".join([*events, "data: [DONE]\n\n" if done else ""]).encode()


def ndjson(*documents: Json) -> bytes:
    """A body of lines."""
    return "".join(f"{compact(item)}\n" for item in documents).encode()


def compact(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def pieces(body: bytes, size: int = 41) -> list[bytes]:
    """The body as a network delivers it: cut inside events and inside characters."""
    return [body[begin : begin + size] for begin in range(0, len(body), size)]


def chat_chunk(finish: str | None = None, **delta: Any) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    fixed = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000}
    return fixed | {"model": "gpt-5", "choices": [choice]}


def chat_stream(*words: str) -> bytes:
    chunks = [
        chat_chunk(role="assistant", content=""),
        *(chat_chunk(content=word) for word in words),
    ]
    return sse([*chunks, chat_chunk("stop")], done=True)


def tool_stream() -> bytes:
    def call(index: int, **fields: Any) -> Json:
        return chat_chunk(tool_calls=[{"index": index} | fields])

    def begun(index: int, id_: str) -> Json:
        function = {"name": "get_weather", "arguments": ""}
        return call(index, id=id_, type="function", function=function)

    return sse(
        [
            chat_chunk(role="assistant", content=None),
            begun(0, "call_a"),
            call(0, function={"arguments": '{"city":'}),
            call(0, function={"arguments": '"Zürich"}'}),
            begun(1, "call_b"),
            call(1, function={"arguments": '{"city":"Oslo"}'}),
            chat_chunk("tool_calls"),
        ],
        done=True,
    )


CHAT_WHOLE: Json = {
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
MESSAGE_WHOLE = MESSAGE | {
    "content": [{"type": "text", "text": "Grüße 🌊"}], "stop_reason": "end_turn",
}  # fmt: skip


def message_stream() -> bytes:
    def begun(index: int, block: Json) -> Json:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def more(index: int, **delta: str) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    tool = {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {}}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": MESSAGE},
        begun(0, {"type": "text", "text": ""}),
        {"type": "ping"},
        more(0, type="text_delta", text="Grüße "),
        more(0, type="text_delta", text="🌊"),
        {"type": "content_block_stop", "index": 0},
        begun(1, tool),
        more(1, type="input_json_delta", partial_json='{"city": '),
        more(1, type="input_json_delta", partial_json='"Zürich"}'),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": stop, "usage": USAGE},
        {"type": "message_stop"},
    ]
    return sse(events, named=True)


def response_stream() -> bytes:
    text = {"type": "output_text", "text": "Grüße 🌊", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    response = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5"}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Json] = [
        {"type": "response.created", "response": response | {"output": []}},
        {"type": "response.output_text.delta", "delta": "Grüße "} | place,
        {"type": "response.output_text.delta", "delta": "🌊"} | place,
        {"type": "response.completed", "response": response | {"output": [item]}},
    ]
    return sse(
        [{"sequence_number": number} | event for number, event in enumerate(events)], named=True
    )


def ollama_line(*, done: bool = False, **fields: Any) -> Json:
    fixed: Json = {"model": "qwen3", "created_at": "2026-11-21T10:00:00.000000001Z"}
    ended: Json = {"done_reason": "stop", "eval_count": 2} if done else {}
    return fixed | fields | {"done": done} | ended


def said(content: str, **more: Any) -> Json:
    return {"role": "assistant", "content": content} | more


TOOL = {"function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}
OLLAMA_LINES = ndjson(
    ollama_line(message=said("Grüße ")),
    ollama_line(message=said("🌊", tool_calls=[TOOL])),
    ollama_line(message=said(""), done=True),
)


def ndjson_stream(body: bytes) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type="application/x-ndjson")
        for piece in pieces(body):
            await connection.chunk(piece)
        await connection.finish()

    return script


def document(body: Json) -> Script:
    return whole(compact(body).encode())
