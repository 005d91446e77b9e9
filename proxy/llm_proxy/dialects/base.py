"""The base class of dialects: match, check, decode and encode one provider wire format.

A dialect is pure: values in, values out.  It uses no socket, no file and no other dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import encoding, lenient_json, losses
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.wire import Errors, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Part, TokenCounting, Turn


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether a response is complete according to its own content."""

    is_complete: bool
    reason: str
    """The evidence, or what is missing: `message_stop`, `empty body`."""
    is_proven: bool = True
    """False if nothing in the response can prove completeness."""
    is_error: bool = False
    """Whether the provider ended the stream with an error."""


@dataclass(frozen=True, slots=True)
class DialectResponse:
    """A response in a dialect: the head, and the body split into messages."""

    head: ResponseHead
    codec_name: str
    """The name of the codec that split the body: a name of `llm_proxy.framing.CODECS`."""
    framed_messages: Sequence[bytes]

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.framed_messages)


@dataclass(frozen=True, slots=True)
class ConvertedResponseTurns:
    """Turns as a format can represent them."""

    turns: tuple[Turn, ...]
    losses: tuple[str, ...]
    """Labels of what the format cannot represent: `reasoning`, `metadata provider`."""


@dataclass(frozen=True, slots=True)
class MetadataNames:
    """Where scenarios have a dialect's values: in `provider_metadata`, by provider."""

    read_keys: tuple[str, ...]
    """The keys that are read, besides the provider's name."""
    written_key: str
    """The key of signatures and redacted reasoning of a recorded turn."""
    signature_name: str = "signature"
    redacted_name: str = "redactedData"
    has_base64_signatures: bool = False
    """Whether the provider's clients take a signature only as base64."""


