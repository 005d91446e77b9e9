"""Decodes text completions of several model makers on Amazon Bedrock.

{"outputText": "..", "completionReason": "FINISH"}        Titan, in a stream
{"results": [{"outputText": ".."}]}                       Titan
{"generation": "..", "stop_reason": "stop"}               Llama
{"outputs": [{"text": "..", "stop_reason": "stop"}]}      Mistral
{"generations": [{"text": "..", "finish_reason": ".."}]}  Cohere
{"text": "..", "is_finished": true}                       Cohere, in a stream
{"choices": [{"delta": {"content": ".."}}]}               Mistral and others, like OpenAI
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_messages
from llm_proxy.dialects.openai.chat_messages import ChatMessageDecoder
from llm_proxy.turns import FinishReason, Json, Turn, Usage

_CHOICE_LIST_FIELDS: Final = ("results", "outputs", "generations", "choices")
_TEXT_FIELDS: Final = ("outputText", "generation", "text")
_FINISH_FIELDS: Final = ("completionReason", "stop_reason", "finish_reason")

_FINISH_BY_LOWERCASE_REASON: Final = {
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

_CHOICE_FIELDS: Final = (*_TEXT_FIELDS, *_FINISH_FIELDS)

FINISH_BY_REASON: Final = _FINISH_BY_LOWERCASE_REASON | {
    word.upper(): meaning for word, meaning in _FINISH_BY_LOWERCASE_REASON.items()
}
"""The `FinishReason` of each finish reason, in lower and in upper case."""


class CompletionsDecoder:
    """Decodes the documents of a response to turns, one per choice."""

    def __init__(self) -> None:
        self._choice_decoders: dict[int, _CompletionChoiceDecoder] = {}
        self._response_fields: dict[str, Json] = {}
        self._usage: dict[str, int] = {}

    @property
    def all_finished(self) -> bool:
        """Whether there are choices, and all have a finish reason."""
        return bool(self._choice_decoders) and all(
            choice_decoder.finish_raw for choice_decoder in self._choice_decoders.values()
        )

    def feed(self, document: Fields, *, streamed: bool) -> None:
        """Decode one document; one in none of these formats is ignored."""
        choices = _choice_objects(document)
        if choices is None:
            return
        self._response_fields.update(lenient_json.select_metadata(document, ("id", "model")))
        self._usage.update(_decode_usage_fields(document))
        for position, choice in enumerate(choices):
            index = lenient_json.first_integer(choice.get("index"))
            index = position if index is None else index
            self._choice_decoders.setdefault(index, _CompletionChoiceDecoder()).feed(
                choice, streamed=streamed
            )
            self._usage.update(_decode_usage_fields(choice))

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, one per choice."""
        usage = Usage(**self._usage) if self._usage else None
        return tuple(
            Turn(
                choice_decoder.message.decoded_parts(),
                finish=FINISH_BY_REASON.get(choice_decoder.finish_raw, FinishReason.OTHER)
                if choice_decoder.finish_raw
                else None,
                finish_raw=choice_decoder.finish_raw,
                usage=usage,
                id=lenient_json.value_as_text(self._response_fields.get("id")),
                model=lenient_json.value_as_text(self._response_fields.get("model")),
            )
            for _, choice_decoder in sorted(self._choice_decoders.items())
        )


def event_output_chars(event: Fields) -> int:
    """How many output characters a stream event adds."""
    return sum(
        chat_messages.delta_output_chars(_message_of_choice(choice))
        for choice in _choice_objects(event) or ()
    )


def _choice_objects(document: Fields) -> list[Fields] | None:
    """The choices; without a list, the document itself.  None if it is in none of the formats."""
    list_field = next(
        (name for name in _CHOICE_LIST_FIELDS if isinstance(document.get(name), list)), None
    )
    if list_field:
        return lenient_json.array_objects(document.get(list_field))
    return (
        [document] if any(isinstance(document.get(item), str) for item in _CHOICE_FIELDS) else None
    )


def _message_of_choice(choice: Fields) -> Fields:
    text = "".join(lenient_json.str_or_empty(choice.get(name)) for name in _TEXT_FIELDS)
    return lenient_json.object_fields(
        choice.get("delta") or choice.get("message") or {"content": text}
    )


class _CompletionChoiceDecoder:
    """Decodes the pieces of one choice."""

    def __init__(self) -> None:
        self.message = ChatMessageDecoder()
        self.finish_raw = ""

    def feed(self, choice: Fields, *, streamed: bool) -> None:
        self.message.feed(_message_of_choice(choice), streamed=streamed)
        finish_reasons = (lenient_json.value_as_text(choice.get(name)) for name in _FINISH_FIELDS)
        self.finish_raw = next(filter(None, finish_reasons), self.finish_raw)


def _decode_usage_fields(document: Fields) -> dict[str, int]:
    """The token counts of a document or a choice, under the names of `Usage`."""
    openai_usage = lenient_json.object_fields(document.get("usage"))
    fields = {
        "input": lenient_json.first_integer(
            document.get("inputTextTokenCount"),
            document.get("prompt_token_count"),
            openai_usage.get("prompt_tokens"),
        ),
        "output": lenient_json.first_integer(
            document.get("totalOutputTextTokenCount"),
            document.get("tokenCount"),
            document.get("generation_token_count"),
            openai_usage.get("completion_tokens"),
        ),
        "total": lenient_json.first_integer(openai_usage.get("total_tokens")),
    }
    return {name: count for name, count in fields.items() if count is not None}
