"""Text that models on Amazon Bedrock complete, in the shapes of their makers.

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
from llm_proxy.dialects.openai.chat_message_decoder import Message
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


class Completions:
    """The turns of a response, as its documents come: one a choice."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._about: dict[str, Json] = {}
        self._usage: dict[str, int] = {}

    @property
    def have_finished(self) -> bool:
        """Whether every choice said why it ended."""
        return bool(self._choices) and all(it.raw for it in self._choices.values())

    def take(self, document: Fields, *, streamed: bool) -> None:
        """Read one document; one that is none of these is left out."""
        choices = _choices(document)
        if choices is None:
            return
        self._about.update(lenient_json.metadata(document, ("id", "model")))
        self._usage.update(_counts(document))
        for position, choice in enumerate(choices):
            index = lenient_json.count(choice.get("index"))
            index = position if index is None else index
            self._choices.setdefault(index, _Choice()).take(choice, streamed=streamed)
            self._usage.update(_counts(choice))

    def turns(self) -> tuple[Turn, ...]:
        """What was said."""
        usage = Usage(**self._usage) if self._usage else None
        return tuple(
            Turn(
                choice.message.parts(),
                finish=FINISH.get(choice.raw, Finish.OTHER) if choice.raw else None,
                finish_raw=choice.raw,
                usage=usage,
                id=lenient_json.words(self._about.get("id")),
                model=lenient_json.words(self._about.get("model")),
            )
            for _, choice in sorted(self._choices.items())
        )


def says(event: Fields) -> int:
    """How many characters an event of a stream adds to what was said."""
    return sum(chat_message_decoder.says(_message(choice)) for choice in _choices(event) or ())


def _choices(document: Fields) -> list[Fields] | None:
    """The choices; a document without a list is its own.  None where it is none of these."""
    many = next((name for name in _LISTS if isinstance(document.get(name), list)), None)
    if many:
        return lenient_json.objects(document.get(many))
    return [document] if any(isinstance(document.get(it), str) for it in _TELLING) else None


def _message(choice: Fields) -> Fields:
    """What a choice says, as of OpenAI."""
    said = "".join(lenient_json.text(choice.get(name)) for name in _TEXTS)
    return lenient_json.fields(choice.get("delta") or choice.get("message") or {"content": said})


class _Choice:
    """One choice, as its pieces come."""

    def __init__(self) -> None:
        self.message = Message()
        self.raw = ""

    def take(self, choice: Fields, *, streamed: bool) -> None:
        self.message.take(_message(choice), streamed=streamed)
        told = (lenient_json.words(choice.get(name)) for name in _REASONS)
        self.raw = next(filter(None, told), self.raw)


def _counts(document: Fields) -> dict[str, int]:
    """What a document or a choice says of tokens, under the names of `Usage`."""
    of_openai = lenient_json.fields(document.get("usage"))
    said = {
        "input": lenient_json.count(
            document.get("inputTextTokenCount"),
            document.get("prompt_token_count"),
            of_openai.get("prompt_tokens"),
        ),
        "output": lenient_json.count(
            document.get("totalOutputTextTokenCount"),
            document.get("tokenCount"),
            document.get("generation_token_count"),
            of_openai.get("completion_tokens"),
        ),
        "total": lenient_json.count(of_openai.get("total_tokens")),
    }
    return {name: count for name, count in said.items() if count is not None}
