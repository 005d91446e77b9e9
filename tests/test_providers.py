from __future__ import annotations

import pytest

from llm_proxy import providers
from llm_proxy.exchange import Headers, Request
from llm_proxy.providers import ANY, PROVIDERS, provider_of_request

CLAUDE: Headers = (("Anthropic-Version", "2026-10-21"),)
GOOGLE: Headers = (("x-goog-api-key", "k"),)
COHERE: Headers = (("X-Fern-SDK-Name", "cohere"),)
BUN: Headers = (("User-Agent", "Bun/1.4.4"),)
AZURE: Headers = (("Api-Key", "k"),)
SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261122/eu-west-1/bedrock/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=00"
)
SIGNED: Headers = (("Authorization", SIGNATURE),)
NONE: Headers = ()

ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0"


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
        ("/api/hello", BUN, "anthropic"),
        ("/api/hello", NONE, "anthropic"),
        ("/", CLAUDE, "anthropic"),
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
        ("/", BUN, "ollama"),
        ("/api/helloes", NONE, "ollama"),
        # others with paths of their own
        ("/openai/v1/chat/completions", NONE, "groq"),
        ("/openai/deployments/d/chat/completions", NONE, "azure"),
        ("/openai/responses", NONE, "azure"),
        # a base URL that ends in a slash puts another one in front
        ("//openai/deployments/d/chat/completions", NONE, "azure"),
        ("//openai/responses", NONE, "azure"),
        ("//openai/v1/responses", AZURE, "azure"),
        ("//openai/v1/chat/completions", NONE, "groq"),
        ("//v1/chat/completions", NONE, "openai"),
        ("//v1/messages", CLAUDE, "anthropic"),
        ("//", NONE, "ollama"),
        ("/x//openai/responses", NONE, ANY),
        ("/api/v1/chat/completions", NONE, "openrouter"),
        ("/api/v1/messages", CLAUDE, "openrouter"),
        ("/model/anthropic.claude-x%3A0/converse-stream", NONE, "bedrock"),
        ("/model/anthropic.claude-x%3A0/converse", NONE, "bedrock"),
        ("/model/m/invoke", NONE, "bedrock"),
        ("/model/m/invoke-with-response-stream", NONE, "bedrock"),
        ("/model/m/count-tokens", NONE, "bedrock"),
        ("/guardrail/g/version/1/apply", NONE, "bedrock"),
        ("/async-invoke", NONE, "bedrock"),
        ("/async-invoke/arn%3Aaws%3Abedrock%3A1", NONE, "bedrock"),
        ("/guardrail-checks/invoke", NONE, "bedrock"),
        # ... a model by the ARN of an inference profile, also as old clients write one
        (f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/converse", NONE, "bedrock"),
        (f"/model/{ARN}/converse-stream", NONE, "bedrock"),
        (f"/model/{ARN}/invoke", NONE, "bedrock"),
        # ... behind a gateway's prefix, whoever's that may look like
        ("/bedrock/model/m/converse", NONE, "bedrock"),
        ("/v1/model/m/invoke-with-response-stream", NONE, "bedrock"),
        ("/api/gateway/model/m/invoke", NONE, "bedrock"),
        ("/openai/model/m/converse", NONE, "bedrock"),
        # ... its agents: by path, and where anybody may have the path, by the signature
        ("/agents/A/agentAliases/B/sessions/C/text", NONE, "bedrock"),
        ("/knowledgebases/K/retrieve", NONE, "bedrock"),
        ("/retrieveAndGenerateStream", NONE, "bedrock"),
        ("/flows/F/aliases/A", NONE, "bedrock"),
        ("/flows/F/executions", NONE, "bedrock"),
        ("/rerank", SIGNED, "bedrock"),
        ("/rerank", NONE, ANY),
        ("/sessions/", SIGNED, "bedrock"),
        ("/sessions/", NONE, ANY),
        ("/v1/chat/completions", SIGNED, "openai"),
        # ... and what only looks like it
        ("/model/m", NONE, ANY),
        ("/model/m/describe", NONE, ANY),
        ("/model//converse", NONE, ANY),
        ("/v2/chat", NONE, "cohere"),
        ("/v2/rerank", NONE, "cohere"),
        ("/v1/chat", NONE, "cohere"),
        ("/v1/tokenize", NONE, "cohere"),
        ("/v1/rerank", COHERE, "cohere"),
        ("/v1/rerank", (("User-Agent", "cohere/7.3.1"),), "cohere"),
        ("/v1/rerank", NONE, "openai"),
        ("/v1/models", COHERE, "cohere"),
        ("/v1/models", (("User-Agent", "cohere-go/2"),), "cohere"),
        ("/v1/models/command-a", COHERE, "cohere"),
        ("/v1/classify", COHERE, "cohere"),
        ("/v1/models", (("X-Fern-SDK-Name", "somebody"),), "openai"),
        ("/v1/chat/completions", COHERE, "openai"),
        # azure and groq share a path
        ("/openai/v1/chat/completions", AZURE, "azure"),
        ("/openai/v1/responses", AZURE, "azure"),
        ("/openai/v1/responses", (("Authorization", "Bearer api-key: 1"),), "groq"),
        ("/v1/chat/completions", AZURE, "openai"),
        # gemini's Code Assist lives elsewhere
        ("/v1internal:streamGenerateContent", NONE, "codeassist"),
        ("/v1internal:loadCodeAssist", NONE, "codeassist"),
        ("/v1internal/operations/1", NONE, "codeassist"),
        ("/v1internals", NONE, ANY),
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
    assert provider_of_request(Request("POST", path, "", headers, b"")) == provider


@pytest.mark.parametrize(
    ("query", "provider"),
    [
        ("api-version=preview", "azure"),
        ("a=1&API-Version=2025-04-01", "azure"),
        ("a=api-version=1", "groq"),
        ("api-versions=1", "groq"),
        ("", "groq"),
    ],
)
def test_a_version_in_the_query_tells_azure_from_groq(query: str, provider: str) -> None:
    assert (
        provider_of_request(Request("POST", "/openai/v1/responses", query, NONE, b"")) == provider
    )


@pytest.mark.parametrize(
    ("agent", "provider"),
    [
        ("Bun/1.4.4", "anthropic"),
        ("node", "anthropic"),
        ("ollama/0.14.3 (amd64 linux) Go/go1.24.1", "ollama"),
        ("curl/8.5.0", "ollama"),
        ("", "ollama"),
    ],
)
def test_a_client_that_opens_its_connection_is_told_by_its_runtime(
    agent: str, provider: str
) -> None:
    headers = (("user-agent", agent),) if agent else NONE
    assert provider_of_request(Request("HEAD", "/", "", headers, b"")) == provider


@pytest.mark.parametrize(
    ("body", "provider"),
    [
        (b'{"model":"rerank-v3.5","query":"a","documents":["b"]}', "cohere"),
        (b'{"model":"rerank-english-v3.0"}', "cohere"),
        (b'{"model":"rerank-multilingual-v2.0"}', "cohere"),
        (b'{"model":"rerank-v5.0-pro"}', "cohere"),
        (b'{"model":"rerank-2.5-lite"}', "openai"),
        (b'{"model":"BAAI/bge-reranker-v2-m3","query":"a","documents":["b"],"top_n":1}', "openai"),
        (b'{"model":"jina-reranker-v2-base-multilingual"}', "openai"),
        (b'{"model":["rerank-v3.5"]}', "openai"),
        (b'{"query":"a","documents":["b"]}', "openai"),
        (b'"rerank-v3.5"', "openai"),
        (b"\x1f\x8b", "openai"),
        (b"", "openai"),
    ],
)
def test_ranking_is_coheres_for_its_models_alone(body: bytes, provider: str) -> None:
    assert provider_of_request(Request("POST", "/v1/rerank", "", NONE, body)) == provider


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("HEAD", "/", True),
        ("HEAD", "/api/hello", True),
        ("GET", "/", False),
        ("HEAD", "/v1/models", False),
    ],
)
def test_a_probe_asks_for_nothing(method: str, path: str, expected: bool) -> None:
    assert providers.is_probe_request(Request(method, path, "", NONE, b"")) is expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "path",
    ["/model/" * 10_000, "/model/" + "/converse/" * 7_000 + "!", "/model/m/converse" * 4_000 + "!"],
    ids=["prefixes", "operations", "both"],
)
def test_no_path_takes_long(path: str) -> None:
    assert provider_of_request(Request("POST", path, "", NONE, b"")) == ANY


@pytest.mark.parametrize(
    ("path", "region", "url"),
    [
        ("/model/m/converse", "us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ("/openai/v1/responses", "us-west-2", "https://bedrock-runtime.us-west-2.amazonaws.com"),
        ("/agents/A/agentAliases/B/sessions/C/text", "eu-west-1",
         "https://bedrock-agent-runtime.eu-west-1.amazonaws.com"),
        ("/rerank", "eu-west-1", "https://bedrock-agent-runtime.eu-west-1.amazonaws.com"),
        ("/model/m/invoke", "cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
    ],
)  # fmt: skip
def test_bedrock_has_an_address_in_each_region(path: str, region: str, url: str) -> None:
    assert providers.bedrock_url(path, region) == url


def test_every_provider_has_a_name_of_its_own() -> None:
    names = [provider.name for provider in PROVIDERS]
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
    assert providers.upstream_address(provider, configured) == url


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
    assert providers.join_url(base, target) == url


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
    assert providers.join_url(base, target, in_place_of_v1=True) == url
