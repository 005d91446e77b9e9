from __future__ import annotations

import pytest

from llm_proxy import providers
from llm_proxy.exchange import Headers, Request
from llm_proxy.providers import ANY, PROVIDERS, provider_of

CLAUDE: Headers = (("Anthropic-Version", "2026-10-21"),)
GOOGLE: Headers = (("x-goog-api-key", "k"),)
NONE: Headers = ()


@pytest.mark.parametrize(
    ("path", "headers", "provider"),
    [
        # openai, and everybody who speaks its protocol under /v1
        ("/v1/chat/completions", NONE, "openai"),
        ("/v1/responses", NONE, "openai"),
        ("/v1/responses/resp_1/cancel", NONE, "openai"),
        ("/v1/completions", NONE, "openai"),
        ("/v1/embeddings", NONE, "openai"),
        ("/v1/models", NONE, "openai"),
        ("/v1/models/gpt-5", NONE, "openai"),
        ("/v1/moderations", NONE, "openai"),
        ("/v1/audio/transcriptions", NONE, "openai"),
        ("/v1/files", NONE, "openai"),
        # clients whose base URL is without /v1
        ("/chat/completions", NONE, "openai"),
        ("/completions", NONE, "openai"),
        ("/responses", NONE, "openai"),
        ("/responses/resp_1", NONE, "openai"),
        ("/embeddings", NONE, "openai"),
        ("/models", NONE, "openai"),
        # anthropic: SDKs and Claude Code, the AI SDK, the legacy path, paths shared with openai
        ("/v1/messages", CLAUDE, "anthropic"),
        ("/v1/messages", NONE, "anthropic"),
        ("/messages", CLAUDE, "anthropic"),
        ("/v1/messages/count_tokens", NONE, "anthropic"),
        ("/v1/messages/batches/b/results", NONE, "anthropic"),
        ("/v1/complete", NONE, "anthropic"),
        ("/v1/models", CLAUDE, "anthropic"),
        ("/v1/models/claude", CLAUDE, "anthropic"),
        ("/v1/files", CLAUDE, "anthropic"),
        # google: the SDKs' /v1 and /v1beta, the AI SDK, LiteLLM without a version
        ("/v1beta/models/gemini-3:streamGenerateContent", GOOGLE, "gemini"),
        ("/v1beta/models/gemini-3:generateContent", NONE, "gemini"),
        ("/v1/models/gemini-3:generateContent", NONE, "gemini"),
        ("/v1alpha/models", GOOGLE, "gemini"),
        ("/v1/models", GOOGLE, "gemini"),
        ("/v1/models/gemini-3", GOOGLE, "gemini"),
        ("/models/gemini-3:streamGenerateContent", GOOGLE, "gemini"),
        ("/v1/interactions", GOOGLE, "gemini"),
        ("/v1beta/interactions/i/cancel", NONE, "gemini"),
        ("/upload/v1beta/files", GOOGLE, "gemini"),
        # vertex: also with an API key, and under the base URL of Anthropic's client
        ("/v1beta1/projects/p/locations/l/publishers/google/models/m:predict", NONE, "vertex"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", CLAUDE, "vertex"),
        ("/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", NONE, "vertex"),
        ("/v1beta1/publishers/google/models/m:streamGenerateContent", GOOGLE, "vertex"),
        # ollama
        ("/api/chat", NONE, "ollama"),
        ("/api/generate", NONE, "ollama"),
        ("/api/show", NONE, "ollama"),
        ("/api/blobs/sha256:0", NONE, "ollama"),
        ("/", NONE, "ollama"),
        # others with paths of their own
        ("/openai/v1/chat/completions", NONE, "groq"),
        ("/openai/deployments/d/chat/completions", NONE, "azure"),
        ("/openai/responses", NONE, "azure"),
        ("/api/v1/chat/completions", NONE, "openrouter"),
        ("/api/v1/messages", CLAUDE, "openrouter"),
        ("/model/anthropic.claude-x%3A0/converse-stream", NONE, "bedrock"),
        ("/model/anthropic.claude-x%3A0/converse", NONE, "bedrock"),
        ("/model/m/invoke", NONE, "bedrock"),
        ("/model/m/invoke-with-response-stream", NONE, "bedrock"),
        ("/model/m/count-tokens", NONE, "bedrock"),
        ("/guardrail/g/version/1/apply", NONE, "bedrock"),
        ("/async-invoke", NONE, "bedrock"),
        ("/v2/chat", NONE, "cohere"),
        ("/v2/rerank", NONE, "cohere"),
        ("/v1/chat", NONE, "cohere"),
        ("/v1/tokenize", NONE, "cohere"),
        # nobody's
        ("/healthz", NONE, ANY),
        ("/v3/x", NONE, ANY),
        ("/openai", NONE, ANY),
        ("/anthropic/v1/messages", NONE, ANY),
        ("/anthropic/v1/messages", CLAUDE, "anthropic"),
        ("/V1/chat/completions", NONE, ANY),
        ("*", NONE, ANY),
    ],
)
def test_a_path_belongs_to_its_provider(path: str, headers: Headers, provider: str) -> None:
    assert provider_of(Request("POST", path, "", headers, b"")) == provider


def test_every_provider_has_a_name_of_its_own() -> None:
    names = [it.name for it in PROVIDERS]
    assert len(set(names)) == len(names)
    assert ANY not in names


@pytest.mark.parametrize(
    ("provider", "configured", "url"),
    [
        ("openai", {}, "https://api.openai.com"),
        ("openai", {"openai": "http://a"}, "http://a"),
        ("openai", {"openai": "http://a", ANY: "http://b"}, "http://a"),
        ("openai", {ANY: "http://b", "groq": "http://c"}, "http://b"),
        ("openai", {"groq": "http://c"}, "https://api.openai.com"),
        ("azure", {}, None),
        ("azure", {"azure": "http://a"}, "http://a"),
        ("mine", {}, None),
        ("mine", {"mine": "http://a"}, "http://a"),
        (ANY, {}, None),
        (ANY, {ANY: "http://b"}, "http://b"),
    ],
)
def test_an_address_is_the_nearest_that_was_given(
    provider: str, configured: dict[str, str], url: str | None
) -> None:
    assert providers.address(provider, configured) == url


@pytest.mark.parametrize(
    ("base", "target", "url"),
    [
        ("http://a", "/v1/x", "http://a/v1/x"),
        ("http://a/", "/v1/x", "http://a/v1/x"),
        ("http://a/v1", "/v1/x?b=1", "http://a/v1/x?b=1"),
        ("http://a/v1/", "/v1/x", "http://a/v1/x"),
        ("http://a/v1", "/x", "http://a/v1/x"),
        ("http://a/v1", "/v1", "http://a/v1"),
        ("http://a/v1", "/v1?b=1", "http://a/v1?b=1"),
        ("http://a/v1", "/v1beta/x", "http://a/v1/v1beta/x"),
        ("http://a/v1", "/v1/v1/x", "http://a/v1/v1/x"),
        ("http://a/v1beta", "/v1/x", "http://a/v1beta/v1/x"),
        ("http://a/b", "/v1/x", "http://a/b/v1/x"),
        ("http://a", "/", "http://a/"),
        ("http://a", "/a%2Fb//c?d=%20", "http://a/a%2Fb//c?d=%20"),
    ],
)
def test_a_target_is_joined_to_its_base(base: str, target: str, url: str) -> None:
    assert providers.join(base, target) == url


@pytest.mark.parametrize(
    ("base", "target", "url"),
    [
        ("http://a/v1", "/v1/x", "http://a/v1/x"),
        ("http://a", "/v1/x", "http://a/x"),
        ("http://a/b/", "/v1/x?c=1", "http://a/b/x?c=1"),
        ("http://a/v1beta/openai/", "/v1?c", "http://a/v1beta/openai?c"),
        ("http://a/b", "/v1beta/x", "http://a/b/v1beta/x"),
    ],
)
def test_what_was_a_clients_own_base_takes_the_place_of_our_v1(
    base: str, target: str, url: str
) -> None:
    assert providers.join(base, target, in_place_of_v1=True) == url