class ResponseDecoder(Protocol):
    """An incremental decoder of one response."""

    def feed(self, message: bytes) -> Sequence[Part]:
        """Decode the next message; return what it adds to the first choice.

        Text, reasoning and refusals are returned as pieces; a tool call when it is complete, in
        the order of the calls.  Media and results of the provider's tools are only in the turn.
        """

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, one per choice."""


class Dialect(ABC):
    """One provider wire format; decoding what it encoded returns the same turns."""

    name: str
    """The name in cassettes and paths: `openai-chat`."""
    volatile_json_paths: tuple[str, ...] = ()
    """JSONPaths of request body fields that clients change in each run: `$.input[*].id`.

    They are not part of the key, so a change here requires a change of
    `matching.KEY_RULES_VERSION`.
    """
    cassette_key_headers: tuple[str, ...] = ()
    """The request headers in the key, in lower case: they change the response.

    They must be stored.  A change here requires a change of `matching.KEY_RULES_VERSION`.
    """
    id_json_paths: tuple[str, ...] = ()
    """JSONPaths of the ids of calls and messages that the request body itself contains.

    References to content stored elsewhere, such as a conversation that the provider keeps, are
    excluded: another id there is another request.  Syntax as in `volatile_json_paths`.  A
    change here requires a new version of the normaliser `call-ids`.
    """
    tool_result_json_paths: tuple[str, ...] = ()
    """JSONPaths of the results of the client's tools in the request body.

    Syntax as in `volatile_json_paths`; `[role=tool]` selects the items of a list that have this
    value, which may contain the wildcard `*`.  A change here requires a new version of the presets
    `codex` and `llm-pytest`.
    """
    prompt_fields = frozenset(
        """
        chat_history contents documents input inputText inputs instances instructions message
        messages preamble prompt query requests system systemInstruction system_instruction texts
        """.split()  # noqa: SIM905 # a table of words, one name a line would hide it
    )
    """The members of the request body, and the form fields, that hold the prompt: messages,
    instructions, inputs; by default those of all dialects."""
    token_counting = TokenCounting()
    """What its usage counts as input and as output."""
    overloaded_status = 503
    """The HTTP status that its providers send when overloaded."""
    metadata_names = MetadataNames(("openai", "azure"), "openai")
    """Its values in scenarios; by default those of OpenAI's family."""
    provider_variants: tuple[str, ...] = ()
    """The values of `EncodeContext.provider` that its responses depend on."""
    counted_texts: frozenset[tuple[str, str]] = frozenset()
    """Pairs of an index and a text among the members of stream messages, where the index counts
    the pieces of the text: any other index identifies one of several interleaved fields."""
    sends_messages_as_choices = False
    """Whether several messages of a synthesized response are choices of one response."""
    errors: Errors
    """The status and the fields of its errors where a failure lacks them."""

    @abstractmethod
    def matches(self, request: Request) -> bool:
        """Whether the request is in this dialect."""

    def model(self, request: Request) -> str:
        """The requested model, by default the body's `model`; empty if the request names none."""
        return lenient_json.value_as_text(lenient_json.parse_object(request.body).get("model"))

    def streams(self, request: Request) -> bool:
        """Whether the request asks for a streamed response: by default, `"stream": true`."""
        return lenient_json.parse_object(request.body).get("stream") is True

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation; None if the request asks for no turn, or is unreadable.

        Never raises; a value of the wrong type counts as absent.
        """
        return None

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request that the provider's own SDK sends for this conversation.

        With a `provider` of `provider_variants`, it has the fields of that provider.  It has no
        credentials.  `extra_fields` replace the body's fields of the same name; objects are merged.
        Decoding it returns the conversation, except for:

        * what only a decoder determines: `reasoning_enabled`, `wants_signed_reasoning`,
          `is_stored_by_provider`;
        * metadata and citations of parts, and the place of the system prompt;
        * empty parts, and text of only whitespace where the API refuses it;
        * the bounds of messages that the format sends as one, and other names of a media type;
        * what the format requires or leaves out as its default, such as a limit of tokens, `{}` for
          a call without arguments, ids of calls in its own form, and `auto` where there is no tool
          choice;
        * what the format has no field for: reasoning that it cannot take back, whether a tool
          failed, the order of parts that it has in separate fields, and the media type of a URL;
        * the messages of a conversation that it has in one text.

        Raises `NotRepresentable`, with the name of the part or option, for anything else that would
        be lost.
        """
        raise NotRepresentable(f"{self.name}: requests cannot be encoded")

    def response_decoder(self, codec_name: str) -> ResponseDecoder:
        """A new decoder of one successful response, fed with messages as they arrive.

        Raises `NotRepresentable` where responses are only decoded whole.
        """
        raise NotRepresentable(f"{self.name}: responses are only decoded whole")

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """The name of the codec for this response body: a name of `llm_proxy.framing.CODECS`.

        By default that of an API that streams SSE: by content type; without one, by the request.
        Errors are always documents, though some are labelled as event streams.
        """
        if not 200 <= head.status < 300:
            return "whole"
        if content_type := header_value(head.headers, "content-type"):
            name = framing.codec_name_for_content_type(content_type)
            return "sse" if name == "sse" else "whole"
        return "sse" if self.streams(request) else "whole"

    @abstractmethod
    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete with its terminator, with every choice finished, or with an in-band error."""

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice.  Never raises; what cannot be decoded is left out."""
        return ()

    def output_chars(self, codec: str, message: bytes) -> int:
        """How many output characters this stream message adds; paces are measured by it.

        A tool call, a sound and an image count as at least one.  0 for metadata, for a message
        that cannot be decoded, and for a body that is not a stream.
        """
        return 0

    def keep_alive_message(self, codec: str) -> bytes:
        """A stream message without content that keeps the connection alive.

        By default an SSE comment.  Empty if the provider has none, or if its own client would
        fail on it.
        """
        return sse.KEEP_ALIVE if codec == "sse" else b""

    @abstractmethod
    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The JSON body of an error in this dialect's own format."""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A typical client request to this model.

        Raises `NotRepresentable` where a response is never encoded.
        """
        raise self._no_turns_error()

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """What a response to this request with these turns can hold.

        Raises `NotRepresentable` where that is no turn.
        """
        raise self._no_turns_error()

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """The response with turns that `encoding.prepared_turns` has prepared."""
        raise self._no_turns_error()

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """The turns as a response to this request can represent them, one per choice.

        Raises `NotRepresentable` if text, tool calls or media would be lost.
        """
        wire_format = self.wire_format(request, turns, context)
        context = replace(context, split_text=encoding.one_piece)
        prepared, response = self._prepare_and_encode(request, turns, wire_format, context)
        decoded = self.decode_response(response)
        if not prepared:
            parts_lost = ("the content before the error",) * any(turn.parts for turn in turns)
            return ConvertedResponseTurns(decoded, parts_lost)
        return ConvertedResponseTurns(
            decoded, losses.between(turns, prepared, decoded, wire_format)
        )

    def prepared_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> tuple[Turn, ...]:
        """The turns that `encode_response` encodes: with ids, without parts that it leaves out."""
        wire_format = self.wire_format(request, turns, context)
        return encoding.prepared_turns(turns, wire_format, self.model(request), context)

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """The response to this request that holds these turns as far as it can.

        Each message is sent at one time.  Raises as `representable_turns` does.
        """
        wire_format = self.wire_format(request, turns, context)
        return self._prepare_and_encode(request, turns, wire_format, context)[1]

    def _prepare_and_encode(
        self,
        request: Request,
        turns: Sequence[Turn],
        wire_format: WireFormat,
        context: EncodeContext,
    ) -> tuple[tuple[Turn, ...], DialectResponse]:
        """The prepared turns and the response; no turns and an error where it replaces them."""
        if not turns or (len(turns) > 1 and not wire_format.has_choices):
            raise NotRepresentable(
                f"{wire_format.dialect} supports only one choice per response, got {len(turns)}"
            )
        failure = encoding.first_failure(turns)
        if failure is not None and not wire_format.is_streamed:
            failed_turn = next(turn for turn in turns if turn.failure)
            return (), self.error_response_of_turn(replace(failed_turn, failure=failure), context)
        prepared = encoding.prepared_turns(turns, wire_format, self.model(request), context)
        return prepared, self.encode_turns(request, prepared, context)

    def error_response_of_turn(self, turn: Turn, context: EncodeContext) -> DialectResponse:
        """The HTTP error in place of a failed turn that is not streamed."""
        failure = turn.failure or Failure("")
        return self.error_response(self.errors.status(failure), failure, context)

    @abstractmethod
    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error; type and code default to those of the status.

        `retry_after` is in s.
        """

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The response headers that report `context.quota`; none if the dialect has none.

        `error_response` sends them, too.
        """
        return ()

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """The response to a request for no turn: models, token counts, embeddings.

        None if the request asks for a turn, or if the response cannot be known.
        """
        return None

    def _no_turns_error(self) -> NotRepresentable:
        return NotRepresentable(f"cannot generate responses in the dialect {self.name}")


class RecordOnlyDialect(Dialect):
    """A dialect that is matched and checked for completeness, but never encoded."""

    def keep_alive_message(self, codec: str) -> bytes:
        """Empty: none is known."""
        return b""


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request (not decoded yet), its dialect, and the context to encode its response with."""

    dialect: Dialect
    request: Request
    context: EncodeContext
