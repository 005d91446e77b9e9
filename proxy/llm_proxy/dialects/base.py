"""The dialect protocol: match, check, decode and encode one provider wire format.

A dialect is pure: values in, values out.  It uses no socket, no file and no other dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.conversion import ConvertedResponseTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.turns import Failure, TokenCounting, Turn


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether a response is complete according to its own content."""

    is_complete: bool
    reason: str
    """The evidence, or what is missing: `message_stop`, `empty body`."""
    is_proven: bool = True
    """False if nothing in the response can prove completeness."""


@dataclass(frozen=True, slots=True)
class DialectResponse:
    """A response in a dialect: the head, and the body split into messages."""

    head: ResponseHead
    codec_name: str
    """The name of the codec that split the body: a name of `llm_proxy.framing.CODECS`."""
    framed_messages: Sequence[bytes]


class Dialect(Protocol):
    """One provider wire format; decoding what it encoded returns the same turns."""

    @property
    def name(self) -> str:
        """The name in cassettes and paths: `openai-chat`."""

    @property
    def volatile_json_paths(self) -> tuple[str, ...]:
        """JSONPaths of request body fields that clients change in each run: `$.input[*].id`.

        They are not part of the key, so a change here requires a change of
        `matching.KEY_RULES_VERSION`.
        """

    @property
    def cassette_key_headers(self) -> tuple[str, ...]:
        """The request headers in the key, in lower case: they change the response.

        They must be stored.  A change here requires a change of `matching.KEY_RULES_VERSION`.
        """

    @property
    def id_json_paths(self) -> tuple[str, ...]:
        """JSONPaths of the ids of calls and messages that the request body itself contains.

        References to content stored elsewhere, such as a conversation that the provider keeps, are
        excluded: another id there is another request.  Syntax as in `volatile_json_paths`.  A
        change here requires a new version of the normaliser `call-ids`.
        """

    @property
    def token_counting(self) -> TokenCounting:
        """What its usage counts as input and as output."""

    @property
    def overloaded_status(self) -> int:
        """The HTTP status that its providers send when overloaded."""

    def matches(self, request: Request) -> bool:
        """Whether the request is in this dialect."""

    def model(self, request: Request) -> str:
        """The requested model; empty if the request names none."""

    def streams(self, request: Request) -> bool:
        """Whether the request asks for a streamed response."""

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation; None if the request asks for no turn, or is unreadable.

        Never raises; a value of the wrong type counts as absent.
        """

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """The name of the codec for this response body: a name of `llm_proxy.framing.CODECS`."""

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete with its terminator, with every choice finished, or with an in-band error."""

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice.  Never raises; what cannot be decoded is left out."""

    def output_chars(self, codec: str, message: bytes) -> int:
        """How many output characters this stream message adds; paces are measured by it.

        A tool call, a sound and an image count as at least one.  0 for metadata, for a message
        that cannot be decoded, and for a body that is not a stream.
        """

    def keep_alive_message(self, codec: str) -> bytes:
        """A stream message without content that keeps the connection alive.

        Empty if the provider has none, or if its own client would fail on it.
        """

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The JSON body of an error in this dialect's own format."""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A typical client request to this model."""

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """The turns as a response to this request can represent them, one per choice.

        Raises `NotRepresentable` if text, tool calls or media would be lost.
        """

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """The response to this request that holds these turns, after `convert`.

        Each message is sent at one time.  Raises as `convert` does.
        """

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

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """The response to a request for no turn: models, token counts, embeddings.

        None if the request asks for a turn, or if the response cannot be known.
        """
