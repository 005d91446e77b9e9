"""Responses with choices: chats and legacy completions.

    chunk* finish [usage] [DONE]

A stream is chunks without event names, each with a piece of one choice.  Chunks of several choices
either alternate, and each choice finishes; or the choices follow one another, and only the first
has a finish chunk.  Usage has a chunk of its own, if requested; some servers send it with the
finish, and some omit the `[DONE]`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Final, Protocol

from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    get_integer,
    get_items,
    get_object,
    get_objects,
    get_text,
    object_fields,
    parse_object,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.openai import chat_messages, family
from llm_proxy.dialects.openai.chat_messages import MESSAGE_METADATA_FIELDS, ChatMessageDecoder
from llm_proxy.dialects.openai.family import VARIANT_BY_PROVIDER, ProviderVariant, provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import (
    FinishReasons,
    UsageFields,
    WireFormat,
    with_default_error_message,
)
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, FinishReason, Json, Part, Text, Turn, Usage

FINISH: Final = FinishReasons(
    {
        "stop": FinishReason.STOP,
        "eos": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "model_length": FinishReason.CONTEXT_FULL,
        "tool_calls": FinishReason.TOOL_CALLS,
        "function_call": FinishReason.TOOL_CALLS,
        "content_filter": FinishReason.CONTENT_FILTER,
        "error": FinishReason.ERROR,
    },
    {
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.ERROR: "error",
    },
)
"""The finish reasons; tool calls are sent by chats only."""

USAGE: Final = UsageFields(
    {
        "input": ("prompt_tokens",),
        "output": ("completion_tokens",),
        "total": ("total_tokens",),
        "cache_read": ("prompt_tokens_details", "cached_tokens"),
        "cache_write": ("prompt_tokens_details", "cache_write_tokens"),
        "reasoning": ("completion_tokens_details", "reasoning_tokens"),
    },
    required=("input", "output", "total"),
    is_required=True,
    also_at={
        "cache_read": (
            ("prompt_cache_hit_tokens",),
            ("cache_read_input_tokens",),
            ("cached_tokens",),
        ),
        "cache_write": (("cache_creation_input_tokens",),),
        "reasoning": (("reasoning_tokens",),),
    },
)

_RESPONSE_METADATA_FIELDS: Final = ("system_fingerprint", "service_tier", "provider", "citations")
"""Metadata fields of the whole response, repeated in every chunk."""

_CHOICE_METADATA_FIELDS: Final = ("native_finish_reason", "stop_reason")
"""Metadata fields of a choice, beside its finish reason."""

_LOGPROBS: Final = "logprobs"
"""The metadata field for log probabilities of tokens: lists of the provider's own entries."""


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What shapes a response: options of the request, the provider's variant, and the context."""

    stream: bool
    includes_usage: bool
    """Whether the request sets `stream_options.include_usage`."""
    uses_functions: bool
    """Whether the request has legacy `functions` and no `tools`."""
    variant: ProviderVariant
    context: EncodeContext


def _response_options(request: Request, context: EncodeContext) -> ResponseOptions:
    """The options for the response to this request."""
    body = parse_object(request.body)
    return ResponseOptions(
        body.get("stream") is True,
        get_object(body, "stream_options").get("include_usage") is True,
        bool(body.get("functions")) and not body.get("tools"),
        provider_variant(context.provider),
        context,
    )


@dataclass(slots=True)
class _Choice:
    """What was decoded of one choice."""

    message: ChatMessageDecoder = field(default_factory=ChatMessageDecoder)
    finish_raw: str = ""
    failure: Failure | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    logprobs: dict[str, list[Json]] = field(default_factory=dict)


class MessageOfChoice(Protocol):
    """Gets the message in a choice, or the delta in a piece of one."""

    def __call__(self, choice: Fields, *, streamed: bool) -> Fields:
        """The fields of the message or the delta."""


