"""Converts a fixture's request match into a scenario's `match`.

Texts of a fixture are searched to the letter.  A condition that a scenario cannot have is never
left out: without it the fixture would answer what it was not written for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import CONTEXT, DATED, SEQUENCE, TURN
from llm_proxy.importing.source import ImportLoss, NotImportable
from llm_proxy.scenario.recorded.patterns import literal_pattern
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


def scenario_match(fields: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The match, and what it does not say.  Raises `NotImportable`."""
    losses: list[ImportLoss] = []
    found: Fields = {}
    conditions: Fields = {}
    turn = _match_turn(fields, losses)
    for name, value in fields.items():
        if value is None or name in {"turnIndex", "sequenceIndex"}:
            continue
        if name not in _WAYS:
            raise NotImportable(
                f"its match has {_field_label(name)}, which no scenario can ask for"
            )
        document, path = _WAYS[name](value)
        if any(found.get(text, content) != content for text, content in document.items()):
            raise NotImportable("it asks for results of tools, and for none: nothing could be both")
        found |= document
        conditions |= path
        losses += _LOSSES.get(name, ())
    found |= {} if turn is None else {"turn": turn}
    return found | ({"json": conditions} if conditions else {}), losses


def _match_turn(fields: Fields, losses: list[ImportLoss]) -> int | None:
    """The turn that a fixture is for; None for one of any turn."""
    turn, sequence = (_turn_index(fields, item) for item in ("turnIndex", "sequenceIndex"))
    if turn is not None and sequence is not None:
        raise NotImportable(
            "it has both turnIndex and sequenceIndex, and a scenario counts turns alone"
        )
    if turn is not None:
        losses.append(TURN)
        return turn + 1
    if sequence is None:
        return None
    losses.append(SEQUENCE)
    comes_after = fields.get("hasToolResult") or "toolCallId" in fields
    return sequence + (2 if comes_after or "toolResultContains" in fields else 1)


def _turn_index(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NotImportable(f"its {name} is no number from 0 on")
    return value


_Said = tuple[Fields, Fields]
"""Fields of the match, and conditions on the request's JSON."""


def _match_user(value: Json) -> _Said:
    text = _checked_text("userMessage", value)
    return ({"user": literal_pattern(text)} if text else {}), {}


def _match_system(value: Json) -> _Said:
    """One text, or several that must all be there, in any order."""
    several = value if isinstance(value, list) else [value]
    texts = [
        literal_pattern(text)
        for content in several
        if (text := _checked_text("systemMessage", content))
    ]
    if len(texts) > 1:
        return {"system": r"(?s)\A" + "".join(f"(?=.*{content})" for content in texts)}, {}
    return ({"system": texts[0]} if texts else {}), {}


def _match_model(value: Json) -> _Said:
    return {"model": _glob_literal("model", value)}, {}


def _match_context(value: Json) -> _Said:
    return {"session": _glob_literal("context", value)}, {}


def _match_endpoint(value: Json) -> _Said:
    if value != "chat":
        label = _field_label(value) if isinstance(value, str) else "an endpoint that is no text"
        raise NotImportable(f"it is for {label}: a scenario answers in conversations alone")
    return {}, {}


def _match_has_result(value: Json) -> _Said:
    if not isinstance(value, bool):
        raise NotImportable("its hasToolResult is neither true nor false")
    return {"tool_results": value}, {}


def _match_result_of(value: Json) -> _Said:
    return {"tool_results": True}, {_CALL_IDS: {"equals": _checked_text("toolCallId", value)}}


def _match_result_text(value: Json) -> _Said:
    pattern = literal_pattern(_checked_text("toolResultContains", value))
    return {"tool_results": True}, ({_RESULTS: {"matches": pattern}} if pattern else {})


def _match_tool(value: Json) -> _Said:
    return {}, {_TOOLS: {"equals": _checked_text("toolName", value)}}


def _match_format(value: Json) -> _Said:
    return {}, {_FORMATS: {"equals": _checked_text("responseFormat", value)}}


def _match_input(_: Json) -> _Said:
    raise NotImportable("it is for embeddings: a scenario answers in conversations alone")


_WAYS: Final[Mapping[str, Callable[[Json], _Said]]] = {
    "userMessage": _match_user,
    "systemMessage": _match_system,
    "model": _match_model,
    "context": _match_context,
    "endpoint": _match_endpoint,
    "hasToolResult": _match_has_result,
    "toolCallId": _match_result_of,
    "toolResultContains": _match_result_text,
    "toolName": _match_tool,
    "responseFormat": _match_format,
    "inputText": _match_input,
}
_LOSSES: Final[Mapping[str, tuple[ImportLoss, ...]]] = {"model": (DATED,), "context": (CONTEXT,)}


def _glob_literal(name: str, value: Json) -> str:
    text = _checked_text(name, value)
    if not text:
        raise NotImportable(f"its {name} is empty, which no request has")
    return _WILD.sub(r"[\1]", text)


def _checked_text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise NotImportable(f"its {name} is no text")
    return value


def _field_label(name: str) -> str:
    return printable(name, _SHOWN)
