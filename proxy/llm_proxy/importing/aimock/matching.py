"""Which requests a fixture answers, as the `match` of a scenario.

Texts of a fixture are searched to the letter.  A condition that a scenario cannot have is never
left out: without it the fixture would answer what it was not written for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import CONTEXT, DATED, SEQUENCE, TURN
from llm_proxy.importing.source import Loss, Unfit
from llm_proxy.scenario.recorded.patterns import literally
from llm_proxy.turns import Json

Fields = dict[str, Json]

_SHOWN: Final = 80
_WILD: Final = re.compile(r"([*?\[])")
_LAST: Final = "$['messages','input','contents'][-1]"
"""The last message of a request, in every dialect that has a list of them."""
_CALL_IDS: Final = f"{_LAST}..['tool_call_id','call_id','tool_use_id','toolUseId']"
_RESULTS: Final = f"{_LAST}..['content','output','text','response']"
_TOOLS: Final = "$['tools','toolConfig']..name"
_FORMATS: Final = "$['response_format','text']..type"


def match(given: Fields) -> tuple[Fields, list[Loss]]:
    """The match, and what it does not say.  Raises `Unfit`."""
    losses: list[Loss] = []
    found: Fields = {}
    conditions: Fields = {}
    turn = _turn(given, losses)
    for name, value in given.items():
        if value is None or name in {"turnIndex", "sequenceIndex"}:
            continue
        if name not in _WAYS:
            raise Unfit(f"its match has {_shown(name)}, which no scenario can ask for")
        said, path = _WAYS[name](value)
        if any(found.get(each, it) != it for each, it in said.items()):
            raise Unfit("it asks for results of tools, and for none: nothing could be both")
        found |= said
        conditions |= path
        losses += _LOSSES.get(name, ())
    found |= {} if turn is None else {"turn": turn}
    return found | ({"json": conditions} if conditions else {}), losses


def _turn(given: Fields, losses: list[Loss]) -> int | None:
    """The turn that a fixture is for; None for one of any turn."""
    turn, sequence = (_index(given, it) for it in ("turnIndex", "sequenceIndex"))
    if turn is not None and sequence is not None:
        raise Unfit("it has both turnIndex and sequenceIndex, and a scenario counts turns alone")
    if turn is not None:
        losses.append(TURN)
        return turn + 1
    if sequence is None:
        return None
    losses.append(SEQUENCE)
    comes_after = given.get("hasToolResult") or "toolCallId" in given
    return sequence + (2 if comes_after or "toolResultContains" in given else 1)


def _index(given: Fields, name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unfit(f"its {name} is no number from 0 on")
    return value


_Said = tuple[Fields, Fields]
"""Fields of the match, and conditions on the request's JSON."""


def _user(value: Json) -> _Said:
    text = _text("userMessage", value)
    return ({"user": literally(text)} if text else {}), {}


def _system(value: Json) -> _Said:
    """One text, or several that must all be there, in any order."""
    several = value if isinstance(value, list) else [value]
    texts = [literally(text) for it in several if (text := _text("systemMessage", it))]
    if len(texts) > 1:
        return {"system": r"(?s)\A" + "".join(f"(?=.*{it})" for it in texts)}, {}
    return ({"system": texts[0]} if texts else {}), {}


def _model(value: Json) -> _Said:
    return {"model": _pattern("model", value)}, {}


def _context(value: Json) -> _Said:
    return {"session": _pattern("context", value)}, {}


def _endpoint(value: Json) -> _Said:
    if value != "chat":
        what = _shown(value) if isinstance(value, str) else "an endpoint that is no text"
        raise Unfit(f"it is for {what}: a scenario answers in conversations alone")
    return {}, {}


def _has_result(value: Json) -> _Said:
    if not isinstance(value, bool):
        raise Unfit("its hasToolResult is neither true nor false")
    return {"tool_results": value}, {}


def _result_of(value: Json) -> _Said:
    return {"tool_results": True}, {_CALL_IDS: {"equals": _text("toolCallId", value)}}


def _result_with(value: Json) -> _Said:
    pattern = literally(_text("toolResultContains", value))
    return {"tool_results": True}, ({_RESULTS: {"matches": pattern}} if pattern else {})


def _tool(value: Json) -> _Said:
    return {}, {_TOOLS: {"equals": _text("toolName", value)}}


def _format(value: Json) -> _Said:
    return {}, {_FORMATS: {"equals": _text("responseFormat", value)}}


def _input(_: Json) -> _Said:
    raise Unfit("it is for embeddings: a scenario answers in conversations alone")


_WAYS: Final[Mapping[str, Callable[[Json], _Said]]] = {
    "userMessage": _user,
    "systemMessage": _system,
    "model": _model,
    "context": _context,
    "endpoint": _endpoint,
    "hasToolResult": _has_result,
    "toolCallId": _result_of,
    "toolResultContains": _result_with,
    "toolName": _tool,
    "responseFormat": _format,
    "inputText": _input,
}
_LOSSES: Final[Mapping[str, tuple[Loss, ...]]] = {"model": (DATED,), "context": (CONTEXT,)}


def _pattern(name: str, value: Json) -> str:
    """A pattern of a shell that fits this text alone."""
    text = _text(name, value)
    if not text:
        raise Unfit(f"its {name} is empty, which no request has")
    return _WILD.sub(r"[\1]", text)


def _text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise Unfit(f"its {name} is no text")
    return value


def _shown(name: str) -> str:
    return printable(name, _SHOWN)
