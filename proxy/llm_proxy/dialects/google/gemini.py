"""Google Gemini, on its own API, on Vertex AI, and behind what speaks like them.

The path names model and operation.  `streamGenerateContent` answers in SSE where the query says
`alt=sse`, else in one JSON array that comes over time.  A stream of events has no terminator: it
is over when every candidate has its `finishReason`, when the prompt was blocked, or after an
error, which may be a document that is no SSE at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, quote, unquote

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import api, auxiliary_responses, errors, gemini_request_decoder
from llm_proxy.dialects.google.gemini_capabilities import Asked, Form, vocabulary
from llm_proxy.dialects.google.gemini_decoder import (
    Answer,
    block_reason,
    candidates,
    documents,
    is_finished,
    is_readable,
    says,
)
from llm_proxy.dialects.google.gemini_encoder import GeminiSpeech
from llm_proxy.errors import CannotSay, printable
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.turns import Counting, Failure, Turn

_WHOLE: Final = "generateContent"
_STREAM: Final = "streamGenerateContent"
_ASSIST: Final = "/v1internal"
"""The path of Code Assist, which names no model and wraps what it says."""
_VERTEX: Final = re.compile("/(?:projects|publishers|endpoints)/")
_POST: Final = re.compile(
    rf"(?:{_ASSIST}|/(?:models|tunedModels|endpoints)/(?P<model>.*)):(?P<operation>"
    r"generateContent|streamGenerateContent|countTokens|computeTokens|embedContent"
    r"|batchEmbedContents|asyncBatchEmbedContent|batchGenerateContent)\Z"
)
_PREDICT: Final = re.compile(
    r"/(?:v1beta1?|v1alpha|publishers/google)/models/(?P<model>[^/:]+)"
    r":(?P<operation>predict|predictLongRunning)\Z"
)
"""Images, videos and embeddings of Vertex; without the front it is what other servers speak."""
_GET: Final = re.compile(
    r"/(?P<front>v1|v1beta1?|v1alpha|publishers/google)/(?:models|tunedModels)"
    r"(?:/(?P<model>[^/:]+))?\Z"
)
_OTHER_PUBLISHER: Final = re.compile(r"/publishers/(?!google/)")


class Gemini:
    """The dialect `gemini`."""

    name = "gemini"
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids = (
        "$.contents[*].parts[*].functionCall.id",
        "$.contents[*].parts[*].functionResponse.id",
        "$.contents[*].parts[*].function_call.id",
        "$.contents[*].parts[*].function_response.id",
    )
    counting = Counting(reasoning_is_output=False)
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """Operations on a model, and the list of models where it cannot be OpenAI's."""
        if (asked := _asked(request)) is None or _OTHER_PUBLISHER.search(request.path):
            return False
        return asked.re is not _GET or asked["front"] != "v1" or _has_key(request)

    def model(self, request: Request) -> str:
        """The one in the path; the body's where the path has none (Code Assist)."""
        asked = _asked(request)
        named = (asked["model"] if asked else "") or ""
        if not named and request.method == "POST":
            named = lenient_json.words(lenient_json.document(request.body).get("model"))
        return named.removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """Only by its path."""
        return _path(request).endswith(f":{_STREAM}")

    def conversation(self, request: Request) -> Conversation | None:
        """The contents, where content is to be generated."""
        body = lenient_json.document(request.body)
        asks = _path(request).endswith((f":{_WHOLE}", f":{_STREAM}"))
        return gemini_request_decoder.read(body) if body and asks else None

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type, else as asked; an array also where one document takes its place.

        Errors are documents, and come labelled as the stream that they are not.
        """
        content_type = header(head.headers, "content-type") or ""
        if not json_api.succeeded(head):
            return "whole"
        if framing.by_content_type(content_type) == "sse":
            return "sse"
        if not self.streams(request):
            return "whole"
        return "sse" if _asks_for_events(request) and "json" not in content_type else "json-array"

    def judge(self, response: Response) -> Judgement:
        """Whole by the array's end, or when every candidate finished; by a block; by an error."""
        if response.codec not in ("sse", "json-array") or not json_api.succeeded(response.head):
            return json_api.judge(response)
        return _judge_stream(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a candidate; a blocked prompt, or an error alone, is a turn of its own."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=api.http_failure(response)),)
        answer = Answer()
        for document in documents(response):
            answer.take(document)
        return answer.turns()

    def says(self, codec: str, message: bytes) -> int:
        """What the parts of its candidates say."""
        return says(codec, message)

    def keep_alive(self, codec: str) -> bytes:
        """None: Google's own clients crash on comments."""
        return b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Google's shape, whose message and status every client prints."""
        return api.error_body(status, kind, message)

    def typical(self, model: str, *, stream: bool) -> Request:
        """In events where it streams."""
        path = f"/v1beta/models/{quote(model)}:{_STREAM if stream else _WHOLE}"
        asked = response_encoding.post(path, {"contents": []})
        return replace(asked, query="alt=sse") if stream else asked

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """As candidates; a blocked prompt where one turn is that."""
        words = vocabulary(self._manner(request), alone=len(turns) == 1)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Events, an array of the same documents, or one document."""
        told = self.fit(request, turns, delivery).turns
        if (failure := told[0].failure) and not self.streams(request):
            return self.refuse(errors.status(failure), failure, delivery)
        return GeminiSpeech(self._manner(request), delivery).response(told)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """A status in words, with what it takes to go on as details."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """None: only the error of an exhausted quota names it."""
        return ()

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """Models, counts of tokens, and embeddings."""
        asked = _asked(request)
        if asked is None:
            return None
        if asked.re is not _GET:
            return auxiliary_responses.posted(
                asked["operation"], lenient_json.document(request.body)
            )
        vertex = "publishers" in asked["front"]
        if asked["model"] is None:
            return auxiliary_responses.models(delivery, vertex=vertex)
        return auxiliary_responses.model(asked["model"], delivery, vertex=vertex)

    def _manner(self, request: Request) -> Asked:
        asked = _asked(request)
        path = _path(request)
        operation = asked["operation"] if asked and asked.re is not _GET else ""
        if operation not in (_WHOLE, _STREAM):
            raise CannotSay(f"gemini tells no turn in answer to {printable(path, 200)}")
        form: Form = "sse" if _asks_for_events(request) else "json-array"
        return Asked(
            form=form if operation == _STREAM else "whole",
            wrapped=path.endswith(f"{_ASSIST}:{operation}"),
            recited="citations" if _VERTEX.search(path) else "citationSources",
        )


def _path(request: Request) -> str:
    """The path as its clients mean it: some write the colon as `%3A`."""
    return unquote(request.path)


def _asked(request: Request) -> re.Match[str] | None:
    """The model and the operation that a request names; None where it is not Gemini's."""
    path = _path(request)
    match request.method:
        case "POST":
            return _POST.search(path) or _PREDICT.search(path)
        case "GET":
            return _GET.search(path)
        case _:
            return None


def _query(request: Request) -> dict[str, list[str]]:
    return parse_qs(request.query)


def _has_key(request: Request) -> bool:
    """Whether it carries a key as only Google's clients do."""
    return header(request.headers, "x-goog-api-key") is not None or "key" in _query(request)


def _asks_for_events(request: Request) -> bool:
    asked = _query(request)
    return "sse" in (*asked.get("alt", ()), *asked.get("$alt", ()))


def _judge_stream(response: Response) -> Judgement:
    if not json_api.body(response).strip():
        return Judgement(whole=False, reason="empty stream")
    finished: dict[int, bool] = {}
    blocked = ""
    for document in documents(response):
        if error := document.get("error"):
            return json_api.in_band(api.failure(error))
        blocked = blocked or block_reason(document)
        for index, candidate in candidates(document):
            finished[index] = finished.get(index, False) or is_finished(candidate)
    if response.codec == "json-array":
        judgement = json_api.judge(response)
        return judgement if judgement.whole else replace(judgement, reason="array not closed")
    if missing := _missing(response, finished, blocked):
        return Judgement(whole=False, reason=missing)
    reason = f"prompt blocked: {blocked}" if blocked else "every candidate finished"
    return Judgement(whole=True, reason=reason)


def _missing(response: Response, finished: dict[int, bool], blocked: str) -> str:
    """What a stream of events lacks to be whole; empty where it lacks nothing."""
    if not is_readable(api.messages(response)[-1]):
        return "cut inside an event"
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if blocked or (finished and not open_ones):
        return ""
    return f"candidate {', '.join(open_ones)} unfinished" if finished else "no candidate"
