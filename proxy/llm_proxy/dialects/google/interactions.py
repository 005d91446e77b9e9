"""Google's Interactions API: a server that keeps the conversation, and says it step by step.

Here events have names, and a stream ends in `[DONE]`; Gemini's own streams have neither.  What
was said is a list of steps: thoughts, text, calls, and the tools that Google runs itself.  The
event `interaction.completed` ends a stream too, with whatever status the interaction has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import api, errors, interaction_decoder, interaction_request_decoder
from llm_proxy.dialects.google.interaction_capabilities import vocabulary
from llm_proxy.dialects.google.interaction_decoder import Interaction
from llm_proxy.dialects.google.interaction_encoder import InteractionSpeech
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Head, Headers, Request
from llm_proxy.framing import sse
from llm_proxy.turns import Counting, Failure, Turn

_PATH: Final = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?"
    r"/interactions(?P<of>/(?P<id>[^/]+)(?P<cancel>/cancel)?)?\Z"
)


class GeminiInteractions:
    """The dialect `gemini-interactions`."""

    name = "gemini-interactions"
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids = (
        "$.input[*].id",
        "$.input[*].call_id",
        "$.input[*].content[*].id",
        "$.input[*].content[*].call_id",
    )
    counting = Counting(reasoning_is_output=False)
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """Interactions, on Google's own API and on Vertex AI."""
        if (asked := _PATH.search(request.path)) is None:
            return False
        if request.method == "POST":
            return asked["of"] is None or asked["cancel"] is not None
        return request.method in ("GET", "DELETE") and asked["of"] is not None

    def model(self, request: Request) -> str:
        """The model that is asked, or the agent."""
        asked = lenient_json.document(request.body)
        return lenient_json.words(asked.get("model") or asked.get("agent")).removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """Where the body says so, or the query of one that is taken up again."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return lenient_json.document(request.body).get("stream") is True

    def conversation(self, request: Request) -> Conversation | None:
        """The input of a new interaction."""
        body = lenient_json.document(request.body)
        is_new = request.method == "POST" and not _identity(request)
        return interaction_request_decoder.read(body) if body and is_new else None

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type; where there is none, by what was asked for."""
        return json_api.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by the event that completes it, or by an error."""
        if response.codec != "sse" or not json_api.succeeded(response.head):
            return json_api.judge(response)
        for message in reversed(api.messages(response)):
            if sse.is_done(message):
                return Judgement(whole=True, reason=sse.DONE.decode())
            event = api.event(message)
            if event.get("event_type") in interaction_decoder.COMPLETED:
                return Judgement(whole=True, reason="interaction completed")
            if error := event.get("error"):
                return json_api.in_band(api.failure(error))
        empty = not json_api.body(response).strip()
        reason = "empty stream" if empty else "no [DONE], interaction not completed"
        return Judgement(whole=False, reason=reason)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing of an interaction can be read."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=api.http_failure(response)),)
        said = Interaction()
        for event in _events(response):
            said.take(event)
        return said.turns()

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says."""
        return interaction_decoder.says(api.event(message)) if codec == "sse" else 0

    def keep_alive(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Google's shape."""
        return api.error_body(status, kind, message)

    def typical(self, model: str, *, stream: bool) -> Request:
        """A question without any words."""
        asked = {"stream": True} if stream else {}
        return response_encoding.post(
            "/v1beta/interactions", {"model": model, "input": "", **asked}
        )

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """As steps; an interaction that is asked for by its id has it."""
        body = lenient_json.document(request.body)
        agent = "" if body.get("model") else lenient_json.words(body.get("agent"))
        words = vocabulary(streams=self.streams(request), agent=agent)
        known = _identity(request)
        told = [replace(turn, id=known) if known else turn for turn in turns]
        return conversion.fit(told, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Events up to `[DONE]`, or one document."""
        [turn] = self.fit(request, turns, delivery).turns
        spoken = InteractionSpeech(delivery)
        if self.streams(request):
            return spoken.stream(turn)
        if turn.failure is not None:
            return self.refuse(errors.status(turn.failure), turn.failure, delivery)
        return spoken.whole(turn)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """As Google's other APIs do."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """None: only the error of an exhausted quota names it."""
        return ()

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """What is cancelled or deleted says nothing more."""
        if request.method == "DELETE":
            return response_encoding.document({})
        if request.method == "POST" and (identity := _identity(request)):
            return InteractionSpeech(delivery).cancelled(identity)
        return None


def _identity(request: Request) -> str:
    """The interaction that the path names; empty where it names none."""
    asked = _PATH.search(request.path)
    return unquote(asked["id"] or "") if asked else ""


def _events(response: Response) -> Iterator[Fields]:
    """The events of a stream; the one document of a body is read as the event that ends one."""
    if response.codec == "sse":
        yield from map(api.event, api.messages(response))
        return
    for document in api.documents(json_api.body(response)):
        yield {"event_type": interaction_decoder.COMPLETED[0], "interaction": dict(document)}
