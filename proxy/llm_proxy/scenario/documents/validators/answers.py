"""Answers that no client could make sense of."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import (
    Parts,
    ReAct,
    SaidCall,
    SaidReasoning,
    Thought,
    ToolCalls,
)
from llm_proxy.scenario.documents.findings import Finding, warning

_GEMINI: Final = ("google", "gemini", "vertex")
_SEALS: Final = ("thoughtSignature", "thought_signature", "signature")


def calls_of_one_id(it: ToolCalls) -> Iterator[Finding]:
    """Two calls that results could not tell apart."""
    yield from _twins("tool_calls", ((i, call.call_id) for i, call in enumerate(it.tool_calls)))


def parts_of_one_id(it: Parts) -> Iterator[Finding]:
    """Two calls that results could not tell apart."""
    calls = ((i, part.call_id) for i, part in enumerate(it.parts) if isinstance(part, SaidCall))
    yield from _twins("parts", calls)


def nothing_to_do(it: ReAct) -> Iterator[Finding]:
    """A step that neither acts nor ends."""
    if not it.action and not it.final_answer:
        yield Finding((), "the answer does nothing: give it an action, or a final_answer")


def seal_of_gemini(it: Thought | SaidReasoning) -> Iterator[Finding]:
    """A signature that Gemini's clients cannot decode."""
    for provider in _GEMINI:
        fields: Mapping[str, Any] = it.provider_metadata.get(provider, {})
        for name in _SEALS:
            seal = fields.get(name)
            if isinstance(seal, str) and not _is_base64(seal):
                yield warning(
                    ("provider_metadata", provider, name),
                    "Gemini's clients take a signature only as base64, and this is none",
                )


def _twins(field: str, calls: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    """Calls of one id; one without has the number of its place."""
    seen: set[str] = set()
    for index, given in calls:
        name = given or f"call-{index + 1}"
        if name in seen:
            yield warning(
                (field, index), f"two calls of this answer have the id {name}, so their results "
                "cannot be told apart"
            )  # fmt: skip
        seen.add(name)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return False
    return True
