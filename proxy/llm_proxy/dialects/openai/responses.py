"""OpenAI Responses: typed events about items, and a response that says all of it again.

A stream ends with an event that holds the whole response (`response.completed`, `.incomplete`,
`.failed`), or with an `error`, which OpenAI spells flat and Azure and gateways nested.  There is
no `[DONE]`; the one that OpenRouter sends proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai import (
    api,
    errors,
    responses_auxiliary,
    responses_decoder,
    responses_request_decoder,
)
from llm_proxy.dialects.openai.responses_capabilities import Asked, asked, vocabulary
from llm_proxy.dialects.openai.responses_encoder import ResponsesSpeech
from llm_proxy.exchange import Head, Headers, Request
from llm_proxy.framing import sse
from llm_proxy.turns import Counting, Failure, Turn

_PATHS: Final = {
    "POST": re.compile(r"/responses(?:/compact|/input_tokens|/[^/]+/cancel)?\Z"),
    "GET": re.compile(r"/responses/[^/]+(?:/input_items)?\Z"),
    "DELETE": re.compile(r"/responses/[^/]+\Z"),
}
"""The ends of the paths, by method."""
_MAKES: Final = re.compile(r"/responses(?:/compact)?\Z")
"""The ends of the paths on which a turn is made."""
_SAYS: Final = (".delta", ".partial_image")
"""How the types of events end that add to what was said."""
_CODED: Final = ".audio.delta"
"""And of those, the ones whose delta is no text."""
_NUMBER: Final = re.compile("[0-9]{1,9}")


class OpenAIResponses:
    """The dialect `openai-responses`."""

    name = "openai-responses"
    volatile = ("$.client_metadata", "$.prompt_cache_key", "$.input[*].id")
    key_headers = ("openai-beta",)
    ids = (
        "$.input[*].call_id",
        "$.input[*].approval_request_id",
    )
    counting = Counting()
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """Whatever is about a response: to create, compact, count, cancel, fetch or delete one."""
        path = _PATHS.get(request.method)
        return path is not None and path.search(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says so, or the query of a response that is fetched."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return api.streams(request)

    def conversation(self, request: Request) -> Conversation | None:
        """The items of the input; none where nothing is made: counts, and what is stored."""
        body = lenient_json.document(request.body)
        makes = request.method == "POST" and _MAKES.search(request.path)
        return responses_request_decoder.read(body) if body and makes else None

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by the event that holds the whole response, or by an error in the stream."""
        return responses_decoder.judge(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing of a response can be read."""
        return responses_decoder.turns(response)

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says; one of sound, or an image in the making, counts as a character."""
        if codec != "sse":
            return 0
        said = api.said(message)
        kind = lenient_json.text(said.get("type"))
        delta = "" if kind.endswith(_CODED) else lenient_json.text(said.get("delta"))
        return max(len(delta), 1) if kind.endswith(_SAYS) else 0

    def keep_alive(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error(kind, message)

    def typical(self, model: str, *, stream: bool) -> Request:
        """Without instructions or tools."""
        options = {"stream": True} if stream else {}
        return response_encoding.post("/v1/responses", {"model": model, **options, "input": ""})

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """As the items of a response, each with an id of its own."""
        words = vocabulary(self._asked(request), delivery, turns)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Events up to the one that holds the whole response, or that one alone."""
        [told] = self.fit(request, turns, delivery).turns
        manner = self._asked(request)
        if told.failure and not manner.stream:
            return self.refuse(errors.status(told.failure), told.failure, delivery)
        return ResponsesSpeech(manner, delivery).response(told)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In the shape of the member of the family that speaks."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """Of requests and tokens."""
        return errors.countdown(delivery)

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """How long a request is; that what was stored is not found."""
        return responses_auxiliary.answer(request, delivery)

    def _asked(self, request: Request) -> Asked:
        number = _NUMBER.fullmatch(parse_qs(request.query).get("starting_after", [""])[0])
        after = int(number[0]) if number else -1
        return asked(request, stream=self.streams(request), after=after)
