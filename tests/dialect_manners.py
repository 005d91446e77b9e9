"""A record of every dialect, requests for all its response forms, and strategies for turns."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from llm_proxy.dialects import dialect_of_request
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

ENCODE_CONTEXT: Final = EncodeContext(
    seed="test", created_unix_s=1_700_000_000, models=("small", "large")
)
SPLIT_CONTEXT: Final = replace(
    ENCODE_CONTEXT, split_text=lambda text: filter(None, (text[:3], text[3:]))
)
"""Text is streamed in two pieces, the first of three characters."""


def json_request(path: str, *headers: tuple[str, str], query: str = "", **body: Any) -> Request:
    """A POST request with this JSON document."""
    return Request("POST", path, query, headers, json.dumps(body).encode())


def typed(kind: str, **fields: Json) -> Metadata:
    """Metadata with a type."""
    return (("type", kind), *fields.items())


@dataclass(frozen=True, slots=True)
class Manner:
    """One form of a dialect's responses, and a request for it."""

    name: str
    """The dialect's name, and the form of the response."""
    request: Request
    context: EncodeContext = ENCODE_CONTEXT
    has_finish: bool = True
    """Whether a response tells why it ended."""
    finish_without_reason: FinishReason | None = None
    """What is decoded if it does not: `OTHER` for a stream, which must have an end."""

    @property
    def dialect(self) -> Dialect:
        return dialect_of_request(self.request)

    def decoded_finish(self, finish: FinishReason) -> FinishReason | None:
        """What is decoded from a response with one of the common finish reasons."""
        return finish if self.has_finish else self.finish_without_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectRecord:
    """What the tests expect of one dialect."""

    has_tool_calls: bool = True
    overloaded_status: int = 503
    filter_finish: str = ""
    """Its own finish reason for a content filter; empty if it has none."""
    refusal_part: type[Text | Refusal] | None
    """What has the text of a refusal; None if that is left out."""
    refusal_finish: str
    """Its own finish reason of a refusal."""


DIALECT_RECORDS: Final = {
    "openai-chat": DialectRecord(
        filter_finish="content_filter", refusal_part=Refusal, refusal_finish="stop"
    ),
    "openai-completions": DialectRecord(
        has_tool_calls=False,
        filter_finish="content_filter",
        refusal_part=None,
        refusal_finish="content_filter",
    ),
    "openai-responses": DialectRecord(
        filter_finish="content_filter", refusal_part=Refusal, refusal_finish="completed"
    ),
    "anthropic": DialectRecord(
        overloaded_status=529,
        filter_finish="refusal",
        refusal_part=Refusal,
        refusal_finish="refusal",
    ),
    "gemini": DialectRecord(filter_finish="SAFETY", refusal_part=None, refusal_finish="SAFETY"),
    "gemini-interactions": DialectRecord(refusal_part=Text, refusal_finish="completed"),
    "ollama": DialectRecord(refusal_part=Text, refusal_finish="stop"),
    "cohere": DialectRecord(filter_finish="ERROR", refusal_part=Text, refusal_finish="COMPLETE"),
    "bedrock": DialectRecord(
        filter_finish="content_filtered", refusal_part=Text, refusal_finish="refusal"
    ),
}

DIALECTS_WITHOUT_CALLS: Final = frozenset(
    name for name, record in DIALECT_RECORDS.items() if not record.has_tool_calls
)


def dialect_record(name: str) -> DialectRecord:
    """The record of a dialect, which every dialect with turns must have."""
    assert name in DIALECT_RECORDS, (
        f"add the record of {name} to DIALECT_RECORDS in tests/dialect_manners.py"
    )
    return DIALECT_RECORDS[name]


def _chat_request(**body: Any) -> Request:
    return json_request("/v1/chat/completions", model="gpt-5", **body)


def _anthropic_request(path: str = "/v1/messages", **body: Any) -> Request:
    return json_request(path, ("anthropic-version", "2026-10-21"), model="claude-sonnet-5", **body)


_ANTHROPIC_VERTEX_PATH: Final = (
    "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-5:"
)


def _bedrock_request(model: str, *, stream: bool, invoke: bool = True, **body: Any) -> Request:
    whole, streamed = (
        ("invoke", "invoke-with-response-stream") if invoke else ("converse", "converse-stream")
    )
    return json_request(f"/model/{model}/{streamed if stream else whole}", **body)


_BEDROCK_MODELS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "claude": ("us.anthropic.claude-sonnet-5", {"anthropic_version": "bedrock-2023-05-31"}),
    "nova": ("us.amazon.nova-2-lite-v1%3A0", {}),
    "llama": ("meta.llama3-1-8b-instruct-v1%3A0", {}),
    "mistral": ("mistral.mistral-7b-instruct-v0%3A2", {}),
    "mistral's chat": ("mistral.mistral-large-2407-v1%3A0", {}),
    "command-r": ("cohere.command-r-v1%3A0", {}),
    "chat": ("openai.gpt-oss-120b-1%3A0", {}),
}
"""By model family: a model's name, and the fields of its requests."""


