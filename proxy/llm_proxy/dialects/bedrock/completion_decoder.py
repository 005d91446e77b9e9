"""Decodes text completions of several model makers on Amazon Bedrock.

{"outputText": "..", "completionReason": "FINISH"}        Titan, in a stream
{"results": [{"outputText": ".."}]}                       Titan
{"generation": "..", "stop_reason": "stop"}               Llama
{"outputs": [{"text": "..", "stop_reason": "stop"}]}      Mistral
{"generations": [{"text": "..", "finish_reason": ".."}]}  Cohere
{"text": "..", "is_finished": true}                       Cohere, in a stream
{"choices": [{"delta": {"content": ".."}}]}               Mistral and others, as of OpenAI
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_message_decoder
from llm_proxy.dialects.openai.chat_message_decoder import ChatMessageDecoder
from llm_proxy.turns import Finish, Json, Turn, Usage

_LISTS: Final = ("results", "outputs", "generations", "choices")
_TEXTS: Final = ("outputText", "generation", "text")
_REASONS: Final = ("completionReason", "stop_reason", "finish_reason")

_MEANINGS: Final = {
    "finish": Finish.STOP,
    "finished": Finish.STOP,
    "complete": Finish.STOP,
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "stop_sequence": Finish.STOP_SEQUENCE,
    "stop_criteria_met": Finish.STOP_SEQUENCE,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
    "content_filtered": Finish.CONTENT_FILTER,
    "error": Finish.ERROR,
    "error_toxic": Finish.CONTENT_FILTER,
}

_TELLING: Final = (*_TEXTS, *_REASONS)

FINISH: Final = _MEANINGS | {word.upper(): meaning for word, meaning in _MEANINGS.items()}
"""What each reason to stop means: makers write them in capitals or not."""


class CompletionsDecoder:
    """The turns of a response, as its documents come: one a choice."""

    def __init__(self) -> None:
        self._choice_objects: dict[int, _CompletionChoiceDecoder] = {}
        self._response_fields: dict[str, Json] = {}
        self._usage: dict[str, int] = {}

    @property
    def all_finished(self) -> bool:
        """Whether every choice said why it ended."""
        return bool(self._choice_objects) and all(
            choice_object.finish_raw for choice_object in self._choice_objects.values()
        )

    def feed(self, document: Fields, *, streamed: bool) -> None:
        """Read one document; one that is none of these is left out."""
        choices = _choice_objects(document)
        if choices is None:
            return
        self._response_fields.update(lenient_json.named_metadata(document, ("id", "model")))
        self._usage.update(_decode_usage_fields(document))
        for position, choice in enumerate(choices):
            index = lenient_json.first_count(choice.get("index"))
            index = position if index is None else index
            self._choice_objects.setdefault(index, _CompletionChoiceDecoder()).feed(
                choice, streamed=streamed
            )
            self._usage.update(_decode_usage_fields(choice))

    def result(self) -> tuple[Turn, ...]:
        """What was said."""
        usage = Usage(**self._usage) if self._usage else None
        return tuple(
            Turn(
                choice.message.result(),
                finish=FINISH.get(choice.finish_raw, Finish.OTHER) if choice.finish_raw else None,
                finish_raw=choice.finish_raw,
                usage=usage,
                id=lenient_json.printable_text(self._response_fields.get("id")),
                model=lenient_json.printable_text(self._response_fields.get("model")),
            )
            for _, choice in sorted(self._choice_objects.items())
        )


def event_output_chars(event: Fields) -> int:
    """How many characters an event of a stream adds to what was said."""
    return sum(
        chat_message_decoder.delta_output_chars(_message_of_choice(choice))
        for choice in _choice_objects(event) or ()
    )


def _choice_objects(document: Fields) -> list[Fields] | None:
    """The choices; a document without a list is its own.  None where it is none of these."""
    many = next((name for name in _LISTS if isinstance(document.get(name), list)), None)
    if many:
        return lenient_json.object_items(document.get(many))
    return [document] if any(isinstance(document.get(item), str) for item in _TELLING) else None


def _message_of_choice(choice: Fields) -> Fields:
    text = "".join(lenient_json.str_or_empty(choice.get(name)) for name in _TEXTS)
    return lenient_json.object_fields(
        choice.get("delta") or choice.get("message") or {"content": text}
    )


class _CompletionChoiceDecoder:
    """One choice, as its pieces come."""

    def __init__(self) -> None:
        self.message = ChatMessageDecoder()
        self.finish_raw = ""

    def feed(self, choice: Fields, *, streamed: bool) -> None:
        self.message.feed(_message_of_choice(choice), streamed=streamed)
        told = (lenient_json.printable_text(choice.get(name)) for name in _REASONS)
        self.finish_raw = next(filter(None, told), self.finish_raw)


def _decode_usage_fields(document: Fields) -> dict[str, int]:
    """What a document or a choice says of tokens, under the names of `Usage`."""
    of_openai = lenient_json.object_fields(document.get("usage"))
    fields = {
        "input": lenient_json.first_count(
            document.get("inputTextTokenCount"),
            document.get("prompt_token_count"),
            of_openai.get("prompt_tokens"),
        ),
        "output": lenient_json.first_count(
            document.get("totalOutputTextTokenCount"),
            document.get("tokenCount"),
            document.get("generation_token_count"),
            of_openai.get("completion_tokens"),
        ),
        "total": lenient_json.first_count(of_openai.get("total_tokens")),
    }
    return {name: count for name, count in fields.items() if count is not None}
