"""Scenarios with long, large, many or deep contents, and raw requests in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llm_proxy import framing
from llm_proxy.dialects import dialect_of_request
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Turn
from raw_http import RawResponse, build_http_request
from shipped_scenarios import ExpectedTurn as ScenarioTurn
from shipped_scenarios import PlayedScenario, call_part, played_scenario, reasoning_part, text_part

TURNS: Final = 50
CALLS: Final = 64
WORDS: Final = 10_000
MEGABYTE: Final = "".join(f"Größe {number:06}, " for number in range(70_000))
"""More than a million bytes, no two pieces of which are equal."""
THOUGHTS: Final = " ".join(f"thought-{number}" for number in range(WORDS))


def _step(number: int) -> ScenarioTurn:
    """A turn of the long conversation; every other one calls a tool."""
    if number % 2:
        return ScenarioTurn((text_part(f"Step {number}."), call_part("lookup", step=number)))
    return ScenarioTurn((text_part(f"So that was step {number - 1}."),))


HARD_SCENARIOS: Final[dict[str, PlayedScenario]] = {
    "long": played_scenario(*map(_step, range(1, TURNS + 1)), tools={"lookup": {"type": "object"}}),
    "large": played_scenario(text_part(MEGABYTE)),
    "many": played_scenario(
        ScenarioTurn(tuple(call_part("lookup", number=number) for number in range(CALLS)))
    ),
    "deep": played_scenario(ScenarioTurn((reasoning_part(THOUGHTS), text_part("So be it.")))),
    "cut": played_scenario(
        ScenarioTurn(
            (reasoning_part(THOUGHTS), text_part("So be it."), call_part("note", text=THOUGHTS))
        )
    ),
}
"""The scenarios by name, and the turns that clients must receive."""


def scenario_document() -> str:
    """The same scenarios as a scenario file."""
    scenarios = [_scenario(name, played) for name, played in HARD_SCENARIOS.items()]
    scenarios[-1]["chunks"] = {"by": "words", "size": 100}
    return json.dumps({"scenarios": scenarios})


def _scenario(name: str, played: PlayedScenario) -> dict[str, Any]:
    turns = [
        {"turn": number, "response": {"kind": "parts", "parts": [*map(_part, turn.parts)]}}
        for number, turn in enumerate(played.turns, 1)
    ]
    return {"id": name, "description": "Hard to tell.", "turns": turns}


def _part(part: tuple[Any, ...]) -> dict[str, Any]:
    kind, first, *rest = part
    if kind == "call":
        return {"part": "tool-call", "tool_name": first, "arguments": rest[0]}
    return {"part": kind, "text": first}


def build_requests(user_texts: Iterable[str]) -> dict[tuple[str, str, str], Request]:
    """A request with each of these texts, by dialect, mode and text."""
    return {
        (dialect, mode, user_text): build_request(dialect, [user_text], mode)
        for user_text in user_texts
        for mode in ("stream", "whole")
        for dialect in _REQUEST_BUILDERS
    }


def build_request(dialect: str, user_texts: Sequence[str], mode: str) -> Request:
    """A request with these user messages, and an assistant message between any two."""
    return _REQUEST_BUILDERS[dialect](user_texts, stream=mode == "stream")


def _messages(user_texts: Sequence[str]) -> list[dict[str, Any]]:
    pairs = [(("user", user_text), ("assistant", "Mhm.")) for user_text in user_texts]
    return [{"role": role, "content": text} for pair in pairs for role, text in pair][:-1]


def _chat_request(user_texts: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/chat/completions", messages=_messages(user_texts), stream=stream)


def _responses_request(user_texts: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/responses", input=_messages(user_texts), stream=stream)


def _anthropic_request(user_texts: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/messages", messages=_messages(user_texts), stream=stream, max_tokens=9)


def _gemini_request(user_texts: Sequence[str], *, stream: bool) -> Request:
    operation = "streamGenerateContent" if stream else "generateContent"
    contents = [
        {
            "role": message["role"].replace("assistant", "model"),
            "parts": [{"text": message["content"]}],
        }
        for message in _messages(user_texts)
    ]
    return _request(f"/v1beta/models/m:{operation}", "alt=sse" * stream, contents=contents)


def _ollama_request(user_texts: Sequence[str], *, stream: bool) -> Request:
    return _request("/api/chat", messages=_messages(user_texts), stream=stream)


_REQUEST_BUILDERS: Final = {
    "openai-chat": _chat_request,
    "openai-responses": _responses_request,
    "anthropic": _anthropic_request,
    "gemini": _gemini_request,
    "ollama": _ollama_request,
}


def _request(path: str, query: str = "", **body: Any) -> Request:
    return Request("POST", path, query, (), json.dumps({"model": "m", **body}).encode())


def request_bytes(request: Request, *headers: str) -> bytes:
    """The raw bytes of a request."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    return build_http_request(target, request.body, "Content-Type: application/json", *headers)


def decode_turns(request: Request, raw: RawResponse) -> tuple[Turn, ...]:
    """The turns that a raw response to a request decodes to."""
    dialect = dialect_of_request(request)
    head = ResponseHead(raw.status, raw.reason, tuple(raw.headers), "chunked")
    codec = dialect.codec_name(request, head)
    return dialect.decode_response(
        DialectResponse(head, codec, framing.split_messages(codec, raw.body))
    )


def headers_without_date(raw: RawResponse) -> Mapping[str, str]:
    """The headers, without `Date`."""
    return {name: value for name, value in raw.headers if name.lower() != "date"}
