"""The dialect `gemini`: Google's own API, Vertex AI, and compatible servers.

The path names model and operation.  `streamGenerateContent` responds in SSE where the query has
`alt=sse`, else in one JSON array that is sent element by element.  A stream of events has no
terminator: it is over when every candidate has its `finishReason`, when the prompt is blocked, or
after an error, which may be a document without SSE framing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final
from urllib.parse import parse_qs, quote, unquote

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes, json_api, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.google import gemini_requests, gemini_responses, shared_format
from llm_proxy.dialects.google.gemini_responses import ResponseCodec, ResponseOptions
from llm_proxy.dialects.google.shared_format import GoogleDialect
from llm_proxy.dialects.lenient_json import (
    Fields,
    first_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    parse_object,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.errors import NotRepresentable, printable_excerpt
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.framing.sse import is_done_message, parse_event
from llm_proxy.turns import Json, Turn

_GENERATE: Final = "generateContent"
_STREAM_GENERATE: Final = "streamGenerateContent"
_CODE_ASSIST_PATH: Final = "/v1internal"
"""The path of Code Assist, which names no model and wraps requests and responses."""
_VERTEX_PATH: Final = re.compile("/(?:projects|publishers|endpoints)/")
_POST_PATH: Final = re.compile(
    rf"(?:{_CODE_ASSIST_PATH}|/(?:models|tunedModels|endpoints)/(?P<model>.*)):(?P<operation>"
    r"generateContent|streamGenerateContent|countTokens|computeTokens|embedContent"
    r"|batchEmbedContents|asyncBatchEmbedContent|batchGenerateContent)\Z"
)
_PREDICT_PATH: Final = re.compile(
    r"/(?:v1beta1?|v1alpha|publishers/google)/models/(?P<model>[^/:]+)"
    r":(?P<operation>predict|predictLongRunning)\Z"
)
"""Images, videos and embeddings of Vertex; other servers have the path without these prefixes."""
_MODELS_PATH: Final = re.compile(
    r"/(?P<front>v1|v1beta1?|v1alpha|publishers/google)/(?:models|tunedModels)"
    r"(?:/(?P<model>[^/:]+))?(?P<operation>)\Z"
)
_OTHER_PUBLISHER_PATH: Final = re.compile(r"/publishers/(?!google/)")

_EMBEDDING_DIMENSIONS: Final = 768
_INPUT_LIMIT_TOKENS, _OUTPUT_LIMIT_TOKENS = 1_048_576, 65_536
"""The limits of every model."""
_GENERATION_METHODS: Final = ("generateContent", "countTokens", "embedContent")
_MODEL_INPUT_FIELDS: Final = ("systemInstruction", "contents", "instances", "tools")
"""The fields of a request that count as input tokens."""
_TEXT_HOLDER_FIELDS: Final = ("parts", "text", "content", "prompt")
_JSON_INPUT_FIELDS: Final = ("functionCall", "functionResponse", "functionDeclarations")


class Gemini(GoogleDialect):
    """The dialect `gemini`."""

    name = "gemini"
    id_json_paths = (
        "$.contents[*].parts[*].functionCall.id",
        "$.contents[*].parts[*].functionResponse.id",
        "$.contents[*].parts[*].function_call.id",
        "$.contents[*].parts[*].function_response.id",
    )
    tool_result_json_paths = (
        "$.contents[*].parts[*].functionResponse.response",
        "$.contents[*].parts[*].function_response.response",
    )

    def matches(self, request: Request) -> bool:
        """Operations on a model; the list of models where the request cannot be OpenAI's.

        A key in `x-goog-api-key`, or in the query, is of Google's clients alone.
        """
        if (match := _match_path(request)) is None or _OTHER_PUBLISHER_PATH.search(request.path):
            return False
        return (
            match.re is not _MODELS_PATH
            or match["front"] != "v1"
            or header_value(request.headers, "x-goog-api-key") is not None
            or "key" in parse_qs(request.query)
        )

    def model(self, request: Request) -> str:
        """The model of the path; the body's where the path has none (Code Assist)."""
        match = _match_path(request)
        name = match["model"] if match else ""
        if not name and request.method == "POST":
            name = get_text(parse_object(request.body), "model")
        return (name or "").removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """By the path alone."""
        return _unquoted_path(request).endswith(f":{_STREAM_GENERATE}")

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation of a request that generates content; None for other operations."""
        body = parse_object(request.body)
        is_generation = _unquoted_path(request).endswith((f":{_GENERATE}", f":{_STREAM_GENERATE}"))
        if not (body and is_generation):
            return None
        return replace(gemini_requests.decode_request(body), model=self.model(request))

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request that generates a content; with `alt=sse` where it streams."""
        return gemini_requests.encode_request(conversation, stream=stream)

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """SSE by content type, else by the request.

        Other JSON in response to a streaming request is `json-array`, also where one document takes
        the place of the array.  HTTP errors are documents, even those labelled as a stream.
        """
        content_type = header_value(head.headers, "content-type") or ""
        if not json_api.succeeded(head):
            return "whole"
        if framing.codec_name_for_content_type(content_type) == "sse":
            return "sse"
        if not self.streams(request):
            return "whole"
        return "sse" if _requests_sse(request) and "json" not in content_type else "json-array"

    def completeness(self, response: DialectResponse) -> Completeness:
        """By the array's end, finished candidates, a blocked prompt, or an error."""
        is_stream = response.codec_name in gemini_responses.STREAM_CODECS
        if not is_stream or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        if not response.body.strip():
            return Completeness(is_complete=False, reason="empty stream")
        finished_by_index: dict[int, bool] = {}
        block_reason = ""
        messages = shared_format.rejoin_split_stream_messages(response)
        for document in chain.from_iterable(
            gemini_responses.parse_chunks(response.codec_name, message) for message in messages
        ):
            if error := document.get("error"):
                return json_api.completed_by_error(shared_format.decode_failure(error))
            block_reason = block_reason or gemini_responses.prompt_block_reason(document)
            for index, candidate in gemini_responses.indexed_candidates(document):
                is_finished = bool(gemini_responses.finish_reason(candidate))
                finished_by_index[index] = finished_by_index.get(index, False) or is_finished
        if response.codec_name == "json-array":
            completeness = json_api.completeness(response)
            reason = completeness.reason if completeness.is_complete else "array not closed"
            return replace(completeness, reason=reason)
        unfinished = [str(index) for index, done in sorted(finished_by_index.items()) if not done]
        missing = ""
        if not _is_complete_event(messages[-1]):
            missing = "cut inside an event"
        elif unfinished and not block_reason:
            missing = f"candidate {', '.join(unfinished)} unfinished"
        elif not finished_by_index and not block_reason:
            missing = "no candidate"
        if missing:
            return Completeness(is_complete=False, reason=missing)
        reason = f"prompt blocked: {block_reason}" if block_reason else "every candidate finished"
        return Completeness(is_complete=True, reason=reason)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per candidate; one turn for a blocked prompt or an error without candidates."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=shared_format.decode_http_error(response)),)
        messages = shared_format.rejoin_split_stream_messages(response)
        return json_api.decoded_turns(
            self.response_decoder(response.codec_name), replace(response, framed_messages=messages)
        )

    def response_decoder(self, codec_name: str) -> gemini_responses.ChunksDecoder:
        """A decoder of chunks, of which a response that does not stream is one."""
        return gemini_responses.ChunksDecoder(codec_name)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of the message's candidates."""
        return gemini_responses.stream_message_output_chars(codec, message)

    def keep_alive_message(self, codec: str) -> bytes:
        """None: Google's own clients crash on comments."""
        return b""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request without contents; with `alt=sse` where it streams."""
        path = f"/v1beta/models/{quote(model)}:{_STREAM_GENERATE if stream else _GENERATE}"
        request = response_encoding.json_post_request(path, {"contents": []})
        return replace(request, query="alt=sse") if stream else request

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """Candidates."""
        return gemini_responses.wire_format(self._response_options(request))

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events, an array of the same documents, or one document."""
        return gemini_responses.encode_response(turns, self._response_options(request), context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Models, token counts and embeddings."""
        match = _match_path(request)
        if match is None:
            return None
        if match.re is not _MODELS_PATH:
            document = _operation_result(match["operation"], parse_object(request.body))
            return None if document is None else response_encoding.json_response(document)
        is_vertex, name = "publishers" in match["front"], match["model"]
        if name and context.models and name not in context.models:
            return self.error_response(404, shared_format.model_not_found(name), context)
        if name:
            return response_encoding.json_response(_model_object(name, is_vertex=is_vertex))
        models = [_model_object(model, is_vertex=is_vertex) for model in context.models]
        return response_encoding.json_response(
            {"publisherModels" if is_vertex else "models": models}
        )

    def _response_options(self, request: Request) -> ResponseOptions:
        match, path = _match_path(request), _unquoted_path(request)
        operation = match["operation"] if match else ""
        if operation not in (_GENERATE, _STREAM_GENERATE):
            raise NotRepresentable(
                f"gemini: cannot generate a response for {printable_excerpt(path, 200)}"
            )
        stream_codec: ResponseCodec = "sse" if _requests_sse(request) else "json-array"
        return ResponseOptions(
            codec=stream_codec if operation == _STREAM_GENERATE else "whole",
            is_code_assist_wrapped=path.endswith(f"{_CODE_ASSIST_PATH}:{operation}"),
            recitation_field="citations" if _VERTEX_PATH.search(path) else "citationSources",
        )


def _unquoted_path(request: Request) -> str:
    """The path, percent-decoded: some clients write the colon as `%3A`."""
    return unquote(request.path)


def _match_path(request: Request) -> re.Match[str] | None:
    """The match of a Gemini path, with group `model` and perhaps `operation`; None for others."""
    path = _unquoted_path(request)
    match request.method:
        case "POST":
            return _POST_PATH.search(path) or _PREDICT_PATH.search(path)
        case "GET":
            return _MODELS_PATH.search(path)
        case _:
            return None


def _requests_sse(request: Request) -> bool:
    fields = parse_qs(request.query)
    return "sse" in (*fields.get("alt", ()), *fields.get("$alt", ()))


def _is_complete_event(message: bytes) -> bool:
    """Whether the last message of a stream is not truncated; comments and `[DONE]` are complete."""
    if shared_format.decode_event(message):
        return True
    if parse_event(message).data is not None:
        return is_done_message(message)
    return not message.strip() or message.lstrip().startswith(b":")


def _model_object(name: str, *, is_vertex: bool) -> Document:
    if is_vertex:
        return {
            "name": f"publishers/google/models/{name}",
            "versionId": "default",
            "launchStage": "GA",
        }
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": _INPUT_LIMIT_TOKENS,
        "outputTokenLimit": _OUTPUT_LIMIT_TOKENS,
        "supportedGenerationMethods": list(_GENERATION_METHODS),
    }


def _operation_result(operation: str, body: Fields) -> Document | None:
    """The response to an operation without a turn; None for any other operation."""
    match operation:
        case "countTokens":
            inner = get_object(body, "generateContentRequest")
            inputs = [fields.get(name) for fields in (body, inner) for name in _MODEL_INPUT_FIELDS]
            total = estimates_and_fakes.estimated_token_count("".join(map(_input_text, inputs)))
            details = [{"modality": "TEXT", "tokenCount": total}]
            return {"totalTokens": total, "promptTokensDetails": details}
        case "embedContent":
            return {"embedding": _embedding_object(body)}
        case "batchEmbedContents":
            return {"embeddings": [*map(_embedding_object, get_objects(body, "requests"))]}
        case "predict":
            dimensions = get_object(body, "parameters").get("outputDimensionality")
            predictions: list[Document] = []
            for instance in get_objects(body, "instances"):
                text = get_string(instance, "content")
                count = estimates_and_fakes.estimated_token_count(text)
                embedding: Document = {
                    "values": _embedding_values(text, dimensions),
                    "statistics": {"truncated": False, "token_count": count},
                }
                predictions.append({"embeddings": embedding})
            return {"predictions": predictions}
        case _:
            return None


def _embedding_object(body: Fields) -> Document:
    config = get_object(body, "embedContentConfig")
    dimensions = body.get("outputDimensionality") or config.get("outputDimensionality")
    return {"values": _embedding_values(_input_text(body.get("content")), dimensions)}


def _embedding_values(text: str, dimensions: Json) -> list[float]:
    return estimates_and_fakes.fake_embedding(
        text, first_integer(dimensions) or _EMBEDDING_DIMENSIONS
    )


def _input_text(value: Json) -> str:
    return "".join(
        estimates_and_fakes.model_input_texts(value, _TEXT_HOLDER_FIELDS, _JSON_INPUT_FIELDS)
    )
