"""The dialect protocol: recognise, check, decode and encode one provider wire format.

A dialect takes values and gives values.  It knows no socket and no file, and no other dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.turns import Failure, TokenCounting, Turn


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether the response says of itself that it is whole."""

    is_complete: bool
    reason: str
    """What proves it, or what is missing, in a few words."""
    is_proven: bool = True
    """False where nothing in the response could prove it."""


@dataclass(frozen=True, slots=True)
class DialectResponse:
    """A response as a dialect sees it: the head, and the body cut into messages."""

    head: ResponseHead
    codec: str
    """The name of the codec that cut the body."""
    messages: Sequence[bytes]


class Dialect(Protocol):
    """One provider wire format: what is told in it is read as it was told."""

    @property
    def name(self) -> str:
        """As it stands in cassettes and paths: `openai-chat`."""

    @property
    def volatile_paths(self) -> tuple[str, ...]:
        """Paths of a request's body that its clients fill anew in each run: `$.input[*].id`.

        They don't enter the key, so a change here is a change of `matching.KEY_RULES`.
        """

    @property
    def key_headers(self) -> tuple[str, ...]:
        """The request headers that enter the key, in lower case: they change what is answered.

        They must be stored, and a change here is a change of `matching.KEY_RULES`.
        """

    @property
    def id_paths(self) -> tuple[str, ...]:
        """Paths of a request's body where ids of calls and messages stand that it holds itself.

        What refers to words that stand elsewhere, such as a conversation that the provider keeps,
        is none: another one asks something else.  As in `volatile`; a change here is a new version
        of the normaliser `call-ids`.
        """

    @property
    def token_counting(self) -> TokenCounting:
        """What its usage counts."""

    @property
    def overloaded_status(self) -> int:
        """The status by which its providers say that they have too much to do."""

    def matches(self, request: Request) -> bool:
        """Whether this request speaks this dialect."""

    def model(self, request: Request) -> str:
        """The model asked for, empty where the request names none."""

    def streams(self, request: Request) -> bool:
        """Whether the request asks for a stream."""

    def decode_request(self, request: Request) -> Conversation | None:
        """What the request asks for a turn; None where it asks for none, or says nothing readable.

        Never raises; what is of another kind than it should be counts as absent.
        """

    def codec(self, request: Request, head: ResponseHead) -> str:
        """The codec for the body of this response: a name of `llm_proxy.framing.CODECS`."""

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whether it is whole: its terminator, every choice finished, or its own error."""

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """What was said: one turn a choice.  Never raises; what it cannot read it leaves out."""

    def output_chars(self, codec: str, message: bytes) -> int:
        """How many characters this message of a stream adds to what was said: a pace's measure.

        A call, a sound and an image count as one at least.  0 for what stands beside the words,
        for what cannot be read, and for a body that is no stream.
        """

    def keep_alive_message(self, codec: str) -> bytes:
        """The message by which a stream of this framing shows that it lives, and says nothing.

        Empty where the provider has none, or a client of its own would stumble over it.
        """

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The JSON body of an error in this dialect's own shape."""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """The request that a client makes for an answer of this model."""

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """The turns as an answer to this request can tell them, one a choice.

        Raises `NotRepresentable` where the answer would not be the same.
        """

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """The answer to this request that tells these turns, as far as they fit.

        A message is what goes out at one time.  Raises as `fit` does.
        """

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error that says this; type and code are the status's own where it has none.

        `retry_after` is in s.
        """

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The headers of any answer that count down `delivery.quota`; none where it has no words.

        They are those that `refuse` tells, too.
        """

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """The answer to what clients ask beside turns: models, counts of tokens, embeddings.

        None where a turn is asked for, or nobody could know the answer.
        """
