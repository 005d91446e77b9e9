"""Property tests of encoded requests: what is decoded from them, and that they are valid."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_proxy.conversation import (
    Conversation,
    ForcedTool,
    RequestMessage,
    Role,
    ToolChoice,
    ToolDefinition,
)
from llm_proxy.dialects import dialect_named
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.dialects.openai.chat_request_variants import REQUEST_VARIANT_BY_PROVIDER
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from sdk_requests.conversations import QUESTION, conversation, message

TEXTS: Final = st.text(min_size=1, max_size=30)
NUMBERS: Final = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(
    -(2**53), 2**53, exclude_min=True, exclude_max=True
)
INTEGERS: Final = st.integers(0, 2**53 - 1)
JSON_VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
JSON_OBJECTS: Final = st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4)
SCHEMAS: Final = JSON_OBJECTS.map(lambda schema: {"type": "object", "properties": schema})
BASE64: Final = st.binary(min_size=1, max_size=12).map(lambda data: b64encode(data).decode())
TOOLS: Final = st.builds(ToolDefinition, TEXTS, st.text(max_size=20), SCHEMAS)
ENCODING_DIALECTS: Final = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-interactions", "ollama",
    "cohere", "bedrock"
)  # fmt: skip
ALL_DIALECTS: Final = (*ENCODING_DIALECTS, "openai-completions")
"""Those too whose requests are decoded to one message."""

INLINE_IMAGES: Final = st.builds(Media, st.sampled_from(["image/png", "image/jpeg"]), base64=BASE64)
IMAGES_BY_URL: Final = st.builds(
    Media, st.just("image/*"), url=TEXTS.map(lambda path: f"https://example.com/{path}")
)
PDFS: Final = st.builds(Media, st.just("application/pdf"), base64=BASE64)
SOUNDS: Final = st.builds(Media, st.sampled_from(["audio/wav", "audio/mp3"]), base64=BASE64)
MEDIA_OF_GOOGLE: Final = st.sampled_from(
    ["image/png", "audio/wav", "video/mp4", "application/pdf"]
).flatmap(
    lambda kind: (
        st.builds(Media, st.just(kind), base64=BASE64) | st.builds(Media, st.just(kind), url=TEXTS)
    )
)
USER_MEDIA: Final[Mapping[str, st.SearchStrategy[Media]]] = {
    "openai-chat": INLINE_IMAGES | IMAGES_BY_URL | PDFS | SOUNDS,
    "openai-responses": INLINE_IMAGES | IMAGES_BY_URL | PDFS | SOUNDS,
    "anthropic": INLINE_IMAGES | IMAGES_BY_URL | PDFS,
    "gemini": MEDIA_OF_GOOGLE,
    "gemini-interactions": MEDIA_OF_GOOGLE,
    "ollama": st.builds(Media, st.just("image/*"), base64=BASE64),
    "cohere": INLINE_IMAGES | IMAGES_BY_URL,
    "bedrock": INLINE_IMAGES
    | PDFS
    | st.builds(Media, st.sampled_from(["text/csv", "video/mp4", "audio/wav"]), base64=BASE64)
    | st.builds(
        Media,
        st.sampled_from(["image/webp", "text/plain", "video/mov"]),
        url=TEXTS.map(lambda path: f"s3://bucket/{path}"),
    ),
}
REASONING: Final[Mapping[str, st.SearchStrategy[Reasoning]]] = {
    "anthropic": st.builds(Reasoning, TEXTS, signature=TEXTS)
    | st.builds(Reasoning, redacted=TEXTS),
    **dict.fromkeys(
        ("gemini", "gemini-interactions"),
        st.builds(Reasoning, TEXTS, signature=st.none() | BASE64)
        | st.builds(Reasoning, signature=BASE64),
    ),
    "ollama": st.builds(Reasoning, TEXTS),
    "cohere": st.builds(Reasoning, TEXTS),
    "bedrock": st.builds(Reasoning, TEXTS, signature=TEXTS) | st.builds(Reasoning, redacted=BASE64),
}
"""The reasoning that each format can send back."""
OPTIONS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "temperature": NUMBERS,
    "top_p": NUMBERS,
    "max_tokens": INTEGERS,
    "top_k": INTEGERS,
    "repeat_penalty": NUMBERS,
    "seed": INTEGERS,
    "stop_sequences": st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
    "response_schema": SCHEMAS,
}
OPTIONS_LACKED: Final[Mapping[str, frozenset[str]]] = {
    "openai-chat": frozenset(("top_k", "repeat_penalty")),
    "openai-responses": frozenset(("top_k", "repeat_penalty", "seed", "stop_sequences")),
    "anthropic": frozenset(("repeat_penalty", "seed")),
    "gemini": frozenset(("repeat_penalty",)),
    "gemini-interactions": frozenset(("top_k", "repeat_penalty")),
    "ollama": frozenset(),
    "cohere": frozenset(("repeat_penalty",)),
    "bedrock": frozenset(("top_k", "repeat_penalty", "seed")),
}
TOOL_CHOICES: Final[st.SearchStrategy[ToolChoice | None]] = st.one_of(
    st.none(), st.sampled_from(("auto", "none", "required")), TEXTS.map(ForcedTool)
)
TOOL_CHOICES_LIMITED: Final[Mapping[str, st.SearchStrategy[ToolChoice | None]]] = {
    "ollama": st.none(),
    "cohere": st.none() | st.sampled_from(("none", "required")),
}
"""Those of formats that lack some."""


def message_texts(dialect: str) -> st.SearchStrategy[str]:
    """Texts that the API accepts in a message."""
    return TEXTS.filter(str.strip) if dialect in ("anthropic", "bedrock") else TEXTS


@st.composite
def user_messages(draw: st.DrawFn, dialect: str) -> RequestMessage:
    media = draw(st.lists(USER_MEDIA[dialect], max_size=2))
    fewest = 0 if media else 1
    if dialect == "ollama":  # a text, then images
        return message("user", *draw(st.lists(TEXTS, min_size=fewest, max_size=1)), *media)
    texts = draw(st.lists(st.builds(Text, message_texts(dialect)), min_size=fewest, max_size=2))
    parts: list[Part] = [*media, *texts]
    return message("user", *draw(st.permutations(parts)))


@st.composite
def model_messages(draw: st.DrawFn, dialect: str, number: int) -> RequestMessage:
    """A message with what the format has, in its order; ids are unique."""
    reasoning = draw(st.lists(REASONING[dialect], max_size=1)) if dialect in REASONING else []
    texts = draw(st.lists(message_texts(dialect), max_size=1 if dialect == "ollama" else 2))
    has_refusals = dialect.startswith("openai")
    refusals = draw(st.lists(TEXTS.map(Refusal), max_size=1)) if has_refusals else []
    arguments = JSON_OBJECTS.map(compact_json)
    calls = [
        ToolCall(f"call_{number}_{index}", draw(TEXTS), draw(arguments))
        for index in range(draw(st.integers(0 if texts else 1, 3)))
    ]
    return message("assistant", *reasoning, *texts, *refusals, *calls)


def one_message_per_side(messages: list[RequestMessage]) -> list[RequestMessage]:
    """The messages as a format has them that sends adjacent ones of a role as one."""
    merged = []
    for is_model, group in groupby(messages, key=lambda each: each.role == "assistant"):
        parts = tuple(part for each in group for part in each.parts)
        has_only_results = all(isinstance(part, ToolResult) for part in parts)
        role: Role = "assistant" if is_model else "tool" if has_only_results else "user"
        merged.append(RequestMessage(role, parts))
    return merged


@st.composite
def conversations(draw: st.DrawFn, dialect: str) -> Conversation:
    """A conversation that the format can represent, in the form to which it is decoded."""
    messages: list[RequestMessage] = []
    system = draw(st.just("") | message_texts(dialect))
    if system and dialect in ("openai-chat", "ollama", "cohere"):
        messages.append(message("system", system))
    for number in range(draw(st.integers(0, 3))):
        messages.append(draw(user_messages(dialect)))
        messages.append(answer := draw(model_messages(dialect, number)))
        has_failures = dialect in ("anthropic", "bedrock", "gemini-interactions")
        failed = st.booleans() if has_failures else st.just(value=False)
        calls = [part for part in answer.parts if isinstance(part, ToolCall)]
        results = [
            ToolResult(call.id, draw(st.text(max_size=20)), call.name, draw(failed))
            for call in calls
        ]
        messages += [message("tool", *results)] if results else []
    messages.append(draw(user_messages(dialect)))
    tools = tuple(draw(st.lists(TOOLS, max_size=2)))
    choices = TOOL_CHOICES_LIMITED.get(dialect, TOOL_CHOICES)
    if dialect == "bedrock":
        messages = one_message_per_side(messages)
        choices = choices.filter(lambda choice: choice != "none") if tools else st.none()
    options = {
        option: draw(values)
        for option, values in OPTIONS.items()
        if option not in OPTIONS_LACKED[dialect] and draw(st.booleans())
    }
    if dialect == "anthropic":
        options.setdefault("max_tokens", 8192)
    return Conversation(
        tuple(messages),
        system=system,
        tools=tools,
        model=draw(TEXTS.filter(lambda name: "\n" not in name)),
        tool_choice=draw(choices),
        wants_signed_reasoning=dialect == "anthropic",
        is_stored_by_provider=dialect in ("openai-responses", "gemini-interactions"),
        **options,
    )


# Feature: stage-02-core-provider, Property 12: For any internal message, converting it to provider
# format and then back to internal format should produce an equivalent message (round-trip
# property).
@pytest.mark.shows("002-P12")
@pytest.mark.parametrize("dialect", ENCODING_DIALECTS)
@settings(max_examples=100)
@given(data=st.data())
def test_property_12_decoding_an_encoded_conversation_returns_it(
    dialect: str, data: st.DataObject
) -> None:
    given_conversation = data.draw(conversations(dialect))

    request = dialect_named(dialect).encode_request(given_conversation)

    assert dialect_named(dialect).decode_request(request) == given_conversation


@given(text=TEXTS, answer=TEXTS)
def test_a_decoded_prompt_is_encoded_to_the_same_prompt(text: str, answer: str) -> None:
    dialect = dialect_named("openai-completions")
    given_conversation = conversation(message("user", text), message("assistant", answer))
    request = dialect.encode_request(given_conversation)
    decoded = dialect.decode_request(request)

    assert decoded is not None
    assert dialect.encode_request(decoded) == request


# Feature: stage-02-core-provider, Property 13: For any set of tool schemas, converting them to the
# provider's function calling format should preserve all tool names, descriptions, and parameter
# definitions.
@pytest.mark.shows("002-P13")
@pytest.mark.parametrize("dialect", ENCODING_DIALECTS)
@settings(max_examples=100)
@given(tools=st.lists(TOOLS, max_size=4))
def test_property_13_tools_keep_names_descriptions_and_parameters(
    dialect: str, tools: list[ToolDefinition]
) -> None:
    request = dialect_named(dialect).encode_request(conversation(QUESTION, tools=tuple(tools)))

    body = orjson.loads(request.body)
    sent = body.get("tools", []) or body.get("toolConfig", {}).get("tools", [])
    functions = [
        function
        for tool in sent
        for function in tool.get(
            "functionDeclarations", [tool.get("function") or tool.get("toolSpec") or tool]
        )
    ]
    assert [
        ToolDefinition(
            function["name"],
            function.get("description", ""),
            function.get("parameters")
            or function.get("parameters_json_schema")
            or function.get("input_schema")
            or function["inputSchema"]["json"],
        )
        for function in functions
    ] == tools


# Feature: stage-02-core-provider, Property 14: For any chat request, the Local_Provider should
# generate an HTTP request body that contains all required fields (model, messages, options) in the
# correct format.
@pytest.mark.shows("002-P14")
@settings(max_examples=100)
@given(given_conversation=conversations("ollama"), stream=st.booleans())
def test_property_14_a_local_request_has_model_messages_and_options(
    given_conversation: Conversation, stream: bool
) -> None:
    request = dialect_named("ollama").encode_request(given_conversation, stream=stream)

    body = orjson.loads(request.body)
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert body["model"] == given_conversation.model
    assert body["stream"] is stream
    assert [entry["role"] for entry in body["messages"]] == [
        entry.role
        for entry in given_conversation.messages
        for _ in (entry.parts if entry.role == "tool" else [None])
    ]
    assert body["options"] == {
        {"max_tokens": "num_predict", "stop_sequences": "stop"}.get(option, option): list(value)
        if isinstance(value, tuple)
        else value
        for option in OPTIONS
        if option != "response_schema"
        and (value := getattr(given_conversation, option)) not in (None, ())
    }


WILD_TEXTS: Final = st.sampled_from(["", "a", "\ud800", "data:image/png;base64,eA==", "\u2028"])
WILD_METADATA: Final = st.lists(
    st.tuples(
        st.sampled_from(["id", "type", "status", "caller"]),
        st.sampled_from(["", "custom", "web_search_call", "server_tool_use", "\ud800", 1, None]),
    ),
    max_size=2,
).map(tuple)
WILD_PARTS: Final[st.SearchStrategy[Part]] = st.one_of(
    st.builds(Text, WILD_TEXTS, metadata=WILD_METADATA),
    st.builds(
        Reasoning,
        WILD_TEXTS,
        signature=st.none() | WILD_TEXTS,
        redacted=st.none() | WILD_TEXTS,
        metadata=WILD_METADATA,
    ),
    st.builds(ToolCall, WILD_TEXTS, WILD_TEXTS, WILD_TEXTS | st.just("{}"), metadata=WILD_METADATA),
    st.builds(ToolResult, WILD_TEXTS, WILD_TEXTS, WILD_TEXTS, metadata=WILD_METADATA),
    st.builds(Refusal, WILD_TEXTS),
    st.builds(
        Media,
        st.sampled_from(["", "image/png", "audio/wav", "*/*", "\ud800"]),
        url=WILD_TEXTS,
        base64=WILD_TEXTS,
        transcript=WILD_TEXTS,
        metadata=WILD_METADATA,
    ),
)
WILD_NUMBERS: Final[st.SearchStrategy[Any]] = st.none() | st.sampled_from(
    [0, float("nan"), float("-inf"), 10**400, True, 2.5]
)
WILD_JSON: Final = st.none() | st.sampled_from(
    [{}, [], {"a": float("nan")}, {"\ud800": "\ud800"}, {"a": 10**400}, "a", True]
)
WILD_CONVERSATIONS: Final = st.builds(
    Conversation,
    st.lists(
        st.builds(
            RequestMessage,
            st.sampled_from(["system", "user", "assistant", "tool", "critic"]),
            st.lists(WILD_PARTS, max_size=3).map(tuple),
        ),
        max_size=4,
    ).map(tuple),
    system=WILD_TEXTS,
    tools=st.lists(st.builds(ToolDefinition, WILD_TEXTS, WILD_TEXTS, WILD_JSON), max_size=2).map(
        tuple
    ),
    temperature=WILD_NUMBERS,
    model=WILD_TEXTS,
    tool_choice=st.sampled_from([None, "auto", "none", "maybe"])
    | st.builds(ForcedTool, WILD_TEXTS),
    max_tokens=WILD_NUMBERS,
    stop_sequences=st.lists(WILD_TEXTS, max_size=2).map(tuple),
    response_schema=WILD_JSON,
    extra_fields=st.lists(st.tuples(WILD_TEXTS, WILD_JSON), max_size=1).map(tuple),
)


@pytest.mark.parametrize(
    ("dialect", "provider"),
    [
        *((dialect, "") for dialect in ALL_DIALECTS),
        *(("openai-chat", provider) for provider in REQUEST_VARIANT_BY_PROVIDER),
    ],
)
@given(wild=WILD_CONVERSATIONS)
def test_any_conversation_is_encoded_to_valid_json_or_refused(
    dialect: str, provider: str, wild: Conversation
) -> None:
    with suppress(NotRepresentable):
        request = dialect_named(dialect).encode_request(wild, provider=provider)
        assert json.loads(request.body.decode())
        dialect_named(dialect).decode_request(request)


def test_a_conversation_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"not": schema}

    for dialect in ALL_DIALECTS:
        with pytest.raises(NotRepresentable):
            dialect_named(dialect).encode_request(conversation(QUESTION, response_schema=schema))
