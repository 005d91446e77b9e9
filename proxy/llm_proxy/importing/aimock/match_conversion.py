"""Converts a fixture's request match into a scenario's `match`.

Texts of a fixture are searched literally.  A condition that a scenario cannot have is never
dropped: the fixture would match requests that it was not written for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.aimock.losses import CONTEXT, DATED_MODELS, SEQUENCE_INDEX, TURN_INDEX
from llm_proxy.importing.source import ImportLoss, NotImportable
from llm_proxy.scenario.recorded.yaml_writing import literal_pattern
from llm_proxy.turns import Json

Fields = dict[str, Json]

_MAX_QUOTE_CHARS: Final = 80
_GLOB_CHARS: Final = re.compile(r"([*?\[])")
_LAST_MESSAGE_PATH: Final = "$['messages','input','contents'][-1]"
"""JSONPath of the last message, in every dialect that has a list of them."""
_CALL_ID_PATH: Final = f"{_LAST_MESSAGE_PATH}..['tool_call_id','call_id','tool_use_id','toolUseId']"
_RESULT_TEXT_PATH: Final = f"{_LAST_MESSAGE_PATH}..['content','output','text','response']"
_TOOL_NAME_PATH: Final = "$['tools','toolConfig']..name"
_FORMAT_TYPE_PATH: Final = "$['response_format','text']..type"


def convert_match(fields: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The scenario's match, and the losses.  Raises `NotImportable`."""
    losses: list[ImportLoss] = []
    match_fields: Fields = {}
    conditions: Fields = {}
    turn = _convert_turn_match(fields, losses)
    for name, value in fields.items():
        if value is None or name in {"turnIndex", "sequenceIndex"}:
            continue
        if name not in _CONVERTER_BY_FIELD:
            raise NotImportable(
                f"its match has {_printable_name(name)}, which no scenario can ask for"
            )
        field_match, field_conditions = _CONVERTER_BY_FIELD[name](value)
        if any(match_fields.get(text, content) != content for text, content in field_match.items()):
            raise NotImportable("it asks for results of tools, and for none: nothing could be both")
        match_fields |= field_match
        conditions |= field_conditions
        losses += _LOSSES_BY_FIELD.get(name, ())
    match_fields |= {} if turn is None else {"turn": turn}
    return match_fields | ({"json": conditions} if conditions else {}), losses


def _convert_turn_match(fields: Fields, losses: list[ImportLoss]) -> int | None:
    """The turn that a fixture matches, from 1; None for any."""
    turn, sequence = (_turn_index(fields, item) for item in ("turnIndex", "sequenceIndex"))
    if turn is not None and sequence is not None:
        raise NotImportable(
            "it has both turnIndex and sequenceIndex, and a scenario counts turns alone"
        )
    if turn is not None:
        losses.append(TURN_INDEX)
        return turn + 1
    if sequence is None:
        return None
    losses.append(SEQUENCE_INDEX)
    follows_tool_result = fields.get("hasToolResult") or "toolCallId" in fields
    return sequence + (2 if follows_tool_result or "toolResultContains" in fields else 1)


def _turn_index(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NotImportable(f"its {name} is no number from 0 on")
    return value


_MatchAndConditions = tuple[Fields, Fields]
"""Fields of the match, and conditions on the request's JSON by JSONPath."""


def _convert_user_match(value: Json) -> _MatchAndConditions:
    text = _require_text("userMessage", value)
    return ({"user": literal_pattern(text)} if text else {}), {}


def _convert_system_match(value: Json) -> _MatchAndConditions:
    """One text, or several that must all occur, in any order."""
    values = value if isinstance(value, list) else [value]
    texts = [
        literal_pattern(text)
        for content in values
        if (text := _require_text("systemMessage", content))
    ]
    if len(texts) > 1:
        return {"system": r"(?s)\A" + "".join(f"(?=.*{content})" for content in texts)}, {}
    return ({"system": texts[0]} if texts else {}), {}


def _convert_model_match(value: Json) -> _MatchAndConditions:
    return {"model": _escape_glob("model", value)}, {}


def _convert_context_match(value: Json) -> _MatchAndConditions:
    return {"session": _escape_glob("context", value)}, {}


def _convert_endpoint_match(value: Json) -> _MatchAndConditions:
    if value != "chat":
        label = _printable_name(value) if isinstance(value, str) else "an endpoint that is no text"
        raise NotImportable(f"it is for {label}: a scenario answers in conversations alone")
    return {}, {}


def _convert_tool_results_match(value: Json) -> _MatchAndConditions:
    if not isinstance(value, bool):
        raise NotImportable("its hasToolResult is neither true nor false")
    return {"tool_results": value}, {}


def _convert_call_id_match(value: Json) -> _MatchAndConditions:
    return {"tool_results": True}, {_CALL_ID_PATH: {"equals": _require_text("toolCallId", value)}}


def _convert_result_text_match(value: Json) -> _MatchAndConditions:
    pattern = literal_pattern(_require_text("toolResultContains", value))
    return {"tool_results": True}, ({_RESULT_TEXT_PATH: {"matches": pattern}} if pattern else {})


def _convert_tool_match(value: Json) -> _MatchAndConditions:
    return {}, {_TOOL_NAME_PATH: {"equals": _require_text("toolName", value)}}


def _convert_format_match(value: Json) -> _MatchAndConditions:
    return {}, {_FORMAT_TYPE_PATH: {"equals": _require_text("responseFormat", value)}}


def _reject_input_text(_: Json) -> _MatchAndConditions:
    raise NotImportable("it is for embeddings: a scenario answers in conversations alone")


_CONVERTER_BY_FIELD: Final[Mapping[str, Callable[[Json], _MatchAndConditions]]] = {
    "userMessage": _convert_user_match,
    "systemMessage": _convert_system_match,
    "model": _convert_model_match,
    "context": _convert_context_match,
    "endpoint": _convert_endpoint_match,
    "hasToolResult": _convert_tool_results_match,
    "toolCallId": _convert_call_id_match,
    "toolResultContains": _convert_result_text_match,
    "toolName": _convert_tool_match,
    "responseFormat": _convert_format_match,
    "inputText": _reject_input_text,
}
_LOSSES_BY_FIELD: Final[Mapping[str, tuple[ImportLoss, ...]]] = {
    "model": (DATED_MODELS,),
    "context": (CONTEXT,),
}


def _escape_glob(name: str, value: Json) -> str:
    text = _require_text(name, value)
    if not text:
        raise NotImportable(f"its {name} is empty, which no request has")
    return _GLOB_CHARS.sub(r"[\1]", text)


def _require_text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise NotImportable(f"its {name} is no text")
    return value


def _printable_name(name: str) -> str:
    return printable_excerpt(name, _MAX_QUOTE_CHARS)
