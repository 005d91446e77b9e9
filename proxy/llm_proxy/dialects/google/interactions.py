"""The dialect `gemini-interactions`: Google's stateful Interactions API.

Unlike in `gemini`, events have names, and a stream ends in `[DONE]`.  A response is a list of
steps: thoughts, text, tool calls, and calls and results of the tools that Google runs itself.
The event `interaction.completed` ends a stream too, whatever the interaction's status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import (
    Completeness,
    ConvertedResponseTurns,
    Dialect,
    DialectResponse,
    MetadataNames,
)
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import (
    errors,
    interaction_decoder,
    interaction_request_decoder,
    shared_format,
)
from llm_proxy.dialects.google.interaction_capabilities import capabilities
from llm_proxy.dialects.google.interaction_decoder import InteractionDecoder
from llm_proxy.dialects.google.interaction_encoder import InteractionEncoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, TokenCounting, Turn

_PATH: Final = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?"
    r"/interactions(?P<of>/(?P<id>[^/]+)(?P<cancel>/cancel)?)?\Z"
)


class GeminiInteractions(Dialect):
    """The dialect `gemini-interactions`."""

    name = "gemini-interactions"
    id_json_paths = (
        "$.input[*].id",
        "$.input[*].call_id",
        "$.input[*].content[*].id",
        "$.input[*].content[*].call_id",
    )
    token_counting = TokenCounting(reasoning_is_output=False)
    metadata_names = MetadataNames(
        ("google", "gemini", "vertex"), "google", "thoughtSignature", has_base64_signatures=True
    )

    def matches(self, request: Request) -> bool:
        """Interactions, on Google's own API and on Vertex AI."""
        if (match := _PATH.search(request.path)) is None:
            return False
        if request.method == "POST":
            return match["of"] is None or match["cancel"] is not None
        return request.method in ("GET", "DELETE") and match["of"] is not None

    def model(self, request: Request) -> str:
        """The body's `model`, or its `agent`."""
        fields = lenient_json.parse_object(request.body)
        return lenient_json.value_as_text(fields.get("model") or fields.get("agent")).removeprefix(
            "models/"
        )

    def streams(self, request: Request) -> bool:
        """By the body's `stream`; for a GET, which resumes an interaction, by the query's."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return lenient_json.parse_object(request.body).get("stream") is True

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation of a new interaction; None for other requests."""
        body = lenient_json.parse_object(request.body)
        is_new = request.method == "POST" and not _interaction_id_of_path(request)
        return interaction_request_decoder.decode_request(body) if body and is_new else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """By `[DONE]`, the event `interaction.completed`, or an error."""
        if response.codec_name != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        for message in reversed(shared_format.rejoin_split_stream_messages(response)):
            if sse.is_done_message(message):
                return Completeness(is_complete=True, reason=sse.DONE_DATA.decode())
            event = shared_format.decode_event(message)
            if event.get("event_type") in interaction_decoder.COMPLETED_EVENT_TYPES:
                return Completeness(is_complete=True, reason="interaction completed")
            if error := event.get("error"):
                return json_api.completed_by_error(shared_format.decode_failure(error))
        empty = not json_api.joined_body(response).strip()
        reason = "empty stream" if empty else "no [DONE], interaction not completed"
        return Completeness(is_complete=False, reason=reason)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where the response holds no interaction."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=shared_format.decode_http_error(response)),)
        decoder = InteractionDecoder()
        for event in _parse_events(response):
            decoder.feed(event)
        return decoder.turns()

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of an event."""
        return (
            interaction_decoder.event_output_chars(shared_format.decode_event(message))
            if codec == "sse"
            else 0
        )

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """Google's error format."""
        return shared_format.error_body(status, kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A new interaction with empty input."""
        fields = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1beta/interactions", {"model": model, "input": "", **fields}
        )

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """To one step per part; an interaction that the path names keeps its id."""
        body = lenient_json.parse_object(request.body)
        agent = "" if body.get("model") else lenient_json.value_as_text(body.get("agent"))
        response_capabilities = capabilities(streams=self.streams(request), agent=agent)
        interaction_id = _interaction_id_of_path(request)
        turns_with_id = [
            replace(turn, id=interaction_id) if interaction_id else turn for turn in turns
        ]
        return conversion.convert(
            turns_with_id, response_capabilities, self.model(request), context
        )

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `[DONE]`, or one document."""
        [turn] = self.representable_turns(request, turns, context).turns
        encoder = InteractionEncoder(context)
        if self.streams(request):
            return encoder.encode_stream(turn)
        if turn.failure is not None:
            return self.error_response(
                errors.status_of_failure(turn.failure), turn.failure, context
            )
        return encoder.encode_whole_response(turn)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """Google's error format, with quota and retry delay as details."""
        return errors.error_response(status, failure, context, retry_after)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """An empty object for a deletion; the interaction for a cancellation; else None."""
        if request.method == "DELETE":
            return response_encoding.json_response({})
        if request.method == "POST" and (interaction_id := _interaction_id_of_path(request)):
            return InteractionEncoder(context).encode_cancelled(interaction_id)
        return None


def _interaction_id_of_path(request: Request) -> str:
    """The id of the interaction in the path; empty where it has none."""
    match = _PATH.search(request.path)
    return unquote(match["id"] or "") if match else ""


def _parse_events(response: DialectResponse) -> Iterator[Fields]:
    """The events of a stream; an unstreamed document becomes the event that completes one."""
    if response.codec_name == "sse":
        yield from map(
            shared_format.decode_event, shared_format.rejoin_split_stream_messages(response)
        )
        return
    for document in shared_format.parse_json_objects(json_api.joined_body(response)):
        yield {
            "event_type": interaction_decoder.COMPLETED_EVENT_TYPES[0],
            "interaction": dict(document),
        }
