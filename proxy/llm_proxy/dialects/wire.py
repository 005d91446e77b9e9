"""The data of a wire format that serves decoding and encoding alike.

A dialect describes its responses twice, decoding and encoding, and what both need stands once, in
the data of this module.  What a format can represent is what survives `decode(encode(turn))`:
`Dialect.representable_turns` derives it, and `losses` names the rest.  Parts of a prepared turn
(`encoding.prepared_turns`) keep the metadata that they were given: an encoder takes it by
`lenient_json.select_metadata` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
)

_ERROR_STATUS: Final = re.compile("[45][0-9][0-9]")

_FINISH_FALLBACKS: Final = {
    FinishReason.STOP_SEQUENCE: FinishReason.STOP,
    FinishReason.TOOL_CALLS: FinishReason.STOP,
    FinishReason.CONTEXT_FULL: FinishReason.LENGTH,
    FinishReason.LENGTH: FinishReason.STOP,
    FinishReason.REFUSAL: FinishReason.CONTENT_FILTER,
    FinishReason.CONTENT_FILTER: FinishReason.STOP,
    FinishReason.PAUSED: FinishReason.STOP,
    FinishReason.ERROR: FinishReason.OTHER,
    FinishReason.OTHER: FinishReason.STOP,
}
"""The next best `FinishReason` if a format lacks one; every format has `STOP`."""


def has_tool_calls(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a tool call."""
    return any(isinstance(part, ToolCall) for part in parts)


@dataclass(frozen=True, slots=True)
class FinishReasons:
    """The finish reasons of a format."""

    by_raw: Mapping[str, FinishReason]
    """The meaning of each of the format's finish reasons; any other is `OTHER`."""
    sent: Mapping[FinishReason, str]
    """The finish reason that is sent for each meaning; always with `STOP`."""
    stop_means_tool_calls: bool = False
    """Whether the finish reason for `STOP` means `TOOL_CALLS` in a turn with calls."""
    unfinished: tuple[str, ...] = ("",)
    """Values of its field in responses that have not finished."""

    def decode(self, raw: str, *, awaits_client: bool = False) -> FinishReason | None:
        """The meaning of a finish reason; None where the response has not finished.

        `awaits_client` is whether the turn has calls to run.
        """
        if raw in self.unfinished:
            return None
        finish = self.by_raw.get(raw, FinishReason.OTHER)
        is_call_stop = finish is FinishReason.STOP and self.stop_means_tool_calls and awaits_client
        return FinishReason.TOOL_CALLS if is_call_stop else finish

    def encode(self, finish: FinishReason, given_raw: str, *, awaits_client: bool) -> str:
        """The finish reason to send: `given_raw` if that means `finish`, else the nearest."""
        if self.decode(given_raw, awaits_client=awaits_client) is finish:
            return given_raw
        while finish not in self.sent:
            finish = _FINISH_FALLBACKS[finish]
        return self.sent[finish]


@dataclass(frozen=True, slots=True)
class UsageFields:
    """Where a format has token counts."""

    paths: Mapping[str, tuple[str, ...]]
    """The path of field names of each field of `Usage` that the format has."""
    required: tuple[str, ...] = ()
    """The fields of `Usage` that are always sent with usage, at least as 0; `total` as the sum."""
    is_required: bool = False
    """Whether every response has usage."""
    also_at: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """For some fields of `Usage`, further paths at which other servers have them."""

    def decode(self, fields: Fields) -> Usage | None:
        """The counts in these fields; None if there are none."""
        counts = {
            name: lenient_json.first_integer(
                *(_value_at(fields, each) for each in (path, *self.also_at.get(name, ())))
            )
            for name, path in self.paths.items()
        }
        return Usage(**counts) if any(count is not None for count in counts.values()) else None

    def encode(self, usage: Usage | None) -> dict[str, Any]:
        """The fields for the counts that are known."""
        document: dict[str, Any] = {}
        for name, (*parents, last) in self.paths.items():
            if usage is not None and (count := getattr(usage, name)) is not None:
                target = document
                for parent in parents:
                    target = target.setdefault(parent, {})
                target[last] = count
        return document

    def complete(self, usage: Usage | None) -> Usage | None:
        """The usage that is sent: with the fields of the format and all that are required."""
        counts = {name: getattr(usage, name) for name in self.paths} if usage else {}
        counts = {name: count for name, count in counts.items() if count is not None}
        if not counts and not self.is_required:
            return None
        complete = Usage(**(dict.fromkeys(self.required, 0) | counts))
        if "total" in self.required and "total" not in counts:
            return replace(complete, total=(complete.input or 0) + (complete.output or 0))
        return complete


