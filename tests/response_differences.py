"""Compares a turn with the response that a client received."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from judge_runner import JudgeResponse
from llm_proxy.turns import Json, Reasoning, Refusal, ToolCall, Turn


def differing_fields(response: JudgeResponse, turn: Turn, fields: Sequence[str]) -> list[str]:
    """Return the names of those fields in which the client's response differs from the turn."""
    expected, actual = _turn_fields(turn), _response_fields(response)
    if not all(item["id"] for item in response.calls or ()):  # a client that drops the ids
        expected["calls"], actual["calls"] = (
            _without_ids(expected["calls"]),
            _without_ids(actual["calls"]),
        )
    return [name for name in fields if expected[name] != actual[name]]


def _turn_fields(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "text": turn.text,
        "reasoning": "".join(part.text for part in turn.parts if isinstance(part, Reasoning)),
        "refusal": "".join(part.text for part in turn.parts if isinstance(part, Refusal)),
        "calls": [
            (part.id, part.name, _parse_arguments(part.arguments))
            for part in turn.parts
            if isinstance(part, ToolCall)
        ],
        "finish": turn.finish_raw,
        "usage": usage and (usage.input, usage.output),
        "error": turn.failure is not None,
    }


def _response_fields(response: JudgeResponse) -> dict[str, Any]:
    usage = response.usage
    return {
        "text": response.text,
        "reasoning": response.reasoning,
        "refusal": response.refusal,
        "calls": [
            (item["id"], item["name"], item["arguments"] or {}) for item in response.calls or ()
        ],
        "finish": response.finish or "",
        "usage": usage and (usage["input"], usage["output"]),
        "error": response.error is not None,
    }


def _without_ids(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [item[1:] for item in calls]


def _parse_arguments(arguments: str) -> Json:
    """Parse the arguments of a call; no arguments are an empty object."""
    try:
        value: Json = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    return value
