"""The dialect `gemini-interactions`: Google's stateful Interactions API.

Unlike in `gemini`, events have names, and a stream ends in `[DONE]`.  A response is a list of
steps: thoughts, text, tool calls, and calls and results of the tools that Google runs itself.
The event `interaction.completed` ends a stream too, whatever the interaction's status.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import (
    interaction_responses,
    interaction_steps,
    requests,
    shared_format,
)
from llm_proxy.dialects.google.shared_format import GoogleDialect
from llm_proxy.dialects.lenient_json import get_text, parse_object, value_as_text
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import Json, Turn

_PATH: Final = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?"
    r"/interactions(?P<of>/(?P<id>[^/]+)(?P<cancel>/cancel)?)?\Z"
)


class GeminiInteractions(GoogleDialect):
    """The dialect `gemini-interactions`."""

    name = interaction_steps.DIALECT
    id_json_paths = (
        "$.input[*].id",
        "$.input[*].call_id",
        "$.input[*].content[*].id",
        "$.input[*].content[*].call_id",
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
        fields = parse_object(request.body)
        return value_as_text(fields.get("model") or fields.get("agent")).removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """By the body's `stream`; for a GET, which resumes an interaction, by the query's."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return parse_object(request.body).get("stream") is True

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation of a new interaction; None for other requests."""
        body = parse_object(request.body)
        is_new = request.method == "POST" and not _interaction_id_of_path(request)
        return requests.decode_interaction_request(body) if body and is_new else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """By `[DONE]`, the event `interaction.completed`, or an error."""
        if response.codec_name != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        for message in reversed(shared_format.rejoin_split_stream_messages(response)):
            if sse.is_done_message(message):
                return Completeness(is_complete=True, reason=sse.DONE_DATA.decode())
            event = shared_format.decode_event(message)
            if event.get("event_type") in interaction_responses.COMPLETED_EVENT_TYPES:
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
        return interaction_responses.decode_events(interaction_responses.parse_events(response))

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of an event."""
        if codec != "sse":
            return 0
        return interaction_responses.event_output_chars(shared_format.decode_event(message))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A new interaction with empty input."""
        fields = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1beta/interactions", {"model": model, "input": "", **fields}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """One step per part."""
        return interaction_responses.wire_format(streams=self.streams(request))

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `[DONE]`, or one document; an interaction of the path keeps its id.

        That of an agent names the agent and no model.
        """
        [turn] = turns
        turn = replace(turn, id=_interaction_id_of_path(request) or turn.id)
        body = parse_object(request.body)
        if (agent := get_text(body, "agent")) and not body.get("model"):
            metadata: dict[str, Json] = {"agent": agent, **dict(turn.metadata)}
            turn = replace(turn, model="", metadata=tuple(metadata.items()))
        streams = self.streams(request)
        return interaction_responses.encode_response(turn, context, streams=streams)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """An empty object for a deletion; the interaction for a cancellation; else None."""
        if request.method == "DELETE":
            return response_encoding.json_response({})
        if request.method == "POST" and (interaction_id := _interaction_id_of_path(request)):
            return interaction_responses.encode_cancelled(interaction_id, context)
        return None


def _interaction_id_of_path(request: Request) -> str:
    """The id of the interaction in the path; empty where it has none."""
    match = _PATH.search(request.path)
    return unquote(match["id"] or "") if match else ""
