"""Recorded requests, converted to other dialects: what is kept, listed as lost, and refused."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from case_tables import each_row
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import dialect_of_request
from llm_proxy.dialects.anthropic.dialect import Anthropic
from llm_proxy.errors import NotRepresentable, UsageError
from llm_proxy.exchange import Headers, Request
from llm_proxy.providers import provider_of_request
from llm_proxy.transcoding.requests import (
    TranscodedRequest,
    request_target,
    transcode_request,
)
from llm_proxy.transcoding.unread_fields import unread_fields

QUESTION: Final = {"role": "user", "content": "Hello."}
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
OLLAMA: Final = "/api/chat"
PROMPT_FIELD: Final = {RESPONSES: "input"}
"""The fields of prompts that are not `messages`."""


def convert(
    path: str, body: dict[str, Any], target: str, headers: Headers = ()
) -> TranscodedRequest:
    if path == MESSAGES:
        headers = (("anthropic-version", "2023-06-01"), *headers)
    request = Request("POST", path, "", headers, orjson.dumps({"model": "old", **body}))
    return transcode_request(
        request,
        dialect_of_request(request),
        provider_of_request(request),
        request_target(target),
        "new",
    )


def call(id_: str, name: str = "weather", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id_: str, content: str = "21") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def test_a_chat_with_tools_becomes_a_request_of_the_other_provider() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            QUESTION,
            {"role": "assistant", "content": None, "tool_calls": [call("call_a", "weather")]},
            result("call_a"),
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        "stream": True,
        "temperature": 0.5,
    }

    transcoded = convert(CHAT, body, "anthropic")

    assert transcoded.losses == ()
    assert (transcoded.request.path, orjson.loads(transcoded.request.body)) == (
        MESSAGES,
        {
            "model": "new",
            "max_tokens": 8192,
            "system": "Be brief.",
            "messages": [
                QUESTION,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "call_a", "name": "weather", "input": {}}
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": "21"}],
                },
            ],
            "tools": [{"name": "weather", "input_schema": SCHEMA}],
            "stream": True,
            "temperature": 0.5,
        },
    )


@each_row("stream", [True, False])
def test_a_request_streams_as_it_was_recorded(*, stream: bool) -> None:
    converted = convert(CHAT, {"messages": [QUESTION], "stream": stream}, "ollama")

    assert orjson.loads(converted.request.body)["stream"] is stream


@each_row(
    "ids, converted_ids",
    [
        (["call_a", "toolu_01-B"], ["call_a", "toolu_01-B"]),
        (["functions.weather:0", "functions.weather:1"], ["call_1", "call_2"]),
        (["a" * 41, "call_1"], ["call_2", "call_1"]),
        (["call_a", "call_a"], ["call_a", "call_2"]),
        (["", ""], ["call_1", "call_2"]),
    ],
)
def test_ids_that_others_refuse_are_replaced_and_results_keep_their_calls(
    ids: list[str], converted_ids: list[str]
) -> None:
    messages = [
        QUESTION,
        {"role": "assistant", "tool_calls": [call(id_) for id_ in ids]},
        *(result(id_, str(number)) for number, id_ in enumerate(ids)),
    ]

    body = orjson.loads(convert(CHAT, {"messages": messages}, "anthropic").request.body)

    _, asked, answered = body["messages"]
    assert [block["id"] for block in asked["content"]] == converted_ids
    assert [(block["tool_use_id"], block["content"]) for block in answered["content"]] == [
        (id_, str(number)) for number, id_ in enumerate(converted_ids)
    ]


def test_results_without_ids_belong_to_the_calls_of_their_names() -> None:
    calls: list[dict[str, Any]] = [
        {"function": {"name": name, "arguments": {}}} for name in ("weather", "time")
    ]
    messages = [
        QUESTION,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_name": "time", "content": "noon"},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
    ]

    body = orjson.loads(convert(OLLAMA, {"messages": messages}, "openai-chat").request.body)

    assert [asked["id"] for asked in body["messages"][1]["tool_calls"]] == ["call_1", "call_2"]
    assert [(answer["tool_call_id"], answer["content"]) for answer in body["messages"][2:]] == [
        ("call_2", "noon"),
        ("call_1", "rain"),
    ]


def test_results_and_text_of_one_message_become_two_messages() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "21"},
        {"type": "text", "text": "And now?"},
    ]
    asked = [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]
    messages = [
        QUESTION,
        {"role": "assistant", "content": asked},
        {"role": "user", "content": blocks},
    ]

    converted = convert(MESSAGES, {"messages": messages}, "openai-chat")

    assert [*orjson.loads(converted.request.body)["messages"][2:]] == [
        {"role": "tool", "tool_call_id": "t1", "content": "21"},
        {"role": "user", "content": "And now?"},
    ]
    assert converted.losses == ()


THOUGHT: Final = [{"type": "thinking", "thinking": "Hm.", "signature": "SIG"}]
THINKING_MESSAGES: Final = [
    QUESTION,
    {"role": "assistant", "content": [*THOUGHT, {"type": "text", "text": "Yes."}]},
    QUESTION,
]
FAILED_TOOL: Final = [
    QUESTION,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
        ],
    },
]
CACHED_TEXT: Final = [{"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}]
BLANK_TEXT_AND_IMAGE: Final = [
    {"type": "text", "text": " "},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
]
CITED: Final = {"type": "text", "text": "4", "citations": [{"type": "x", "cited_text": "four"}]}
SEARCH: Final = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


@each_row(
    "path, body, target, losses",
    [
        (CHAT, {"user": "u", "logit_bias": {"1": 2}, "n": 1}, "anthropic",
         ["$.user", "$.logit_bias", "$.n"]),
        (CHAT, {"user": "", "metadata": {}, "logprobs": None}, "anthropic", []),
        (CHAT, {"reasoning_effort": "high"}, "anthropic", ["$.reasoning_effort"]),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
         "anthropic", ["$.tools[*].function.strict"]),
        (CHAT, {"stream": True, "stream_options": {"include_usage": True}}, "ollama", []),
        (RESPONSES, {"input": "Hi.", "store": True}, "openai-chat", ["$.store"]),
        (MESSAGES, {"messages": THINKING_MESSAGES}, "openai-chat", ["reasoning"]),
        (MESSAGES, {"messages": THINKING_MESSAGES}, "ollama", ["reasoning signatures"]),
        (MESSAGES, {"messages": THINKING_MESSAGES}, "anthropic", []),
        (CHAT, {"messages": [{"role": "user", "content": BLANK_TEXT_AND_IMAGE}]}, "anthropic", []),
        (MESSAGES, {"messages": FAILED_TOOL}, "openai-chat", ["whether a tool failed"]),
        (MESSAGES, {"messages": [{"role": "user", "content": CACHED_TEXT}]}, "ollama",
         ["$.messages[*].content[*].cache_control"]),
        (MESSAGES, {"messages": [QUESTION, {"role": "assistant", "content": [CITED]}]}, "ollama",
         ["$.messages[*].content[*].citations"]),
        (CHAT, {"messages": [QUESTION, {"role": "assistant", "refusal": "No."}, QUESTION]},
         "anthropic", ["refusals (sent as text)"]),
    ],
)  # fmt: skip
def test_what_a_converted_request_lacks_is_listed(
    path: str, body: dict[str, Any], target: str, losses: list[str]
) -> None:
    assert [
        *convert(path, {PROMPT_FIELD.get(path, "messages"): [QUESTION], **body}, target).losses
    ] == losses


def test_a_header_that_changes_the_response_is_listed() -> None:
    converted = convert(MESSAGES, {"messages": [QUESTION]}, "ollama", (("Anthropic-Beta", "x"),))

    assert converted.losses == ("the header anthropic-beta",)


GEMINI: Final = "/v1beta/models/old:streamGenerateContent"
INTERACTIONS: Final = "/v1beta/interactions"
GOOGLE_SEARCH: Final = {"contents": [{"parts": [{"text": "Hi."}]}], "tools": [{"googleSearch": {}}]}
CACHED: Final = {
    "messages": [{"role": "user", "content": CACHED_TEXT}],
    "tools": [SEARCH],
    "seed": 7,
}


@each_row(
    "path, body, target, model, new_path, new_body",
    [
        (MESSAGES, {"model": "old", **CACHED}, "anthropic", "new",
         MESSAGES, {"model": "new", **CACHED}),
        (INTERACTIONS, {"model": "models/old", "input": "Hi.", "labels": {"a": "b"}},
         "gemini-interactions", "models/new",
         INTERACTIONS, {"model": "models/new", "input": "Hi.", "labels": {"a": "b"}}),
        (GEMINI, GOOGLE_SEARCH, "gemini", "new",
         "/v1beta/models/new:streamGenerateContent", GOOGLE_SEARCH),
        (GEMINI, {"model": "models/old", **GOOGLE_SEARCH}, "gemini", "new",
         "/v1beta/models/new:streamGenerateContent", {"model": "models/new", **GOOGLE_SEARCH}),
        ("/v1beta/models/models%3AgenerateContent", GOOGLE_SEARCH, "gemini", "models/new",
         "/v1beta/models/new%3AgenerateContent", GOOGLE_SEARCH),
        ("/model/model/converse", {"messages": [], "requestMetadata": {"a": "b"}},
         "bedrock", "arn:a/b", "/model/arn%3Aa%2Fb/converse",
         {"messages": [], "requestMetadata": {"a": "b"}}),
        ("/model/us.amazon.nova-lite-v1%3A0/invoke", {"schemaVersion": "messages-v1"},
         "bedrock", "amazon.nova-pro-v1:0", "/model/amazon.nova-pro-v1%3A0/invoke",
         {"schemaVersion": "messages-v1"}),
    ],
)  # fmt: skip
def test_a_request_to_its_own_provider_changes_only_in_the_model(
    path: str, body: dict[str, Any], target: str, model: str, new_path: str, new_body: Any
) -> None:
    headers = (("anthropic-version", "2099-01-01"),) if path == MESSAGES else (("x-a", "b"),)
    request = Request("POST", path, "alt=sse", headers, orjson.dumps(body))

    transcoded = transcode_request(
        request,
        dialect_of_request(request),
        provider_of_request(request),
        request_target(target),
        model,
    )

    assert transcoded.losses == ()
    changed = transcoded.request
    assert (changed.method, changed.path, changed.query) == ("POST", new_path, "alt=sse")
    assert (changed.headers, orjson.loads(changed.body)) == (headers, new_body)


def test_a_request_that_is_nested_too_deep_is_refused() -> None:
    nested = b'{"a":' * 900 + b"1" + b"}" * 900
    body = b'{"messages": [{"role": "user", "content": "Hi"}], "metadata": %b}' % nested
    request = Request("POST", CHAT, "", (), body)

    with pytest.raises(NotRepresentable, match="nested too deep"):
        transcode_request(
            request, dialect_of_request(request), "openai", request_target("ollama"), "new"
        )


def test_a_request_without_a_model_to_replace_is_refused() -> None:
    request = Request("POST", CHAT, "", (), b'{"messages": []}')

    with pytest.raises(NotRepresentable, match="openai-chat: the request names no model"):
        transcode_request(
            request, dialect_of_request(request), "openai", request_target("openai"), "new"
        )


@each_row(
    "path, body, target, problem",
    [
        (CHAT, {"seed": 7}, "anthropic", "anthropic cannot represent seed"),
        (CHAT, {"messages": []}, "ollama", "the request contains no conversation to convert"),
        ("/v1/embeddings", {"input": "a"}, "ollama", "the request contains no conversation"),
        (CHAT, {"tool_choice": "required"}, "ollama",
         "ollama cannot represent the tool choice required"),
        (MESSAGES, {"tools": [SEARCH]}, "openai-chat",
         "openai-chat cannot represent web_search, a tool of type web_search_20250305"),
        (MESSAGES, {"mcp_servers": [{"type": "url", "name": "wiki"}]}, "ollama",
         "ollama cannot represent wiki, a tool of type mcp_servers"),
        (RESPONSES, {"input": "Hi.", "tools": [{"type": "web_search"}]}, "anthropic",
         "anthropic cannot represent web_search, a tool of type web_search"),
        (RESPONSES, {"input": "Hi.", "tools": [{"type": "custom", "name": "patch"}]}, "anthropic",
         "anthropic cannot represent patch, a tool of type custom"),
        ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "Hi."}]}],
                                              "tools": [{"googleSearch": {}}]}, "anthropic",
         "anthropic cannot represent googleSearch, a tool of type googleSearch"),
        (RESPONSES, {"input": "Hi.", "previous_response_id": "r1"}, "openai-chat",
         "openai-chat cannot represent previous_response_id"),
        (RESPONSES, {"input": [QUESTION, {"type": "web_search_call", "id": "ws_1"}, QUESTION]},
         "openai-chat", "openai-chat cannot represent a call of web_search without a result"),
        (MESSAGES, {"messages": [QUESTION, {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}]}, QUESTION]},
         "ollama", "ollama cannot represent web_search, a tool that the recorded provider ran"),
        (MESSAGES, {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "Read it."},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]},
         "ollama", "ollama cannot represent $.messages[*].content[*] (document)"),
        ("/v2/chat", {"documents": ["A"]}, "ollama", "ollama cannot represent $.documents"),
    ],
)  # fmt: skip
def test_what_the_target_cannot_represent_is_refused_by_name(
    path: str, body: dict[str, Any], target: str, problem: str
) -> None:
    with pytest.raises(NotRepresentable) as error:
        convert(path, {PROMPT_FIELD.get(path, "messages"): [QUESTION], **body}, target)

    assert str(error.value).startswith(problem)


def test_a_cache_point_is_listed_and_not_refused() -> None:
    body = {
        "messages": [
            {"role": "user", "content": [{"text": "Hi."}, {"cachePoint": {"type": "default"}}]}
        ]
    }
    request = Request("POST", "/model/m/converse", "", (), orjson.dumps(body))

    [field] = unread_fields(dialect_of_request(request), request)

    assert (field.path, field.is_content) == ("$.messages[*].content[*] (cachePoint)", False)


def test_a_long_schema_in_a_text_is_read() -> None:
    schema = {"type": "object", "description": "long " * 500}
    text_format = {
        "type": "json_schema",
        "structure": {"jsonSchema": {"schema": orjson.dumps(schema).decode()}},
    }
    body = {
        "messages": [{"role": "user", "content": [{"text": "Hi."}]}],
        "outputConfig": {"textFormat": text_format},
    }
    request = Request("POST", "/model/m/converse", "", (), orjson.dumps(body))

    assert unread_fields(dialect_of_request(request), request) == ()


class CountingAnthropic(Anthropic):
    """Counts the bytes that it decodes."""

    decoded_bytes = 0

    def decode_request(self, request: Request) -> Conversation | None:
        self.decoded_bytes += len(request.body)
        return super().decode_request(request)


def test_unread_fields_are_found_in_few_readings_of_the_whole_body() -> None:
    tools = [
        {
            "name": f"tool {number}",
            "input_schema": {"properties": {f"p{number}_{each}": {} for each in "abcdef"}},
        }
        for number in range(40)
    ]
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}
    messages = [{"role": "user", "content": [{"type": "image", "source": image}]}]
    body = orjson.dumps({"messages": messages, "tools": tools, "user": "u"})
    dialect = CountingAnthropic()

    fields = unread_fields(dialect, Request("POST", MESSAGES, "", (), body))

    assert [field.path for field in fields] == ["$.user"]
    assert dialect.decoded_bytes < 2 * len(body)


@each_row(
    "name, dialect, provider",
    [
        ("openai-chat", "openai-chat", "openai"),
        ("openai-responses", "openai-responses", "openai"),
        ("openai", "openai-chat", "openai"),
        ("anthropic", "anthropic", "anthropic"),
        ("ollama", "ollama", "ollama"),
        ("mistral", "openai-chat", "mistral"),
        ("vllm", "openai-chat", "vllm"),
    ],
)
def test_a_target_is_a_dialect_or_a_provider(name: str, dialect: str, provider: str) -> None:
    target = request_target(name)

    assert (target.dialect.name, target.provider) == (dialect, provider)


@each_row(
    "name, hint",
    [
        ("mistrl", "did you mean 'mistral'?"),
        ("azure", "known: openai-chat, "),
        ("test-llm", "known: openai-chat, "),
    ],
)
def test_an_unknown_target_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        request_target(name)

    assert str(error.value).startswith(f"--as: unknown dialect or provider '{name}'; {hint}")
