"""Converts a fixture's request match into a scenario's `match`.

Texts of a fixture are searched literally.  A condition that a scenario cannot have is never
dropped: the fixture would match requests that it was not written for.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.errors import printable_excerpt
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
_SEQUENCE_INDEX: Final = ImportLoss(
    "sequence",
    "sequenceIndex counts requests, and a turn the answers in a conversation: whoever asks the "
    "same in a new conversation gets the first answer again",
)
_TURN_INDEX: Final = ImportLoss(
    "nearest turn",
    "its turnIndex becomes that turn alone: aimock answers other turns with the nearest, too",
)
_DATED_MODELS: Final = ImportLoss(
    "dated models",
    "its model is that name alone: aimock takes it with a date behind it, too; write a pattern "
    "such as gpt-5-20* for those",
)
_CONTEXT: Final = ImportLoss(
    "context",
    "its context becomes the session: send x-llm-proxy-session in place of X-AIMock-Context",
)


def convert_match(fields: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The scenario's match, and the losses.  Raises `NotImportable`."""
    losses: list[ImportLoss] = []
    match_fields: Fields = {}
    conditions: Fields = {}
    turn = _convert_turn_match(fields, losses)
    for name, value in fields.items():
        if value is None or name in {"turnIndex", "sequenceIndex"}:
            continue
        field_match, field_conditions = _convert_field(name, value)
        if any(match_fields.get(key, item) != item for key, item in field_match.items()):
            raise NotImportable("it asks for results of tools, and for none: nothing could be both")
        match_fields |= field_match
        conditions |= field_conditions
        losses += {"model": [_DATED_MODELS], "context": [_CONTEXT]}.get(name, [])
    if turn is not None:
        match_fields["turn"] = turn
    if conditions:
        match_fields["json"] = conditions
    return match_fields, losses


def _convert_turn_match(fields: Fields, losses: list[ImportLoss]) -> int | None:
    """The turn that a fixture matches, from 1; None for any."""
    turn, sequence = (_turn_index(fields, item) for item in ("turnIndex", "sequenceIndex"))
    if turn is not None and sequence is not None:
        raise NotImportable(
            "it has both turnIndex and sequenceIndex, and a scenario counts turns alone"
        )
    if turn is not None:
        losses.append(_TURN_INDEX)
        return turn + 1
    if sequence is None:
        return None
    losses.append(_SEQUENCE_INDEX)
    follows_tool_result = fields.get("hasToolResult") or "toolCallId" in fields
    return sequence + (2 if follows_tool_result or "toolResultContains" in fields else 1)


def _turn_index(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NotImportable(f"its {name} is no number from 0 on")
    return value


def _convert_field(name: str, value: Json) -> tuple[Fields, Fields]:
    """Fields of the match, and conditions on the request's JSON by JSONPath."""
    match name:
        case "userMessage":
            pattern = literal_pattern(_require_text(name, value))
            return ({"user": pattern} if pattern else {}), {}
        case "systemMessage":
            # One text, or several that must all occur, in any order.
            values = value if isinstance(value, list) else [value]
            texts = [
                literal_pattern(text) for item in values if (text := _require_text(name, item))
            ]
            if len(texts) > 1:
                return {"system": r"(?s)\A" + "".join(f"(?=.*{text})" for text in texts)}, {}
            return ({"system": texts[0]} if texts else {}), {}
        case "model" | "context":
            text = _require_text(name, value)
            if not text:
                raise NotImportable(f"its {name} is empty, which no request has")
            field = "model" if name == "model" else "session"
            return {field: _GLOB_CHARS.sub(r"[\1]", text)}, {}
        case "endpoint":
            if value != "chat":
                label = "an endpoint that is no text"
                if isinstance(value, str):
                    label = _printable_name(value)
                raise NotImportable(f"it is for {label}: a scenario answers in conversations alone")
            return {}, {}
        case "hasToolResult":
            if not isinstance(value, bool):
                raise NotImportable("its hasToolResult is neither true nor false")
            return {"tool_results": value}, {}
        case "toolCallId":
            return {"tool_results": True}, {_CALL_ID_PATH: {"equals": _require_text(name, value)}}
        case "toolResultContains":
            pattern = literal_pattern(_require_text(name, value))
            conditions: Fields = {_RESULT_TEXT_PATH: {"matches": pattern}} if pattern else {}
            return {"tool_results": True}, conditions
        case "toolName":
            return {}, {_TOOL_NAME_PATH: {"equals": _require_text(name, value)}}
        case "responseFormat":
            return {}, {_FORMAT_TYPE_PATH: {"equals": _require_text(name, value)}}
        case "inputText":
            raise NotImportable("it is for embeddings: a scenario answers in conversations alone")
        case _:
            raise NotImportable(
                f"its match has {_printable_name(name)}, which no scenario can ask for"
            )


def _require_text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise NotImportable(f"its {name} is no text")
    return value


def _printable_name(name: str) -> str:
    return printable_excerpt(name, _MAX_QUOTE_CHARS)
