"""The dialect `gemini`: Google's own API, Vertex AI, and compatible servers.

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
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import (
    auxiliary_responses,
    errors,
    gemini_request_decoder,
    shared_format,
)
from llm_proxy.dialects.google.gemini_capabilities import Form, GeminiResponseOptions, capabilities
from llm_proxy.dialects.google.gemini_decoder import (
    GeminiResponseDecoder,
    candidates_by_index,
    has_finish_reason,
    is_complete_message,
    message_output_chars,
    parse_documents,
    prompt_block_reason,
)
from llm_proxy.dialects.google.gemini_encoder import GeminiEncoder
from llm_proxy.errors import NotRepresentable, printable
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.turns import Failure, TokenCounting, Turn

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
    volatile_paths: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    id_paths = (
        "$.contents[*].parts[*].functionCall.id",
        "$.contents[*].parts[*].functionResponse.id",
        "$.contents[*].parts[*].function_call.id",
        "$.contents[*].parts[*].function_response.id",
    )
    token_counting = TokenCounting(reasoning_is_output=False)
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """Operations on a model, and the list of models where it cannot be OpenAI's."""
        if (match := _model_and_operation(request)) is None or _OTHER_PUBLISHER.search(
            request.path
        ):
            return False
        return match.re is not _GET or match["front"] != "v1" or _has_google_key(request)

    def model(self, request: Request) -> str:
        """The one in the path; the body's where the path has none (Code Assist)."""
        match = _model_and_operation(request)
        named = (match["model"] if match else "") or ""
        if not named and request.method == "POST":
            named = lenient_json.printable_text(
                lenient_json.parse_object(request.body).get("model")
            )
        return named.removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """Only by its path."""
        return _normal_path(request).endswith(f":{_STREAM}")

    def decode_request(self, request: Request) -> Conversation | None:
        """The contents, where content is to be generated."""
        body = lenient_json.parse_object(request.body)
        asks = _normal_path(request).endswith((f":{_WHOLE}", f":{_STREAM}"))
        return gemini_request_decoder.decode_request(body) if body and asks else None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """Events by content type, else as asked; an array also where one document takes its place.

        Errors are documents, and come labelled as the stream that they are not.
        """
        content_type = header_value(head.headers, "content-type") or ""
        if not json_api.succeeded(head):
            return "whole"
        if framing.codec_of_content_type(content_type) == "sse":
            return "sse"
        if not self.streams(request):
            return "whole"
        return "sse" if _requests_sse(request) and "json" not in content_type else "json-array"

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by the array's end, or when every candidate finished; by a block; by an error."""
        if response.codec not in ("sse", "json-array") or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        return _stream_completeness(response)

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn a candidate; a blocked prompt, or an error alone, is a turn of its own."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=shared_format.decode_http_error(response)),)
        answer = GeminiResponseDecoder()
        for document in parse_documents(response):
            answer.feed(document)
        return answer.turns()

    def output_chars(self, codec: str, message: bytes) -> int:
        """What the parts of its candidates say."""
        return message_output_chars(codec, message)

    def keep_alive_message(self, codec: str) -> bytes:
        """None: Google's own clients crash on comments."""
        return b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """Google's shape, whose message and status every client prints."""
        return shared_format.error_body(status, kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """In events where it streams."""
        path = f"/v1beta/models/{quote(model)}:{_STREAM if stream else _WHOLE}"
        request = response_encoding.json_post_request(path, {"contents": []})
        return replace(request, query="alt=sse") if stream else request

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """As candidates; a blocked prompt where one turn is that."""
        words = capabilities(self._response_options(request), is_single=len(turns) == 1)
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events, an array of the same documents, or one document."""
        values = self.convert(request, turns, context).turns
        if (failure := values[0].failure) and not self.streams(request):
            return self.error_response(errors.status_of_failure(failure), failure, context)
        return GeminiEncoder(self._response_options(request), context).encode_response(values)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """A status in words, with what it takes to go on as details."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """None: only the error of an exhausted quota names it."""
        return ()

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Models, counts of tokens, and embeddings."""
        match = _model_and_operation(request)
        if match is None:
            return None
        if match.re is not _GET:
            return auxiliary_responses.auxiliary_response_of(
                match["operation"], lenient_json.parse_object(request.body)
            )
        vertex = "publishers" in match["front"]
        if match["model"] is None:
            return auxiliary_responses.models_response(context, vertex=vertex)
        return auxiliary_responses.model_response(match["model"], context, vertex=vertex)

    def _response_options(self, request: Request) -> GeminiResponseOptions:
        match = _model_and_operation(request)
        path = _normal_path(request)
        operation = match["operation"] if match and match.re is not _GET else ""
        if operation not in (_WHOLE, _STREAM):
            raise NotRepresentable(f"gemini tells no turn in answer to {printable(path, 200)}")
        form: Form = "sse" if _requests_sse(request) else "json-array"
        return GeminiResponseOptions(
            stream_form=form if operation == _STREAM else "whole",
            is_wrapped=path.endswith(f"{_ASSIST}:{operation}"),
            recitation_field="citations" if _VERTEX.search(path) else "citationSources",
        )


def _normal_path(request: Request) -> str:
    """The path as its clients mean it: some write the colon as `%3A`."""
    return unquote(request.path)


def _model_and_operation(request: Request) -> re.Match[str] | None:
    """The model and the operation that a request names; None where it is not Gemini's."""
    path = _normal_path(request)
    match request.method:
        case "POST":
            return _POST.search(path) or _PREDICT.search(path)
        case "GET":
            return _GET.search(path)
        case _:
            return None


def _query_parameters(request: Request) -> dict[str, list[str]]:
    return parse_qs(request.query)


def _has_google_key(request: Request) -> bool:
    """Whether it carries a key as only Google's clients do."""
    return header_value(
        request.headers, "x-goog-api-key"
    ) is not None or "key" in _query_parameters(request)


def _requests_sse(request: Request) -> bool:
    fields = _query_parameters(request)
    return "sse" in (*fields.get("alt", ()), *fields.get("$alt", ()))


def _stream_completeness(response: DialectResponse) -> Completeness:
    if not json_api.joined_body(response).strip():
        return Completeness(is_complete=False, reason="empty stream")
    finished: dict[int, bool] = {}
    blocked = ""
    for document in parse_documents(response):
        if error := document.get("error"):
            return json_api.completeness_by_error(shared_format.decode_failure(error))
        blocked = blocked or prompt_block_reason(document)
        for index, candidate in candidates_by_index(document):
            finished[index] = finished.get(index, False) or has_finish_reason(candidate)
    if response.codec == "json-array":
        judgement = json_api.completeness(response)
        return judgement if judgement.is_complete else replace(judgement, reason="array not closed")
    if missing := _missing_ending(response, finished, blocked):
        return Completeness(is_complete=False, reason=missing)
    reason = f"prompt blocked: {blocked}" if blocked else "every candidate finished"
    return Completeness(is_complete=True, reason=reason)


def _missing_ending(response: DialectResponse, finished: dict[int, bool], blocked: str) -> str:
    """What a stream of events lacks to be whole; empty where it lacks nothing."""
    if not is_complete_message(shared_format.join_split_messages(response)[-1]):
        return "cut inside an event"
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if blocked or (finished and not open_ones):
        return ""
    return f"candidate {', '.join(open_ones)} unfinished" if finished else "no candidate"
