"""Decodes the completions and chats of several model makers on Amazon Bedrock.

{"outputText": "..", "completionReason": "FINISH"}        Titan, in a stream
{"results": [{"outputText": ".."}]}                       Titan
{"generation": "..", "stop_reason": "stop"}               Llama
{"outputs": [{"text": "..", "stop_reason": "stop"}]}      Mistral
{"generations": [{"text": "..", "finish_reason": ".."}]}  Cohere
{"text": "..", "is_finished": true}                       Cohere, in a stream
{"choices": [{"delta": {"content": ".."}}]}               Mistral and others, like OpenAI
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import json_api
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_objects,
    get_string,
    get_text,
    object_fields,
    select_metadata,
)
from llm_proxy.dialects.openai import chat_messages
from llm_proxy.dialects.openai.chat_messages import ChatMessageDecoder
from llm_proxy.dialects.wire import UsageFields
from llm_proxy.turns import FinishReason, Json, Part, Turn

_CHOICE_LIST_FIELDS: Final = ("results", "outputs", "generations", "choices")
_TEXT_FIELDS: Final = ("outputText", "generation", "text")
_FINISH_FIELDS: Final = ("completionReason", "stop_reason", "finish_reason")

_MEANINGS: Final = {
    "finish": FinishReason.STOP,
    "finished": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "stop_criteria_met": FinishReason.STOP_SEQUENCE,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
    "error_toxic": FinishReason.CONTENT_FILTER,
}
FINISH_BY_REASON: Final = _MEANINGS | {raw.upper(): finish for raw, finish in _MEANINGS.items()}
"""The `FinishReason` of each finish reason, in lower and in upper case."""

_USAGE: Final = UsageFields(
    {
        "input": ("inputTextTokenCount",),
        "output": ("totalOutputTextTokenCount",),
        "total": ("usage", "total_tokens"),
    },
    also_at={
        "input": (("prompt_token_count",), ("usage", "prompt_tokens")),
        "output": (("tokenCount",), ("generation_token_count",), ("usage", "completion_tokens")),
    },
)
_COUNT_FIELDS: Final = (
    *("inputTextTokenCount", "prompt_token_count", "totalOutputTextTokenCount", "tokenCount"),
    *("generation_token_count", "usage"),
)


@dataclass(slots=True)
class _Choice:
    """What was decoded of one choice."""

    message: ChatMessageDecoder = field(default_factory=ChatMessageDecoder)
    finish_raw: str = ""


class CompletionsDecoder:
    """Decodes the documents of a response to turns, one per choice."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._response_fields: dict[str, Json] = {}
        """The id, the model and the token counts."""

    @property
    def all_finished(self) -> bool:
        """Whether there are choices, and all have a finish reason."""
        choices = self._choices.values()
        return bool(choices) and all(choice.finish_raw for choice in choices)

    def feed(self, document: Fields, *, streamed: bool) -> list[Part]:
        """Decode one document; one in none of these formats is ignored.

        Returns what it adds to the first choice: calls when the choice has finished.
        """
        pieces: list[Part] = []
        choices = _choice_objects(document)
        if choices is None:
            return pieces
        names = ("id", "model", *_COUNT_FIELDS)
        self._response_fields.update(select_metadata(document, names))
        for position, fields in enumerate(choices):
            index = get_integer(fields, "index")
            index = position if index is None else index
            choice = self._choices.setdefault(index, _Choice())
            added = choice.message.feed(_message_of_choice(fields), streamed=streamed)
            finish_reasons = (get_text(fields, name) for name in _FINISH_FIELDS)
            reason = next(filter(None, finish_reasons), "")
            if (reason and not choice.finish_raw) or not streamed:
                added += filter(json_api.is_client_call, choice.message.decoded_parts())
            choice.finish_raw = reason or choice.finish_raw
            self._response_fields.update(select_metadata(fields, _COUNT_FIELDS))
            if index == 0:
                pieces += added
        return pieces

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, one per choice."""
        usage = _USAGE.decode(self._response_fields)
        return tuple(
            Turn(
                choice.message.decoded_parts(),
                finish=FINISH_BY_REASON.get(choice.finish_raw, FinishReason.OTHER)
                if choice.finish_raw
                else None,
                finish_raw=choice.finish_raw,
                usage=usage,
                id=get_text(self._response_fields, "id"),
                model=get_text(self._response_fields, "model"),
            )
            for _, choice in sorted(self._choices.items())
        )


def event_output_chars(event: Fields) -> int:
    """How many output characters a stream event adds."""
    choices = _choice_objects(event) or ()
    return sum(chat_messages.delta_output_chars(_message_of_choice(choice)) for choice in choices)


def _choice_objects(document: Fields) -> list[Fields] | None:
    """The choices; without a list, the document itself.  None if it is in none of the formats."""
    for name in _CHOICE_LIST_FIELDS:
        if isinstance(document.get(name), list):
            return get_objects(document, name)
    names = (*_TEXT_FIELDS, *_FINISH_FIELDS)
    return [document] if any(isinstance(document.get(name), str) for name in names) else None


def _message_of_choice(choice: Fields) -> Fields:
    text = "".join(get_string(choice, name) for name in _TEXT_FIELDS)
    return object_fields(choice.get("delta") or choice.get("message") or {"content": text})
