"""Google Gemini, on its own API, on Vertex AI, and behind what speaks like them.

The path names model and operation.  `streamGenerateContent` answers in SSE where the query says
`alt=sse`, else in one JSON array that comes over time.  A stream of events has no terminator: it
is over when every candidate has its `finishReason`, when the prompt was blocked, or after an
error, which may be a document that is no SSE at all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy import framing
from llm_proxy.dialects import google_api, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.gemini_candidates import (
    Answer,
    block_reason,
    candidates,
    documents,
    is_finished,
    is_readable,
)
from llm_proxy.exchange import Head, Request, header
from llm_proxy.turns import Turn

_STREAM: Final = "streamGenerateContent"
_POST: Final = re.compile(
    r"(?:/v1internal|/(?:models|tunedModels|endpoints)/(?P<model>.+)):(?P<operation>"
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
            named = reading.words(reading.document(request.body).get("model"))
        return named.removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """Only by its path."""
        return _path(request).endswith(f":{_STREAM}")

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type, else as asked; an array also where one document takes its place.

        Errors are documents, and come labelled as the stream that they are not.
        """
        content_type = header(head.headers, "content-type") or ""
        if not plain.succeeded(head):
            return "whole"
        if framing.by_content_type(content_type) == "sse":
            return "sse"
        if not self.streams(request):
            return "whole"
        return "sse" if _asks_for_events(request) and "json" not in content_type else "json-array"

    def judge(self, response: Response) -> Judgement:
        """Whole by the array's end, or when every candidate finished; by a block; by an error."""
        if response.codec not in ("sse", "json-array") or not plain.succeeded(response.head):
            return plain.judge(response)
        return _judge_stream(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a candidate; a blocked prompt, or an error alone, is a turn of its own."""
        if not plain.succeeded(response.head):
            return (Turn((), failure=google_api.http_failure(response)),)
        answer = Answer()
        for document in documents(response):
            answer.take(document)
        return answer.turns()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Google's shape, whose message and status every client prints."""
        return google_api.error_body(status, kind, message)


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
    if not plain.body(response).strip():
        return Judgement(whole=False, reason="empty stream")
    finished: dict[int, bool] = {}
    blocked = ""
    for document in documents(response):
        if error := document.get("error"):
            return plain.in_band(google_api.failure(error))
        blocked = blocked or block_reason(document)
        for index, candidate in candidates(document):
            finished[index] = finished.get(index, False) or is_finished(candidate)
    if response.codec == "json-array":
        judgement = plain.judge(response)
        return judgement if judgement.whole else replace(judgement, reason="array not closed")
    if missing := _missing(response, finished, blocked):
        return Judgement(whole=False, reason=missing)
    reason = f"prompt blocked: {blocked}" if blocked else "every candidate finished"
    return Judgement(whole=True, reason=reason)


def _missing(response: Response, finished: dict[int, bool], blocked: str) -> str:
    """What a stream of events lacks to be whole; empty where it lacks nothing."""
    if not is_readable(google_api.messages(response)[-1]):
        return "cut inside an event"
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if blocked or (finished and not open_ones):
        return ""
    return f"candidate {', '.join(open_ones)} unfinished" if finished else "no candidate"