def _responses_request(**body: Any) -> Request:
    return json_request("/v1/responses", model="gpt-5", **body)


def _completion_request(**body: Any) -> Request:
    return json_request("/v1/completions", model="davinci", **body)


_BACKGROUND_FIELDS: Final = {
    "background": True,
    "previous_response_id": "resp_before",
    "conversation": "conv_1",
    "service_tier": "flex",
}
_USAGE: Final = {"stream_options": {"include_usage": True}}
_FUNCTIONS: Final = {"functions": [{"name": "f"}]}


def _gemini_request(path: str, query: str = "") -> Request:
    return json_request(path, query=query, contents=[])


def _interaction_request(**body: Any) -> Request:
    return json_request("/v1beta/interactions", input="", **body)


_GEMINI_PATH: Final = "/v1beta/models/gemini-3-flash"
_GEMINI_VERTEX_PATH: Final = "/v1/projects/p/locations/l/publishers/google/models/gemini-3-flash"

MANNERS: Final = (
    Manner("openai-chat stream", _chat_request(stream=True)),
    Manner("openai-chat stream, usage", _chat_request(stream=True, **_USAGE)),
    Manner("openai-chat stream, functions", _chat_request(stream=True, **_FUNCTIONS)),
    Manner("openai-chat whole", _chat_request()),
    Manner("openai-chat whole, functions", _chat_request(**_FUNCTIONS)),
    *(
        Manner(
            f"openai-chat {'stream' if stream else 'whole'}, {provider}",
            _chat_request(stream=stream),
            EncodeContext("test", 1_700_000_000, provider=provider),
        )
        for provider in ("azure", "groq", "mistral", "openrouter")
        for stream in (True, False)
    ),
    *(
        Manner(f"anthropic {'stream' if stream else 'whole'}", _anthropic_request(stream=stream))
        for stream in (True, False)
    ),
    Manner(
        "anthropic vertex stream",
        _anthropic_request(f"{_ANTHROPIC_VERTEX_PATH}streamRawPredict", stream=True),
    ),
    Manner("anthropic vertex whole", _anthropic_request(f"{_ANTHROPIC_VERTEX_PATH}rawPredict")),
    Manner("gemini stream", _gemini_request(f"{_GEMINI_PATH}:streamGenerateContent", "alt=sse")),
    Manner("gemini array", _gemini_request(f"{_GEMINI_PATH}:streamGenerateContent")),
    Manner("gemini whole", _gemini_request(f"{_GEMINI_PATH}:generateContent")),
    Manner(
        "gemini stream, Vertex",
        _gemini_request(f"{_GEMINI_VERTEX_PATH}:streamGenerateContent", "alt=sse"),
    ),
    Manner("gemini whole, Vertex", _gemini_request(f"{_GEMINI_VERTEX_PATH}:generateContent")),
    Manner(
        "gemini stream, Code Assist",
        _gemini_request("/v1internal:streamGenerateContent", "alt=sse"),
    ),
    Manner("gemini whole, Code Assist", _gemini_request("/v1internal:generateContent")),
    Manner("gemini-interactions stream", _interaction_request(model="gemini-3-flash", stream=True)),
    Manner("gemini-interactions whole", _interaction_request(model="gemini-3-flash")),
    Manner(
        "gemini-interactions stream, agent", _interaction_request(agent="research", stream=True)
    ),
    Manner(
        "gemini-interactions stream, taken up again",
        Request("GET", "/v1beta/interactions/i1", "stream=true", (), b""),
    ),
    Manner(
        "bedrock stream",
        _bedrock_request("us.amazon.nova-2-lite-v1%3A0", stream=True, invoke=False),
    ),
    Manner(
        "bedrock whole",
        _bedrock_request("us.amazon.nova-2-lite-v1%3A0", stream=False, invoke=False),
    ),
    *(
        Manner(
            f"bedrock {maker} {'stream' if stream else 'whole'}",
            _bedrock_request(model, stream=stream, **body),
        )
        for maker, (model, body) in _BEDROCK_MODELS.items()
        for stream in (True, False)
    ),
    *(
        Manner(
            f"ollama {name} {'stream' if stream else 'whole'}",
            json_request(f"/api/{name}", model="qwen3", stream=stream),
        )
        for name in ("chat", "generate")
        for stream in (True, False)
    ),
    *(
        Manner(
            f"cohere /v2/chat {'stream' if stream else 'whole'}",
            json_request("/v2/chat", stream=stream, model="command-a"),
        )
        for stream in (True, False)
    ),
    Manner("openai-completions stream", _completion_request(stream=True)),
    Manner(
        "openai-completions stream, usage",
        _completion_request(stream=True, **_USAGE),
    ),
    Manner(
        "openai-completions stream, deepseek",
        _completion_request(stream=True),
        EncodeContext("test", 1_700_000_000, provider="deepseek"),
    ),
    Manner("openai-completions whole", _completion_request()),
    Manner("openai-responses stream", _responses_request(stream=True)),
    Manner(
        "openai-responses stream, in the background",
        _responses_request(stream=True, **_BACKGROUND_FIELDS),
    ),
    Manner("openai-responses whole", _responses_request()),
    Manner("openai-responses whole, in the background", _responses_request(**_BACKGROUND_FIELDS)),
    Manner("openai-responses whole, fetched", Request("GET", "/v1/responses/r", "", (), b"")),
    Manner(
        "openai-responses compacted",
        json_request("/v1/responses/compact", model="gpt-5", input=[]),
        has_finish=False,
    ),
    Manner(
        "openai-responses stream, openrouter",
        _responses_request(stream=True),
        EncodeContext("test", 1_700_000_000, provider="openrouter"),
    ),
)

