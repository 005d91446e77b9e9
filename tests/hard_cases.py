"""Scenarios that are long, large, many and deep, and raw requests in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llm_proxy import framing
from llm_proxy.dialects import find_dialect
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Turn
from raw_http import Raw, post
from shipped_scenarios import Played, call, plays, text, thought
from shipped_scenarios import Turn as Spoken

TURNS: Final = 50
CALLS: Final = 64
WORDS: Final = 10_000
MEGABYTE: Final = "".join(f"Größe {number:06}, " for number in range(70_000))
"""More than a million bytes, no two pieces of which are alike."""
THOUGHTS: Final = " ".join(f"thought-{number}" for number in range(WORDS))


def _step(number: int) -> Spoken:
    """Every other turn of the long conversation calls a tool."""
    if number % 2:
        return Spoken((text(f"Step {number}."), call("lookup", step=number)))
    return Spoken((text(f"So that was step {number - 1}."),))


HARD: Final[dict[str, Played]] = {
    "long": plays(*map(_step, range(1, TURNS + 1)), tools={"lookup": {"type": "object"}}),
    "large": plays(text(MEGABYTE)),
    "many": plays(Spoken(tuple(call("lookup", number=item) for item in range(CALLS)))),
    "deep": plays(Spoken((thought(THOUGHTS), text("So be it.")))),
    "cut": plays(Spoken((thought(THOUGHTS), text("So be it."), call("note", text=THOUGHTS)))),
}
"""The scenarios that are hard to tell, and what is heard of them."""


def document() -> str:
    """The same as a scenario file."""
    scenarios = [_scenario(name, it) for name, it in HARD.items()]
    scenarios[-1]["chunks"] = {"by": "words", "size": 100}
    return json.dumps({"scenarios": scenarios})


def _scenario(name: str, played: Played) -> dict[str, Any]:
    turns = [
        {"turn": number, "response": {"kind": "parts", "parts": [*map(_part, turn.parts)]}}
        for number, turn in enumerate(played.turns, 1)
    ]
    return {"id": name, "description": "Hard to tell.", "turns": turns}


def _part(said: tuple[Any, ...]) -> dict[str, Any]:
    kind, first, *rest = said
    if kind == "call":
        return {"part": "tool-call", "tool_name": first, "arguments": rest[0]}
    return {"part": kind, "text": first}


def questions(says: Iterable[str]) -> dict[tuple[str, str, str], Request]:
    """A request for each of these in every dialect, by dialect, mode and what is said."""
    return {
        (dialect, mode, say): question(dialect, [say], mode)
        for say in says
        for mode in ("stream", "whole")
        for dialect in _QUESTIONS
    }


def question(dialect: str, says: Sequence[str], mode: str) -> Request:
    """A request with all that the user said, and an answer of the model between any two."""
    return _QUESTIONS[dialect](says, stream=mode == "stream")


def _messages(says: Sequence[str]) -> list[dict[str, Any]]:
    said = [(("user", say), ("assistant", "Mhm.")) for say in says]
    return [{"role": role, "content": text} for pair in said for role, text in pair][:-1]


def _chat(says: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/chat/completions", messages=_messages(says), stream=stream)


def _response(says: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/responses", input=_messages(says), stream=stream)


def _message(says: Sequence[str], *, stream: bool) -> Request:
    return _request("/v1/messages", messages=_messages(says), stream=stream, max_tokens=9)


def _gemini(says: Sequence[str], *, stream: bool) -> Request:
    verb = "streamGenerateContent" if stream else "generateContent"
    contents = [
        {
            "role": message["role"].replace("assistant", "model"),
            "parts": [{"text": message["content"]}],
        }
        for message in _messages(says)
    ]
    return _request(f"/v1beta/models/m:{verb}", "alt=sse" * stream, contents=contents)


def _ollama(says: Sequence[str], *, stream: bool) -> Request:
    return _request("/api/chat", messages=_messages(says), stream=stream)


_QUESTIONS: Final = {
    "openai-chat": _chat,
    "openai-responses": _response,
    "anthropic": _message,
    "gemini": _gemini,
    "ollama": _ollama,
}


def _request(path: str, query: str = "", **body: Any) -> Request:
    return Request("POST", path, query, (), json.dumps({"model": "m", **body}).encode())


def sent(request: Request, *headers: str) -> bytes:
    """A request as it goes over the wire."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    return post(target, request.body, "Content-Type: application/json", *headers)


def turns(request: Request, raw: Raw) -> tuple[Turn, ...]:
    """What was said in answer to a request."""
    dialect = find_dialect(request)
    head = ResponseHead(raw.status, raw.reason, tuple(raw.headers), "chunked")
    codec = dialect.codec(request, head)
    return dialect.decode(DialectResponse(head, codec, framing.split_messages(codec, raw.body)))


def same_head(raw: Raw) -> Mapping[str, str]:
    """The headers, but for the date."""
    return {name: value for name, value in raw.headers if name.lower() != "date"}