class ChoicesDecoder:
    """Decodes the chunks of a stream, or the one document of a response."""

    def __init__(self, message_of_choice: MessageOfChoice, *, streamed: bool) -> None:
        self._message_of_choice = message_of_choice
        self._is_streamed = streamed
        self._id = self._model = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}
        self._choices: dict[int, _Choice] = {}

    def feed(self, message: bytes) -> list[Part]:
        """Decode a message; the calls of a stream are complete when their choice finishes."""
        return self.feed_document(_document(message, streamed=self._is_streamed))

    def feed_document(self, document: Fields) -> list[Part]:
        """Decode a chunk, or the document of a response that does not stream."""
        self._id = self._id or get_text(document, "id")
        self._model = self._model or get_text(document, "model")
        self._usage = _decode_usage(document) or self._usage
        self._metadata.update(select_metadata(document, _RESPONSE_METADATA_FIELDS))
        if error := document.get("error"):
            self._failure = self._failure or json_api.decode_failure(error)
        pieces: list[Part] = []
        for index, fields in _indexed_choices(document):
            if index not in self._choices:
                self._choices[index] = _Choice()
            added = self._feed_choice(self._choices[index], fields)
            if index == 0:
                pieces += added
        return pieces

    def _feed_choice(self, choice: _Choice, fields: Fields) -> list[Part]:
        """Decode one piece of a choice, or the whole choice."""
        if logprobs := fields.get(_LOGPROBS):
            for name, entries in _nonempty_logprobs(logprobs).items():
                choice.logprobs.setdefault(name, []).extend(entries)
        reason = get_text(fields, "finish_reason")
        if error := fields.get("error"):
            choice.failure = json_api.decode_failure(error)
        message = self._message_of_choice(fields, streamed=self._is_streamed)
        pieces = choice.message.feed(message, streamed=self._is_streamed)
        choice.metadata.update(
            (
                *select_metadata(fields, _CHOICE_METADATA_FIELDS),
                *select_metadata(message, MESSAGE_METADATA_FIELDS),
            )
        )
        if (reason and not choice.finish_raw) or not self._is_streamed:
            pieces += filter(json_api.is_client_call, choice.message.decoded_parts())
        choice.finish_raw = reason or choice.finish_raw
        return pieces

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, by the index of their choice."""
        choices = self._choices or ({0: _Choice()} if self._failure else {})
        return tuple(
            Turn(
                choice.message.decoded_parts(),
                finish=FINISH.decode(choice.finish_raw),
                finish_raw=choice.finish_raw,
                usage=self._usage,
                failure=choice.failure or self._failure,
                id=self._id,
                model=self._model,
                metadata=(
                    *(self._metadata | choice.metadata).items(),
                    *select_metadata({_LOGPROBS: {**choice.logprobs}}, (_LOGPROBS,)),
                ),
            )
            for _, choice in sorted(choices.items())
        )


class ChoicesDialect(family.OpenAIDialect):
    """A dialect whose responses hold choices."""

    provider_variants = tuple(VARIANT_BY_PROVIDER)
    sends_messages_as_choices = True

    path: str
    """The path of its requests after the version."""
    prompt_field: tuple[str, Json]
    """The field that holds the prompt, and its empty value."""
    object_types: tuple[str, str]
    """The `object` of a response, and of a chunk."""
    id_prefix: str
    part_kinds: frozenset[type[Part]] = frozenset((Text,))

    @abstractmethod
    def message_of_choice(self, choice: Fields, *, streamed: bool) -> Fields:
        """The message in a choice, or the delta in a piece of one."""

    @abstractmethod
    def choice_with_content(self, index: int, content: Any, *, streamed: bool) -> Document:
        """A choice with its content, or a piece of one."""

    @abstractmethod
    def encode_content(self, turn: Turn, options: ResponseOptions) -> Iterator[Any]:
        """The content of a choice; in a stream, of its pieces, of which the last finishes it."""

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete at `[DONE]`, when every choice is finished, or at an error in the stream."""
        if response.codec_name != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        if any(map(sse.is_done_message, reversed(response.framed_messages))):
            return Completeness(is_complete=True, reason="[DONE]")
        finished: dict[int, bool] = {}
        for document in map(family.decode_event, response.framed_messages):
            if error := document.get("error"):
                return json_api.completed_by_error(json_api.decode_failure(error))
            for index, choice in _indexed_choices(document):
                finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
        if unfinished := [str(index) for index, done in sorted(finished.items()) if not done]:
            reason = f"no [DONE], choice {', '.join(unfinished)} unfinished"
        elif finished:
            return Completeness(is_complete=True, reason="every choice finished")
        else:
            reason = "no [DONE], no choice"
        return json_api.incomplete(response, reason)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice, by index, each with usage and errors of the whole response.

        An error without choices is one turn.
        """
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        return json_api.decoded_turns(self.response_decoder(response.codec_name), response)

    def response_decoder(self, codec_name: str) -> ChoicesDecoder:
        """A decoder of chunks, or of the document of a response that does not stream."""
        return ChoicesDecoder(self.message_of_choice, streamed=codec_name == "sse")

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters in the pieces of its choices."""
        if codec != "sse":
            return 0
        choices = get_objects(family.decode_event(message), "choices")
        return sum(
            chat_messages.delta_output_chars(self.message_of_choice(choice, streamed=True))
            for choice in choices
        )

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request with an empty prompt; a stream requests usage."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        name, prompt = self.prompt_field
        body = {"model": model, **options, name: prompt}
        return response_encoding.json_post_request(f"/v1{self.path}", body)

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of `wire_format_with`."""
        return self.wire_format_with(_response_options(request, context), turns)

    def wire_format_with(self, options: ResponseOptions, turns: Sequence[Turn]) -> WireFormat:
        """The format of a response; with usage if the provider sends or the request wants it."""
        has_usage = (
            not options.stream or options.includes_usage or options.variant.sends_usage_with_finish
        )
        return WireFormat(
            dialect=self.name,
            is_streamed=options.stream,
            parts=self.part_kinds,
            finish=FINISH,
            usage=USAGE if has_usage else UsageFields({}),
            metadata=(*_RESPONSE_METADATA_FIELDS, *_CHOICE_METADATA_FIELDS, _LOGPROBS),
            response_metadata=_RESPONSE_METADATA_FIELDS,
            id_prefix=self.id_prefix,
            has_choices=True,
        )

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Chunks up to `[DONE]`, or one document; each turn is one choice."""
        options = _response_options(request, context)
        if options.stream:
            return self.stream_response(self.encode_events(turns, options), context)
        choices = [
            _choice(self.choice_with_content(at, content, streamed=False), turn)
            for at, turn in enumerate(turns)
            for content in self.encode_content(turn, options)
        ]
        envelope = _envelope(turns[0], self.object_types[0], context)
        document = {**envelope, "choices": choices, "usage": USAGE.encode(turns[0].usage)}
        return self.json_response(document, context)

    def encode_events(self, turns: Sequence[Turn], options: ResponseOptions) -> Iterator[bytes]:
        """The events of a stream; failure and usage are those of the first turn."""
        first, variant, context = turns[0], options.variant, options.context
        envelope = _envelope(first, self.object_types[1], context)

        def chunk(*choices: Document, usage: Document | None = None) -> bytes:
            document = {**envelope, "choices": choices}
            if usage is not None or options.includes_usage:
                document["usage"] = usage
            return sse.encode_event(response_encoding.single_line_json(document))

        is_successive = context.choices_are_successive
        choices = [
            [
                self.choice_with_content(at, content, streamed=True)
                for content in self.encode_content(turn, options)
            ]
            for at, turn in enumerate(turns)
        ]
        last_pieces = [pieces.pop() for pieces in choices]
        for piece in chain.from_iterable(choices if is_successive else zip_longest(*choices)):
            if piece is not None:
                yield chunk(_choice(piece))
        if first.failure is not None:
            failure = with_default_error_message(first.failure)
            error = {"error": family.error_fields(failure, variant)}
            yield sse.encode_event(
                response_encoding.single_line_json(error), variant.error_event_name
            )
            return
        usage = USAGE.encode(first.usage) if first.usage else None
        finished = turns[:1] if is_successive else turns
        for at, turn in enumerate(finished):
            has_usage = variant.sends_usage_with_finish and at == len(finished) - 1
            yield chunk(_choice(last_pieces[at], turn), usage=usage if has_usage else None)
        if options.includes_usage and not variant.sends_usage_with_finish:
            yield chunk(usage=usage)
        if variant.sends_done:
            yield family.DONE_EVENT


