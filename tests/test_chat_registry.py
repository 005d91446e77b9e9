"""The registry of providers, and the providers of an environment."""

from __future__ import annotations

import inspect
import re
import socket
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_row
from llm_chat import (
    ChatError,
    Conversation,
    ErrorEvent,
    HttpProvider,
    HttpSettings,
    ManagesModels,
    Message,
    ModelInfo,
    Provider,
    ProviderEvent,
    ProviderRegistry,
    PullProgress,
    ResponseEnd,
    Text,
    providers_from_environment,
)
from llm_chat.token_limits import CountsTokens
from llm_proxy.errors import UsageError
from mock_providers import DONE, CountingProvider, MockProvider, all_of, make_registry
from stub_upstream import Connection, upstream

NAME: Final = st.text(max_size=12)
NAMES: Final = st.lists(NAME, unique=True, min_size=1, max_size=8)
REQUEST: Final = Conversation((Message("user", (Text("Hello."),)),), model="m")


# The registry


@pytest.mark.shows("002-P01")
@settings(max_examples=100)
@given(NAMES)
def test_a_provider_is_found_by_its_name(names: Sequence[str]) -> None:
    # Feature: stage-02-core-provider, Property 1: For any provider adapter with a unique name,
    # registering it in the Provider_Registry and then retrieving it by name should return the same
    # adapter instance.
    providers = [MockProvider(name=name) for name in names]
    registry = make_registry(*providers)

    assert all(registry.get(provider.name) is provider for provider in providers)


@pytest.mark.shows("002-P02", "002-13")
@settings(max_examples=100)
@given(NAMES, st.data())
def test_the_default_is_found_without_a_name(names: Sequence[str], data: st.DataObject) -> None:
    # Feature: stage-02-core-provider, Property 2: For any provider adapter set as the default,
    # calling getDefault() should return that adapter, and calling get() without a name should also
    # return that adapter.
    registry = make_registry(*(MockProvider(name=name) for name in names))
    default = data.draw(st.sampled_from(names))
    registry.set_default(default)

    assert registry.get_default() is registry.get() is registry.get(default) is not None


@pytest.mark.shows("002-P03", "002-16")
@settings(max_examples=100)
@given(st.lists(NAME, max_size=12))
def test_the_list_has_each_name_once_in_order_of_registration(names: Sequence[str]) -> None:
    # Feature: stage-02-core-provider, Property 3: For any set of registered providers, the list()
    # method should return exactly the names of all registered providers, with no duplicates or
    # omissions.
    registry = ProviderRegistry()
    for name in names:
        registry.register(MockProvider(name=name))

    assert registry.list() == [*dict.fromkeys(names)]


@pytest.mark.shows("002-12")
def test_a_second_provider_of_a_name_replaces_the_first() -> None:
    first, second, other = MockProvider(), MockProvider(), MockProvider(name="other")
    registry = make_registry(first, other)
    registry.register(second)

    assert registry.get("mock") is registry.get_default() is second
    assert registry.list() == ["mock", "other"]


@pytest.mark.shows("002-13", "002-67")
def test_an_unknown_name_has_no_provider() -> None:
    assert make_registry(MockProvider()).get("other") is None
    assert ProviderRegistry().get("mock") is None
    assert ProviderRegistry().get() is None
    assert ProviderRegistry().list() == []


@pytest.mark.shows("002-14")
def test_a_default_must_be_registered() -> None:
    registry = make_registry(MockProvider())

    with pytest.raises(ChatError, match=r'^Provider "other" not registered$'):
        registry.set_default("other")
    assert registry.get_default().name == "mock"


@pytest.mark.shows("002-15", "002-66", "002-67")
def test_a_default_that_is_missing_is_reported() -> None:
    registry = ProviderRegistry()
    registry.register(MockProvider())

    with pytest.raises(ChatError, match=r"^No default provider set$"):
        registry.get_default()
    registry.set_default("mock")
    registry._providers.clear()
    with pytest.raises(ChatError, match=r'^Default provider "mock" not found$'):
        registry.get_default()


