"""Requests encoded from conversations: equal to what the official SDKs send, and decodable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from llm_proxy import providers
from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects import (
    DialectResponse,
    chat_dialects,
    dialect_named,
    dialect_of_request,
    request_dialects,
)
from llm_proxy.dialects.lenient_json import is_same_json
from llm_proxy.dialects.openai.chat_request_variants import REQUEST_VARIANT_BY_PROVIDER
from llm_proxy.dialects.openai.family import VARIANT_BY_PROVIDER
from llm_proxy.errors import NotRepresentable
from llm_proxy.framing import sse
from llm_proxy.turns import Media, Reasoning, Refusal, Text, ToolCall, ToolResult
from sdk_requests import SDK_REQUESTS, SdkRequests, rows
from sdk_requests.conversations import (
    CALLS,
    PNG_URL,
    QUESTION,
    RESULT_MESSAGE,
    WEATHER,
    Arguments,
    conversation,
    message,
)
from sdk_requests.judge_process import Send
from stub_upstream import Upstream, fixed_length, upstream

ERROR: Final = fixed_length(b'{"error":{"message":"no"}}', status="400 Bad Request")
"""What ends an SDK's call; only its request matters."""


async def sent_request(
    stub: Upstream, send: Send, arguments: Arguments, *, stream: bool
) -> tuple[str, dict[str, str], Any]:
    """The request line, the headers and the body of the SDK's request."""
    await send(stub.url, arguments, stream=stream)
    head, body = stub.requests.pop()
    request_line, *header_lines = head.decode().strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in header_lines)
    return (
        request_line,
        {name.lower(): value for name, value in headers.items()},
        orjson.loads(body),
    )


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The path of each value that is no list and no object, or that is empty."""
    match value:
        case dict() if value:
            for name, inner in value.items():
                yield from leaves(inner, f"{path}.{name}" if path else name)
        case list() if value:
            for index, inner in enumerate(value):
                yield from leaves(inner, f"{path}[{index}]")
        case _:
            yield path, value


def differing_paths(left: Any, right: Any) -> set[str]:
    left_leaves, right_leaves = dict(leaves(left)), dict(leaves(right))
    return {
        path
        for path in left_leaves.keys() | right_leaves.keys()
        if not is_same_json(left_leaves.get(path, [path]), right_leaves.get(path, [path]))
        or (path in left_leaves) is not (path in right_leaves)
    }


@pytest.mark.parametrize(
    "requests", SDK_REQUESTS, ids=lambda requests: requests.PROVIDER or requests.DIALECT
)
async def test_a_request_is_that_of_the_official_sdk(requests: SdkRequests) -> None:
    calls = [(*row, stream) for row in rows(requests) for stream in (True, False)]
    compare_each = each_row("name, conversation_, stream", calls)(_compare_with_sdk)
    async with upstream(ERROR) as stub, requests.sender() as send:
        await compare_each(stub=stub, requests=requests, send=send)


async def _compare_with_sdk(
    stub: Upstream,
    requests: SdkRequests,
    send: Send,
    name: str,
    conversation_: Conversation,
    stream: bool,
) -> None:
    dialect = dialect_named(requests.DIALECT)
    line, headers, body = await sent_request(stub, send, requests.CALLS[name], stream=stream)

    request = dialect.encode_request(conversation_, stream=stream, provider=requests.PROVIDER)

    assert f"{request.method} {request.request_target} HTTP/1.1" == line
    assert dict(request.headers)["Content-Type"] == headers["content-type"]
    assert differing_paths(orjson.loads(request.body), body) == set(
        requests.DIFFERENCES.get(name, {})
    )
    assert dialect.matches(request)
    assert dialect.streams(request) is stream


def test_an_anthropic_request_has_the_version_that_accepts_a_temperature() -> None:
    request = dialect_named("anthropic").encode_request(conversation(QUESTION))

    assert request.headers == (
        ("Content-Type", "application/json"),
        ("anthropic-version", "2023-06-01"),
    )


@each_row("requests", SDK_REQUESTS)
def test_a_decoded_request_is_encoded_to_the_same_request(requests: SdkRequests) -> None:
    dialect = dialect_named(requests.DIALECT)
    for name, conversation_ in rows(requests):
        if "sent back" in name or name.startswith("extra"):
            continue  # metadata and extra fields are only encoded
        request = dialect.encode_request(conversation_, stream=False, provider=requests.PROVIDER)
        decoded = dialect.decode_request(request)
        assert decoded is not None
        again = dialect.encode_request(decoded, stream=False, provider=requests.PROVIDER)

        assert is_same_json(orjson.loads(again.body), orjson.loads(request.body)), name


def test_reasoning_that_a_format_cannot_take_back_is_left_out() -> None:
    thought = message("assistant", Reasoning("Hm."), "Yes.")

    for dialect in (
        *("openai-chat", "openai-responses", "anthropic", "openai-completions"), "bedrock"
    ):  # fmt: skip
        body = dialect_named(dialect).encode_request(conversation(QUESTION, thought)).body
        assert b"Hm." not in body
        assert b"Yes." in body
    for dialect in ("ollama", "cohere"):
        body = dialect_named(dialect).encode_request(conversation(QUESTION, thought)).body
        assert b'"thinking":"Hm."' in body


def test_extra_fields_replace_those_of_the_body() -> None:
    extra_fields = (("stream_options", None), ("max_completion_tokens", 1))

    request = dialect_named("openai-chat").encode_request(
        conversation(QUESTION, max_tokens=2, extra_fields=extra_fields)
    )

    body = orjson.loads(request.body)
    assert (body["stream_options"], body["max_completion_tokens"]) == (None, 1)


CALL: Final = ToolCall("call_1", "weather", "{}")
RESULT: Final = ToolResult("call_1", "21")
IMAGE_BY_URL: Final = message("user", Media("image/png", url=PNG_URL))
CHATS: Final = tuple(name for name in request_dialects() if name != "openai-completions")
STATELESS: Final = tuple(
    name for name in request_dialects() if name not in ("openai-responses", "gemini-interactions")
)
REFUSALS: Final[tuple[tuple[str, Conversation, str], ...]] = (
    *(
        (dialect, conversation(QUESTION, **{option: value}), f"{dialect} cannot represent {option}")
        for option, value, dialects_ in (
            (
                "top_k",
                3,
                (
                    *("openai-chat", "openai-responses", "openai-completions", "bedrock"),
                    "gemini-interactions",
                ),
            ),
            (
                "repeat_penalty",
                1.1,
                tuple(name for name in request_dialects() if name != "ollama"),
            ),
            ("seed", 7, ("openai-responses", "anthropic", "bedrock")),
            ("stop_sequences", ("END",), ("openai-responses",)),
            ("previous_response_id", "resp_1", STATELESS),
            ("stored_conversation_id", "conv_1", (*STATELESS, "gemini-interactions")),
            ("tools", (ToolDefinition("f"),), ("openai-completions",)),
            ("tool_choice", "required", ("openai-completions",)),
            ("response_schema", {}, ("openai-completions",)),
        )
        for dialect in dialects_
    ),
    *(
        (dialect, conversation(QUESTION, **fields), f"{dialect}: {problem}")
        for dialect in CHATS
        for fields, problem in (
            ({"temperature": float("nan")}, "the value of temperature has no exact JSON"),
            ({"max_tokens": 2**53}, "the value of max_tokens has no exact JSON"),
            ({"max_tokens": True}, "the value of max_tokens has no exact JSON"),
            ({"response_schema": []}, "response_schema must be a JSON Schema object"),
            (
                {"response_schema": {"maximum": float("inf")}},
                "response_schema has a value that JSON cannot hold",
            ),
            (
                {"tools": (ToolDefinition("f", "", {"const": "\ud800"}),)},
                "the schema of the tool f has a value that JSON cannot hold",
            ),
            (
                {"extra_fields": (("a", float("nan")),)},
                "the extra field a has a value that JSON cannot hold",
            ),
        )
    ),
    *(
        (dialect, conversation(*messages, **fields), f"{dialect} cannot represent {what}")
        for dialect in CHATS
        for messages, fields, what in (
            ((QUESTION,), {"tools": (ToolDefinition(""),)}, "a tool without a name"),
            (
                (QUESTION,),
                {"tool_choice": ForcedTool("")},
                "the choice of a tool without a name",
            ),
            ((message("user", CALL),), {}, "a tool call in a message of role user"),
            ((message("tool", "21"),), {}, "text in a message of role tool"),
            ((message("system", RESULT),), {}, "a tool result in a message of role system"),
            ((message("assistant", RESULT),), {}, "a tool result in a message of role assistant"),
            (
                (message("assistant", ToolCall("1", "search", "{}", (("type", "other_tool"),))),),
                {},
                "search, a tool that another provider runs",
            ),
        )
    ),
    *(
        (
            dialect,
            conversation(message("assistant", Media("image/png", base64="eA=="))),
            f"{dialect} cannot represent media in a message of role assistant",
        )
        for dialect in ("openai-chat", "openai-responses", "anthropic", "ollama")
    ),
    *(
        (
            dialect,
            conversation(message("user", media)),
            f"{dialect} cannot represent media of type {media.media_type} {source}",
        )
        for dialect, source, media in (
            ("openai-chat", "by URL", Media("video/mp4", url="https://example.com/")),
            ("openai-responses", "by URL", Media("audio/wav", url="https://example.com/")),
            ("anthropic", "by URL", Media("video/mp4", url="https://example.com/")),
            ("anthropic", "inline", Media("audio/wav", base64="UklG")),
            ("gemini", "inline", Media("image/*", base64="eA==")),
            ("gemini-interactions", "inline", Media("image/*", base64="eA==")),
            ("ollama", "by URL", Media("video/mp4", url="https://example.com/")),
            ("ollama", "by URL", Media("image/png", url=PNG_URL)),
        )
    ),
    *(
        (
            dialect,
            conversation(QUESTION, message("assistant", ToolCall("1", "weather", arguments))),
            f"{dialect}: the arguments of weather are not a JSON object, or contain a number",
        )
        for dialect in ("anthropic", "gemini", "gemini-interactions", "ollama", "bedrock")
        for arguments in ("[1]", '{"a":', '{"a":1e999}', "no JSON")
    ),
    *(
        (
            dialect,
            conversation(QUESTION, message("system", "Be brief.")),
            f"{dialect} cannot represent a system message after other messages",
        )
        for dialect in (
            "anthropic",
            "openai-completions",
            "bedrock",
            "gemini",
            "gemini-interactions",
        )
    ),
    *(
        (
            "openai-completions",
            conversation(QUESTION, answer),
            f"openai-completions cannot represent {what}",
        )
        for answer, what in (
            (message("user", Media("image/png", base64="eA==")), "media in a message of role user"),
            (message("assistant", CALL), "a tool call in a message of role assistant"),
            (message("tool", RESULT), "a message of role tool"),
        )
    ),
    *(
        (
            dialect,
            conversation(QUESTION, response_schema={}),
            f"{dialect} cannot represent an empty response_schema",
        )
        for dialect in ("anthropic", "bedrock")
    ),
    *(
        (
            dialect,
            conversation(message("user", " \n")),
            f"{dialect} cannot represent a conversation without content",
        )
        for dialect in ("anthropic", "bedrock")
    ),
    *(
        ("bedrock", conversation_, f"bedrock cannot represent {what}")
        for conversation_, what in (
            (Conversation((QUESTION,)), "a request without a model"),
            (conversation(IMAGE_BY_URL), "media of type image/png by URL"),
            (
                conversation(message("user", Media("image/tiff", base64="eA=="))),
                "media of type image/tiff inline",
            ),
            (
                conversation(message("user", Media("application/pdf", url="https://a.example/b"))),
                "media of type application/pdf by URL",
            ),
            (
                conversation(message("user", Media("application/zip", base64="eA=="))),
                "media of type application/zip inline",
            ),
            (conversation(QUESTION, tool_choice="required"), "a tool choice without tools"),
            (conversation(QUESTION, tool_choice=ForcedTool("f")), "a tool choice without tools"),
            (
                conversation(QUESTION, CALLS, RESULT_MESSAGE, tools=(WEATHER,), tool_choice="none"),
                "the tool choice none after tool calls",
            ),
        )
    ),
    (
        "ollama",
        conversation(QUESTION, tool_choice="required"),
        "ollama cannot represent the tool choice required",
    ),
    *(
        (
            dialect,
            conversation(QUESTION, tool_choice=ForcedTool("weather")),
            f"{dialect} cannot represent the choice of the tool weather",
        )
        for dialect in ("ollama", "cohere")
    ),
    (
        "cohere",
        conversation(message("user", Media("application/pdf", base64="JVBERi0="))),
        "cohere cannot represent media of type application/pdf inline",
    ),
)


@each_row("dialect, conversation_, problem", REFUSALS)
def test_what_a_format_lacks_is_refused_by_name(
    dialect: str, conversation_: Conversation, problem: str
) -> None:
    with pytest.raises(NotRepresentable) as error:
        dialect_named(dialect).encode_request(conversation_)

    assert str(error.value).startswith(problem)


PROVIDER_REFUSALS: Final[tuple[tuple[str, Conversation, str], ...]] = (
    *(
        (provider, conversation(QUESTION, **{option: value}), option)
        for option, value, providers in (
            ("top_k", 3, ("deepseek", "groq", "xai")),
            ("repeat_penalty", 1.1, ("deepseek", "groq", "xai")),
            ("seed", 7, ("deepseek",)),
        )
        for provider in providers
    ),
    *(
        (
            provider,
            conversation(message("user", Media(kind, base64="eA=="))),
            f"media of type {kind} inline",
        )
        for kind, providers in (
            ("application/pdf", ("deepseek", "groq", "llamacpp", "vllm", "xai")),
            ("audio/wav", ("deepseek", "groq", "xai")),
            ("video/mp4", ("deepseek", "groq", "llamacpp", "xai")),
        )
        for provider in providers
    ),
    (
        "deepseek",
        conversation(QUESTION, response_schema={"type": "object"}),
        "a response_schema that is not empty",
    ),
    (
        "llamacpp",
        conversation(QUESTION, tool_choice=ForcedTool("weather")),
        "the choice of the tool weather",
    ),
)


@each_row("provider, conversation_, what", PROVIDER_REFUSALS)
def test_what_a_provider_lacks_is_refused_with_its_name(
    provider: str, conversation_: Conversation, what: str
) -> None:
    with pytest.raises(NotRepresentable) as error:
        dialect_named("openai-chat").encode_request(conversation_, provider=provider)

    assert str(error.value) == f"openai-chat of {provider} cannot represent {what}"


def test_other_dialects_refuse_to_encode_requests_by_name() -> None:
    for name, dialect in chat_dialects().items():
        if name not in {requests.DIALECT for requests in SDK_REQUESTS}:
            with pytest.raises(NotRepresentable, match=f"{name}: requests cannot be encoded"):
                dialect.encode_request(conversation(QUESTION))


# What another provider made, or what is empty

FOREIGN_REASONING: Final = {
    "without a signature": Reasoning("Hm."),
    "redacted by Anthropic": Reasoning(redacted="RED"),
    "an item of Responses": Reasoning("Hm.", redacted="ENC", metadata=(("id", "rs_1"),)),
    "details of OpenRouter": Reasoning(
        "Hm.", "SIG", metadata=(("id", "rs_1"), ("format", "anthropic-claude-v1"))
    ),
}


@each_row(
    "provider, base_url, url",
    [
        ("deepseek", "", "https://api.deepseek.com/chat/completions"),
        ("deepseek", "https://api.deepseek.com/v1", "https://api.deepseek.com/v1/chat/completions"),
        ("groq", "", "https://api.groq.com/openai/v1/chat/completions"),
        (
            "groq",
            "https://api.groq.com/openai/v1",
            "https://api.groq.com/openai/v1/chat/completions",
        ),
        ("llamacpp", "", "http://127.0.0.1:8080/v1/chat/completions"),
        ("mistral", "", "https://api.mistral.ai/v1/chat/completions"),
        ("openrouter", "", "https://openrouter.ai/api/v1/chat/completions"),
        (
            "openrouter",
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/v1/chat/completions",
        ),
        ("vllm", "", "http://127.0.0.1:8000/v1/chat/completions"),
        ("xai", "", "https://api.x.ai/v1/chat/completions"),
        ("xai", "https://api.x.ai/v1", "https://api.x.ai/v1/chat/completions"),
    ],
)
def test_a_request_is_sent_to_the_url_of_its_provider(
    provider: str, base_url: str, url: str
) -> None:
    request = dialect_named("openai-chat").encode_request(conversation(QUESTION), provider=provider)
    base_url = base_url or providers.upstream_url(provider, {}) or ""

    assert providers.join_url(base_url, request.path) == url


def test_a_provider_takes_reasoning_back_in_the_field_in_which_it_returns_it() -> None:
    for provider, variant in REQUEST_VARIANT_BY_PROVIDER.items():
        assert variant.reasoning_field == VARIANT_BY_PROVIDER[provider].reasoning_field, provider


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5, unique=True))
def test_ids_of_calls_at_mistral_have_nine_letters_and_digits(call_ids: list[str]) -> None:
    calls = message("assistant", *(ToolCall(call_id, "weather", "{}") for call_id in call_ids))
    results = message("tool", *(ToolResult(call_id, "21") for call_id in call_ids))
    request = dialect_named("openai-chat").encode_request(
        conversation(QUESTION, calls, results), provider="mistral"
    )

    _, answer, *outputs = orjson.loads(request.body)["messages"]
    sent_ids = [call["id"] for call in answer["tool_calls"]]
    assert [output["tool_call_id"] for output in outputs] == sent_ids
    assert len({*sent_ids}) == len(call_ids)
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in sent_ids)


SENT_IN_PIECES: Final = {
    "deepseek": (
        [{"reasoning_content": "Look "}, {"content": None, "reasoning_content": "first."}],
        {"reasoning_content": "Look first."},
    ),
    "groq": (
        [{"reasoning": "Look ", "channel": "analysis"}, {"reasoning": "first."}],
        {"reasoning": "Look first."},
    ),
    "openrouter": (
        [
            {"reasoning": text, "reasoning_details": [{"type": kind, "index": index, **fields}]}
            for index, kind, text, fields in (
                (0, "reasoning.text", "Look ", {"text": "Look ", "format": "f"}),
                (0, "reasoning.text", "first.", {"text": "first.", "format": "f"}),
                (0, "reasoning.text", None, {"signature": "SIG", "format": "f"}),
                (1, "reasoning.summary", "So.", {"summary": "So.", "format": "g"}),
                (1, "reasoning.encrypted", None, {"data": "ENC", "id": "rs_1", "format": "g"}),
            )
        ],
        {
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "format": "f",
                    "index": 0,
                    "text": "Look first.",
                    "signature": "SIG",
                },
                {"type": "reasoning.summary", "format": "g", "index": 1, "summary": "So."},
                {
                    "type": "reasoning.encrypted",
                    "format": "g",
                    "id": "rs_1",
                    "index": 1,
                    "data": "ENC",
                },
            ]
        },
    ),
    "mistral": (
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Look "}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "first."}]}]},
            {"content": [{"type": "thinking", "thinking": [], "signature": "SIG"}]},
            {"content": "Yes."},
        ],
        {
            "content": [
                {
                    "type": "thinking",
                    "thinking": [{"type": "text", "text": "Look first."}],
                    "signature": "SIG",
                },
                {"type": "text", "text": "Yes."},
            ],
        },
    ),
}
"""The deltas of a stream, and the fields of the message that is sent back, by provider."""


@each_row("provider, deltas, sent", [(name, *row) for name, row in SENT_IN_PIECES.items()])
def test_reasoning_of_a_stream_goes_back_whole(
    provider: str, deltas: list[dict[str, Any]], sent: dict[str, Any]
) -> None:
    dialect = dialect_named("openai-chat")
    decoder = dialect.response_decoder("sse")
    pieces = [
        piece
        for delta in deltas
        for piece in decoder.feed(
            sse.encode_event(orjson.dumps({"choices": [{"index": 0, "delta": delta}]}))
        )
    ]
    [turn] = decoder.turns()
    request = dialect.encode_request(
        conversation(QUESTION, RequestMessage("assistant", turn.parts), QUESTION),
        provider=provider,
    )

    texts = [piece.text for piece in pieces if isinstance(piece, Reasoning)]
    assert texts[:2] == ["Look ", "first."]
    answer = orjson.loads(request.body)["messages"][1]
    assert {name: answer.get(name) for name in sent} == sent


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_reasoning_of_recorded_responses_goes_back_as_it_came() -> None:
    fields = ("reasoning_content", "reasoning", "reasoning_details", "content")
    compared: Counter[str] = Counter()
    for row in corpus.rows():
        dialect = dialect_of_request(row.request)
        has_variant = row.provider in REQUEST_VARIANT_BY_PROVIDER
        if dialect.name != "openai-chat" or not has_variant or row.streaming or row.status != 200:
            continue
        [turn] = dialect.decode_response(DialectResponse(row.head, "whole", (row.body,)))
        if not any(isinstance(part, Reasoning) for part in turn.parts):
            continue
        request = dialect.encode_request(
            conversation(QUESTION, RequestMessage("assistant", turn.parts), QUESTION),
            provider=row.provider,
        )
        received = orjson.loads(row.body)["choices"][0]["message"]
        if received.get("reasoning_details"):
            del received["reasoning"]  # the same text
        if isinstance(received.get("content"), list):  # a block is closed by default
            received["content"] = [
                {name: value for name, value in block.items() if name != "closed"}
                for block in received["content"]
            ]
        sent = orjson.loads(request.body)["messages"][1]
        assert {name: sent.get(name) or None for name in fields} == {
            name: received.get(name) or None for name in fields
        }, row.id
        compared[row.provider] += 1

    assert {*compared} == {"deepseek", "groq", "mistral", "openrouter", "xai"}


@each_row(
    "dialect, sent",
    [
        ("openai-chat", set[str]()),
        ("openai-responses", {"an item of Responses"}),
        ("anthropic", {"redacted by Anthropic"}),
        ("bedrock", {"redacted by Anthropic"}),
        ("gemini", {"without a signature"}),
        ("gemini-interactions", {"without a signature"}),
    ],
)
def test_reasoning_goes_back_to_the_provider_that_made_it_only(
    dialect: str, sent: set[str]
) -> None:
    bodies = {
        name: encoded_body(dialect, RequestMessage("assistant", (part, Text("4."))))
        for name, part in FOREIGN_REASONING.items()
    }
    without = encoded_body(dialect, RequestMessage("assistant", (Text("4."),)))

    assert {name for name, body in bodies.items() if body != without} == sent


def test_a_message_that_would_be_empty_is_not_sent() -> None:
    redacted = RequestMessage("assistant", (Reasoning(redacted="RED", metadata=(("id", "1"),)),))

    assert encoded_body("anthropic", redacted)["messages"] == [
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": "Go on."},
    ]
    assert [content["role"] for content in encoded_body("gemini", redacted)["contents"]] == [
        "user",
        "user",
    ]


@each_row(
    "dialect, blocks",
    [
        ("anthropic", {"user": "Hello.", "assistant": "Yes."}),
        ("bedrock", {"user": [{"text": "Hello."}], "assistant": [{"text": "Yes."}]}),
    ],
)
def test_blank_text_is_not_sent_where_it_is_refused(dialect: str, blocks: dict[str, Any]) -> None:
    messages = (
        message("system", "\n"),
        message("user", " \n", "Hello."),
        message("assistant", "\n\n", "Yes.", Refusal(" ")),
        message("user", "\t"),
    )

    body = orjson.loads(
        dialect_named(dialect).encode_request(conversation(*messages, system=" ")).body
    )

    assert "system" not in body
    assert {sent["role"]: sent["content"] for sent in body["messages"]} == blocks


def test_the_type_of_media_by_url_is_optional_for_google() -> None:
    by_url = conversation(message("user", Media("image/*", url=PNG_URL)))

    gemini, interaction = (
        orjson.loads(dialect_named(name).encode_request(by_url).body)
        for name in ("gemini", "gemini-interactions")
    )

    assert gemini["contents"][0]["parts"] == [{"fileData": {"file_uri": PNG_URL}}]
    assert interaction["input"][0]["content"] == [{"type": "image", "uri": PNG_URL}]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gemini-2.5-pro", "/v1/models/gemini-2.5-pro:generateContent"),
        ("models/gemini-2.5-pro", "/v1/models/gemini-2.5-pro:generateContent"),
        ("tunedModels/mine", "/v1/tunedModels/mine:generateContent"),
        ("a?b", "/v1/models/a%3Fb:generateContent"),
    ],
)
def test_the_path_of_a_gemini_request_has_the_model(name: str, path: str) -> None:
    request = dialect_named("gemini").encode_request(Conversation((), model=name), stream=False)

    assert request.request_target == path


def encoded_body(dialect: str, answer: RequestMessage) -> Any:
    """The body of a request whose history has this message of the model."""
    messages = (
        RequestMessage("user", (Text("Hello."),)),
        answer,
        RequestMessage("user", (Text("Go on."),)),
    )
    request = dialect_named(dialect).encode_request(Conversation(messages, model="m"))
    return orjson.loads(request.body)


def test_an_object_among_the_extra_fields_is_merged() -> None:
    options = Conversation(
        (RequestMessage("user", (Text("Hello."),)),),
        model="m",
        temperature=0,
        extra_fields=(("options", {"num_ctx": 8}),),
    )
    body = orjson.loads(dialect_named("ollama").encode_request(options).body)

    assert body["options"] == {"temperature": 0, "num_ctx": 8}


def test_an_object_of_another_type_replaces_that_of_the_body() -> None:
    forced = Conversation(
        (RequestMessage("user", (Text("Hello."),)),),
        model="m",
        tool_choice=ForcedTool("look"),
        extra_fields=(("tool_choice", {"type": "auto"}),),
    )
    body = orjson.loads(dialect_named("anthropic").encode_request(forced).body)

    assert body["tool_choice"] == {"type": "auto"}