def _document(message: bytes, *, streamed: bool) -> Fields:
    """The chunk of an event, or the document of a body; an error is always in `error`."""
    if streamed:
        return family.decode_event(message)
    return family.wrap_error_object(parse_object(message))


def _indexed_choices(document: Fields) -> Iterator[tuple[int, Fields]]:
    for position, choice in enumerate(get_objects(document, "choices")):
        index = get_integer(choice, "index")
        yield position if index is None else index, choice


def _decode_usage(document: Fields) -> Usage | None:
    """Usage at the top level, else in `x_groq` (Groq's agents) or in a choice (Moonshot)."""
    for place in (document, document.get("x_groq"), *get_items(document, "choices")):
        if isinstance(place, dict) and (usage := get_object(place, "usage")):
            return USAGE.decode(usage)
    return None


def _nonempty_logprobs(logprobs: Json) -> dict[str, list[Json]]:
    """The fields of a `logprobs` object that are non-empty lists."""
    lists = {name: array_items(entries) for name, entries in object_fields(logprobs).items()}
    return {name: entries for name, entries in lists.items() if entries}


def _envelope(turn: Turn, object_type: str, context: EncodeContext) -> Document:
    """The fields beside `choices` of every chunk, or of the whole response."""
    return {
        "id": turn.id,
        "object": object_type,
        "created": context.created_unix_s,
        "model": turn.model,
        **selected_fields(turn.metadata, _RESPONSE_METADATA_FIELDS),
    }


def _choice(choice: Document, finished_turn: Turn | None = None) -> Document:
    """A choice, or a piece of one; with `finished_turn`, also its finish and its metadata."""
    choice[_LOGPROBS] = choice["finish_reason"] = None
    if finished_turn is not None:
        metadata = finished_turn.metadata
        choice[_LOGPROBS] = _nonempty_logprobs(dict(metadata).get(_LOGPROBS)) or None
        choice["finish_reason"] = finished_turn.finish_raw
        choice |= selected_fields(metadata, _CHOICE_METADATA_FIELDS)
    return choice
