"""Validates responses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import (
    PartsResponse,
    ReActResponse,
    ReasoningPartSpec,
    ReasoningSpec,
    ToolCallPartSpec,
    ToolCallsResponse,
)
from llm_proxy.scenario.documents.findings import StructFinding, warning

_GEMINI: Final = ("google", "gemini", "vertex")
_SEALS: Final = ("thoughtSignature", "thought_signature", "signature")


def duplicate_call_ids(tool_calls_response: ToolCallsResponse) -> Iterator[StructFinding]:
    """Two calls that results could not tell apart."""
    yield from _twins(
        "tool_calls", ((i, call.call_id) for i, call in enumerate(tool_calls_response.tool_calls))
    )


def duplicate_part_call_ids(parts_response: PartsResponse) -> Iterator[StructFinding]:
    """Two calls that results could not tell apart."""
    calls = (
        (i, part.call_id)
        for i, part in enumerate(parts_response.parts)
        if isinstance(part, ToolCallPartSpec)
    )
    yield from _twins("parts", calls)


def react_without_action(react_response: ReActResponse) -> Iterator[StructFinding]:
    """A step that neither acts nor ends."""
    if not react_response.action and not react_response.final_answer:
        yield StructFinding((), "the answer does nothing: give it an action, or a final_answer")


def invalid_gemini_signature(
    reasoning_spec: ReasoningSpec | ReasoningPartSpec,
) -> Iterator[StructFinding]:
    """A signature that Gemini's clients cannot decode."""
    for provider in _GEMINI:
        fields: Mapping[str, Any] = reasoning_spec.provider_metadata.get(provider, {})
        for name in _SEALS:
            seal = fields.get(name)
            if isinstance(seal, str) and not _is_base64(seal):
                yield warning(
                    ("provider_metadata", provider, name),
                    "Gemini's clients take a signature only as base64, and this is none",
                )


def _twins(field: str, calls: Iterable[tuple[int, str]]) -> Iterator[StructFinding]:
    """Calls of one id; one without has the number of its place."""
    seen: set[str] = set()
    for index, text in calls:
        name = text or f"call-{index + 1}"
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