class Connected(MockProvider):
    """A provider that keeps connections; closing them may fail."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        super().__init__(DONE, name=name)
        self.is_closed = False
        self._error = error

    async def aclose(self) -> None:
        self.is_closed = True
        if self._error is not None:
            raise self._error


async def test_closing_a_registry_closes_every_provider_even_if_one_fails() -> None:
    providers = [Connected("a"), Connected("b", OSError("reset")), Connected("c")]

    with pytest.raises(OSError, match="reset"):
        await make_registry(*providers, MockProvider(name="without connections")).aclose()
    assert all(provider.is_closed for provider in providers)


# Every provider


async def no_wait(_: float) -> None:
    """Waits for nothing between the attempts at a request."""


def every_provider(url: str) -> list[Provider]:
    """The providers of an environment whose servers are all at `url`, and the mock ones."""
    environ = {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url, "OLLAMA_HOST": url}
    registry = providers_from_environment(environ)
    providers: list[Provider] = [MockProvider(DONE), CountingProvider(7, DONE)]
    for provider in map(registry.get, registry.list()):
        assert isinstance(provider, HttpProvider)
        provider._sleep = no_wait
        providers.append(provider)
    return providers


PROVIDER_INDEXES: Final = st.integers(0, len(every_provider("http://127.0.0.1")) - 1)
MESSAGES: Final = st.lists(
    st.builds(
        Message,
        st.sampled_from(("user", "assistant")),
        st.lists(st.builds(Text, st.text()), min_size=1, max_size=3).map(tuple),
    ),
    max_size=4,
).map(tuple)
REQUESTS: Final = st.builds(Conversation, MESSAGES, system=st.text(), model=st.just("m"))


@pytest.mark.shows("002-P10", "002-10")
@settings(max_examples=100)
@given(PROVIDER_INDEXES, REQUESTS)
async def test_every_provider_streams_events(index: int, request: Conversation) -> None:
    # Feature: stage-02-core-provider, Property 10: For any provider adapter, it should implement
    # the chatStream method that returns an async iterable of ProviderEvent objects.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens there
        provider = every_provider(f"http://127.0.0.1:{bound.getsockname()[1]}")[index]
        events = await all_of(provider.chat_stream(request))
        if isinstance(provider, HttpProvider):
            await provider.aclose()

    assert isinstance(provider.name, str)
    assert all(isinstance(event, ProviderEvent) for event in events)
    assert isinstance(events[-1], ResponseEnd | ErrorEvent)


@pytest.mark.shows("002-P11", "002-10", "002-11")
@settings(max_examples=100)
@given(PROVIDER_INDEXES, REQUESTS)
async def test_optional_methods_are_complete(index: int, request: Conversation) -> None:
    # Feature: stage-02-core-provider, Property 11: For any provider adapter that supports token
    # counting, calling countTokens should return a positive number; for any provider that supports
    # model management, the methods listModels, pullModel, deleteModel, and showModel should be
    # defined.
    provider = every_provider("http://127.0.0.1")[index]
    if isinstance(provider, CountsTokens):
        assert await provider.count_tokens(request) > 0
    methods = [
        inspect.iscoroutinefunction(getattr(provider, name, None))
        for name in ("list_models", "pull_model", "delete_model", "show_model")
    ]
    assert all(methods) == any(methods) == isinstance(provider, ManagesModels)
    assert isinstance(provider, ManagesModels) == (provider.name in ("local", "ollama"))


@pytest.mark.shows("002-11")
def test_only_the_name_of_a_model_and_the_status_of_a_download_are_required() -> None:
    assert ModelInfo("m") == ModelInfo("m", size_bytes=None, modified_at="", details=None)
    assert PullProgress("done") == PullProgress("done", completed=None, total=None)


# The providers of an environment


def describe(name: str, environ: dict[str, str]) -> tuple[str, str, bool]:
    """The base URL and the key of a provider, and whether the URL replaces `/v1`."""
    provider = providers_from_environment(environ).get(name)
    assert isinstance(provider, HttpProvider)
    return provider.settings.base_url, provider.settings.api_key, provider._replaces_v1


def test_the_providers_of_an_empty_environment() -> None:
    registry = providers_from_environment({})

    assert registry.get_default() is registry.get("openai")
    assert {name: describe(name, {}) for name in registry.list()} == {
        name: (base_url, "", False)
        for name, base_url in {
            "openai": "https://api.openai.com",
            "openai-responses": "https://api.openai.com",
            "openai-completions": "https://api.openai.com",
            "anthropic": "https://api.anthropic.com",
            "gemini": "https://generativelanguage.googleapis.com",
            "gemini-interactions": "https://generativelanguage.googleapis.com",
            "cohere": "https://api.cohere.com",
            "bedrock": "",  # that of a region
            "mistral": "https://api.mistral.ai",
            "groq": "https://api.groq.com",
            "deepseek": "https://api.deepseek.com",
            "openrouter": "https://openrouter.ai",
            "xai": "https://api.x.ai",
            "vllm": "http://127.0.0.1:8000",
            "llamacpp": "http://127.0.0.1:8080",
            "ollama": "http://127.0.0.1:11434",
            "local": "http://127.0.0.1:11434",
        }.items()
    }


PROXY: Final = "http://127.0.0.1:4777"


@each_row(
    "name, environ, upstreams, base_url",
    [
        ("vllm", {"LLM_PROXY_URL": f"{PROXY}/"}, {}, f"{PROXY}/~vllm"),
        ("ollama", {"LLM_PROXY_URL": PROXY}, {}, f"{PROXY}/~ollama"),
        ("openai", {"LLM_PROXY_URL": PROXY, "OPENAI_BASE_URL": PROXY}, {}, PROXY),
        ("xai", {"LLM_PROXY_URL": PROXY}, {"xai": "http://gpu:1"}, "http://gpu:1"),
        ("openai", {"OPENAI_BASE_URL": PROXY}, {"openai": "http://gpu:1"}, "http://gpu:1"),
        ("openai", {"OPENAI_BASE_URL": PROXY}, {"default": "http://gpu:1"}, "http://gpu:1"),
        ("openai", {"OPENAI_BASE_URL": PROXY}, {"xai": "http://gpu:1"}, PROXY),
        ("ollama", {"OLLAMA_HOST": PROXY}, {"ollama": "http://gpu:1"}, "http://gpu:1"),
    ],
)
def test_an_upstream_comes_before_the_environment_and_the_proxy_comes_last(
    name: str, environ: dict[str, str], upstreams: dict[str, str], base_url: str
) -> None:
    provider = providers_from_environment(environ, upstreams).get(name)

    assert isinstance(provider, HttpProvider)
    assert provider.settings.base_url == base_url


@each_row(
    "environ, is_signed",
    [
        ({}, True),
        ({"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "https://vpce.example"}, True),
        ({"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": PROXY}, False),
        ({"LLM_PROXY_URL": PROXY}, False),
        ({"LLM_PROXY_URL": "http://proxy.example:4777"}, False),
    ],
)
def test_requests_for_bedrock_are_signed_except_for_those_to_a_proxy(
    environ: dict[str, str], is_signed: bool
) -> None:
    provider = providers_from_environment(environ).get("bedrock")

    assert isinstance(provider, HttpProvider)
    assert provider.settings.signs_requests is is_signed


GATEWAY: Final = "http://gateway.example"


@each_row(
    "name, environ, base_url, replaces_v1",
    [
        ("openai", {"OPENAI_BASE_URL": f"{GATEWAY}/v1"}, f"{GATEWAY}/v1", True),
        ("openai", {"OPENAI_BASE_URL": GATEWAY}, GATEWAY, True),
        ("openai", {"OPENAI_BASE_URL": f"  {GATEWAY}/v1  "}, f"{GATEWAY}/v1", True),
        ("openai", {"OPENAI_BASE_URL": ""}, "https://api.openai.com", False),
        ("openai", {"OPENAI_API_BASE": f"{GATEWAY}/v1"}, f"{GATEWAY}/v1", True),
        ("openai-responses", {"OPENAI_BASE_URL": f"{GATEWAY}/v1"}, f"{GATEWAY}/v1", True),
        ("anthropic", {"ANTHROPIC_BASE_URL": GATEWAY}, GATEWAY, False),
        ("anthropic", {"ANTHROPIC_BASE_URL": f"{GATEWAY}/v1"}, f"{GATEWAY}/v1", False),
        ("anthropic", {"OPENAI_BASE_URL": GATEWAY}, "https://api.anthropic.com", False),
        ("local", {"OLLAMA_HOST": "10.0.0.5"}, "http://10.0.0.5:11434", False),
        ("local", {"OLLAMA_HOST": "gpu:8080"}, "http://gpu:8080", False),
        ("local", {"OLLAMA_HOST": ":8080"}, "http://127.0.0.1:8080", False),
        ("local", {"OLLAMA_HOST": "[::1]"}, "http://[::1]:11434", False),
        ("ollama", {"OLLAMA_HOST": "https://gpu.example"}, "https://gpu.example", False),
        ("ollama", {"OLLAMA_HOST": "gpu/ollama"}, "http://gpu:11434/ollama", False),
    ],
)
def test_a_base_url_is_that_of_the_providers_variable(
    name: str, environ: dict[str, str], base_url: str, replaces_v1: bool
) -> None:
    assert describe(name, environ) == (base_url, "", replaces_v1)


@each_row(
    "name, environ, path",
    [
        ("openai", {"OPENAI_BASE_URL": "URL/v1"}, "/v1/chat/completions"),
        ("openai", {"OPENAI_BASE_URL": "URL/v1/"}, "/v1/chat/completions"),
        ("openai", {"OPENAI_BASE_URL": "URL"}, "/chat/completions"),
        ("openai", {"OPENAI_BASE_URL": "URL/api/v3"}, "/api/v3/chat/completions"),
        ("openai-responses", {"OPENAI_BASE_URL": "URL/v1"}, "/v1/responses"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "URL"}, "/v1/messages"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "URL/"}, "/v1/messages"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "URL/gateway"}, "/gateway/v1/messages"),
        ("local", {"OLLAMA_HOST": "URL"}, "/api/chat"),
        ("ollama", {"OLLAMA_HOST": "URL/"}, "/api/chat"),
    ],
)
async def test_a_request_has_the_path_that_the_sdk_would_send(
    name: str, environ: dict[str, str], path: str
) -> None:
    heads: list[bytes] = []

    async def record_and_close(connection: Connection) -> None:
        heads.append(connection.head)
        connection.fin()

    async with upstream(record_and_close) as server:
        registry = providers_from_environment(
            {variable: url.replace("URL", server.url) for variable, url in environ.items()}
        )
        provider = registry.get(name)
        assert isinstance(provider, HttpProvider)
        provider._sleep = no_wait
        await all_of(provider.chat_stream(REQUEST))
        await registry.aclose()

    assert {head.split(b" ")[1].decode() for head in heads} == {path}


@each_row(
    "name, environ, key",
    [
        ("openai", {"OPENAI_API_KEY": "canary-o"}, "canary-o"),
        ("openai-responses", {"OPENAI_API_KEY": " canary-o\n"}, "canary-o"),
        ("anthropic", {"ANTHROPIC_API_KEY": "canary-a"}, "canary-a"),
        ("anthropic", {"OPENAI_API_KEY": "canary-o"}, ""),
        ("local", {"OPENAI_API_KEY": "canary-o", "ANTHROPIC_API_KEY": "canary-a"}, ""),
    ],
)
def test_a_key_is_that_of_its_provider_only(name: str, environ: dict[str, str], key: str) -> None:
    assert describe(name, environ)[1] == key


@each_row("variable", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"])
@each_row("url", ["gateway.example/v1", "ftp://gateway.example", "http://", "http://a b"])
def test_a_url_that_is_not_http_is_refused_by_its_variable(variable: str, url: str) -> None:
    with pytest.raises(UsageError, match=f"^{variable}: "):
        providers_from_environment({variable: url})


# Providers that an application adds


@each_row(
    "dialect, path, header",
    [
        ("openai-chat", "/v1/chat/completions", b"authorization: Bearer canary"),
        ("openai-responses", "/v1/responses", b"authorization: Bearer canary"),
        ("anthropic", "/v1/messages", b"x-api-key: canary"),
        ("ollama", "/api/chat", b"authorization: Bearer canary"),
    ],
)
async def test_the_dialect_determines_the_path_and_the_header_of_the_key(
    dialect: str, path: str, header: bytes
) -> None:
    heads: list[bytes] = []

    async def record_and_close(connection: Connection) -> None:
        heads.append(connection.head)
        connection.fin()

    async with upstream(record_and_close) as server:
        settings = HttpSettings(server.url, "canary", max_retries=0)
        provider = HttpProvider("mine", dialect, settings)
        await all_of(provider.chat_stream(REQUEST))
        await provider.aclose()

    [head] = heads
    assert head.split(b" ")[1] == path.encode()
    assert header in head


@each_row("dialect", ["openai", "google", "opaque", ""])
def test_a_dialect_whose_requests_cannot_be_encoded_is_refused(dialect: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"unknown dialect {dialect!r}")):
        HttpProvider("mine", dialect, HttpSettings("http://127.0.0.1:1"))


@each_row(
    "fields, message",
    [
        ({"base_url": "gateway.example"}, "base_url: "),
        ({"base_url": "http://me:canary@gateway.example"}, "base_url: "),
        ({"base_url": "http://gateway.example/v1?api-key=canary"}, "base_url: "),
        ({"base_url": "http://gateway.example", "api_key": "canary\nx"}, "api_key: "),
    ],
)
def test_settings_that_would_fail_or_leak_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)) as refused:
        HttpSettings(**fields)

    assert "canary" not in str(refused.value)


def test_a_key_that_cannot_be_sent_is_refused_by_its_variable() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as refused:
        providers_from_environment({"OPENAI_API_KEY": "canary\r\nx"})

    assert "canary" not in str(refused.value)
