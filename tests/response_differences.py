"""A turn, held against what a client heard of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from judge_runner import Answer
from llm_proxy.turns import Json, Reasoning, Refusal, ToolCall, Turn


def differences(answer: Answer, turn: Turn, fields: Sequence[str]) -> list[str]:
    """Those of these fields of an answer in which the client heard something else."""
    ours, theirs = _of_turn(turn), _of_answer(answer)
    if not all(item["id"] for item in answer.calls or ()):  # a client that drops the ids
        ours["calls"], theirs["calls"] = _nameless(ours["calls"]), _nameless(theirs["calls"])
    return [name for name in fields if ours[name] != theirs[name]]


def _of_turn(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "text": turn.text,
        "reasoning": "".join(part.text for part in turn.parts if isinstance(part, Reasoning)),
        "refusal": "".join(part.text for part in turn.parts if isinstance(part, Refusal)),
        "calls": [
            (part.id, part.name, _value(part.arguments))
            for part in turn.parts
            if isinstance(part, ToolCall)
        ],
        "finish": turn.finish_raw,
        "usage": usage and (usage.input, usage.output),
        "error": turn.failure is not None,
    }


def _of_answer(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "text": answer.text,
        "reasoning": answer.reasoning,
        "refusal": answer.refusal,
        "calls": [
            (item["id"], item["name"], item["arguments"] or {}) for item in answer.calls or ()
        ],
        "finish": answer.finish or "",
        "usage": usage and (usage["input"], usage["output"]),
        "error": answer.error is not None,
    }


def _nameless(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [item[1:] for item in calls]


def _value(arguments: str) -> Json:
    """The arguments of a call; none at all are none, however a client gives them."""
    try:
        value: Json = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    return value