def _value_at(fields: Fields, path: tuple[str, ...]) -> Json:
    *parents, last = path
    for name in parents:
        fields = lenient_json.object_fields(fields.get(name))
    return fields.get(last)


@dataclass(frozen=True, slots=True)
class Errors:
    """What an error without its own status, type, code or message gets."""

    defaults: Mapping[int, Failure]
    """The default fields by HTTP status; other statuses use those of 400 or of 500."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """The HTTP status by code or type."""

    def status(self, failure: Failure) -> int:
        """The HTTP status of a failure: by its code or its type, else 500."""
        if _ERROR_STATUS.fullmatch(failure.code):
            return int(failure.code)
        return self.statuses.get(failure.code) or self.statuses.get(failure.type, 500)

    def with_defaults(self, failure: Failure, status: int) -> Failure:
        """The failure, with the defaults of the status for the fields that it lacks."""
        default = self.defaults.get(status) or self.defaults[400 if status < 500 else 500]
        return Failure(
            failure.message or default.message,
            failure.type or default.type,
            failure.code or default.code,
        )


def http_status_code(failure: Failure) -> str:
    """The code of a failure if that is the status of an HTTP error; else empty."""
    return failure.code if _ERROR_STATUS.fullmatch(failure.code) else ""


def with_default_error_message(failure: Failure) -> Failure:
    """The failure with a message, which defaults to its type, its code, or `error`."""
    return replace(failure, message=failure.message or failure.type or failure.code or "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """What encoding needs to know of one kind of response: streamed or whole, on one path."""

    dialect: str
    is_streamed: bool
    parts: frozenset[type[Part]]
    """The kinds of parts that it has; a refusal becomes text where it has none."""
    finish: FinishReasons
    usage: UsageFields
    metadata: tuple[str, ...] = ()
    """The names of the turn's metadata that it has, in decoding order."""
    convert_part: Callable[[Part], Part | None] = lambda part: part
    """A part of `parts` as it can be sent; None if it cannot."""
    is_sent_empty: Callable[[Part], bool] = lambda _part: False
    """Whether a part without text and data is sent all the same."""
    convert_provider_call: Callable[[ToolCall], ToolCall | None] = lambda call: call
    """A call that a result of its turn answers, before `convert_part`; None to leave it out."""
    has_object_arguments: bool = False
    """Whether the arguments of a call are an object, and not text."""
    has_signatures: bool = False
    """Whether it has reasoning without readable text: signed, or encrypted."""
    has_citations_at_end: bool = False
    """Whether citations follow all parts, so that a stream that fails has none."""
    merged: frozenset[type[Part]] = frozenset((Text, Reasoning, Refusal))
    """The kinds whose neighbours are merged, since the format has no boundary between them."""
    id_prefix: str | None = None
    """The prefix of response ids; None if a response has no id."""
    call_id_prefix: str | None = "call_"
    """The prefix of call ids; None if a call needs no id."""
    awaits_client: Callable[[Sequence[Part]], bool] = has_tool_calls
    """Whether a turn with these parts waits for the client to run a tool."""
    has_choices: bool = False
    """Whether one response can hold several turns: choices, which share id, model and usage."""
    has_interleaved_choices: bool = False
    """Whether choices are interleaved even if `EncodeContext.choices_are_successive`."""
    response_metadata: tuple[str, ...] = ()
    """Those of `metadata` that the choices share."""