_TEXT_VALUES = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "",
        "Grüße 🌊",
        "a\u2028b\u2029c\u0085d",
        "多語言テキスト",
        " leading",
        "line\r\nend\n\n",
        "[DONE]",
    ]
)
_NAMES = st.text("abcdefghijklmnopqrstuvwxyz_-0123456789", max_size=12)
_LEAVES: st.SearchStrategy[Json] = (
    st.none()
    | st.booleans()
    | (st.integers(-(2**40), 2**40) | st.sampled_from([2**70, float("nan"), 0.5]))
    | _TEXT_VALUES
)
_JSON: st.SearchStrategy[Json] = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_METADATA_NAMES = st.sampled_from(
    ["type", "index", "id", "format", "provider", "system_fingerprint", "stop_reason", "logprobs",
     "extra_content", "service_tier", "category", "thought_signature", "namespace", "status",
     "expires_at", "request_id", "usage", "unheard_of"]
)  # fmt: skip
_METADATA: st.SearchStrategy[Metadata] = st.dictionaries(_METADATA_NAMES, _JSON, max_size=2).map(
    lambda fields: tuple(fields.items())
)
_BASE64 = st.binary(max_size=20).map(lambda data: b64encode(data).decode())
_ARGUMENTS = st.dictionaries(_NAMES, _JSON, max_size=3).map(json.dumps) | st.sampled_from(
    ["", "{}", '{"city":"Zürich"}', '{"a": 1.0, "b": [1e3, "\\u00e9"]}']
)
_INVALID_ARGUMENTS = st.sampled_from(['{"city":', "[1]", "nonsense"])

_CITATIONS = st.builds(
    Citation,
    url=_TEXT_VALUES,
    title=_TEXT_VALUES,
    quoted=_TEXT_VALUES,
    span=st.none() | st.tuples(st.integers(0, 50), st.integers(0, 50)),
    metadata=_METADATA,
)
TEXTS = st.builds(Text, _TEXT_VALUES, st.lists(_CITATIONS, max_size=2).map(tuple), _METADATA)
REASONINGS = st.builds(
    Reasoning, _TEXT_VALUES, st.none() | _BASE64, st.none() | _BASE64, metadata=_METADATA
)
CALLS = st.builds(ToolCall, _NAMES, _NAMES, _ARGUMENTS | _INVALID_ARGUMENTS, _METADATA)
RESULTS = st.builds(ToolResult, _NAMES, _TEXT_VALUES, _NAMES, st.booleans(), _METADATA)
REFUSALS = st.builds(Refusal, _TEXT_VALUES, _METADATA)
MEDIA = st.builds(
    Media,
    st.sampled_from(["image/png", "audio/wav", "audio/*", "video/mp4", "application/pdf"]),
    st.sampled_from(["", "https://example.com/a.png"]),
    _BASE64,
    _TEXT_VALUES,
    _METADATA,
)
_TOKEN_COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(
    Usage, _TOKEN_COUNTS, _TOKEN_COUNTS, _TOKEN_COUNTS, _TOKEN_COUNTS, _TOKEN_COUNTS, _TOKEN_COUNTS
)
FAILURES = st.builds(Failure, _TEXT_VALUES, _NAMES, _NAMES)


def _turns(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Turn]:
    return st.builds(
        Turn,
        st.lists(parts, max_size=5).map(tuple),
        finish=st.none() | st.sampled_from(FinishReason),
        finish_raw=st.just("") | st.sampled_from(["stop", "end_turn", "STOP", "weird"]),
        usage=st.none() | USAGES,
        failure=st.none() | FAILURES,
        id=_NAMES,
        model=_NAMES,
        metadata=_METADATA,
    )


ANY_TURNS = _turns(TEXTS | REASONINGS | CALLS | RESULTS | REFUSALS | MEDIA)
"""Turns with all types of parts; most dialects refuse many of them."""

COMMON_TURNS = _turns(TEXTS | REASONINGS | REFUSALS | CALLS)
"""Turns with the types of parts that most dialects can represent."""
