from __future__ import annotations

from typing import Final

import pytest

from case_tables import each_row
from llm_proxy import providers
from llm_proxy.exchange import Headers, Request
from llm_proxy.providers import DEFAULT_PROVIDER, PROVIDERS, provider_of_request

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
NO_HEADERS: Headers = ()

ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0"


PATH_CASES: Final = [
    # openai, and all providers with its protocol under /v1
    ("/v1/chat/completions", NO_HEADERS, "openai"),
    ("/v1/responses", NO_HEADERS, "openai"),
    ("/v1/responses/resp_1/cancel", NO_HEADERS, "openai"),
    ("/v1/completions", NO_HEADERS, "openai"),
    ("/v1/embeddings", NO_HEADERS, "openai"),
    ("/v1/models", NO_HEADERS, "openai"),
    ("/v1/models/gpt-5", NO_HEADERS, "openai"),
    ("/v1/moderations", NO_HEADERS, "openai"),
    ("/v1/audio/transcriptions", NO_HEADERS, "openai"),
    ("/v1/files", NO_HEADERS, "openai"),
    # clients whose base URL is without /v1
    ("/chat/completions", NO_HEADERS, "openai"),
    ("/completions", NO_HEADERS, "openai"),
    ("/responses", NO_HEADERS, "openai"),
    ("/responses/resp_1", NO_HEADERS, "openai"),
    ("/embeddings", NO_HEADERS, "openai"),
    ("/models", NO_HEADERS, "openai"),
    # anthropic: SDKs and Claude Code, the AI SDK, the legacy path, paths shared with openai
    ("/v1/messages", CLAUDE, "anthropic"),
    ("/v1/messages", NO_HEADERS, "anthropic"),
    ("/messages", CLAUDE, "anthropic"),
    ("/v1/messages/count_tokens", NO_HEADERS, "anthropic"),
    ("/v1/messages/batches/b/results", NO_HEADERS, "anthropic"),
    ("/v1/complete", NO_HEADERS, "anthropic"),
    ("/api/hello", BUN, "anthropic"),
    ("/api/hello", NO_HEADERS, "anthropic"),
    ("/", CLAUDE, "anthropic"),
    ("/v1/models", CLAUDE, "anthropic"),
    ("/v1/models/claude", CLAUDE, "anthropic"),
    ("/v1/files", CLAUDE, "anthropic"),
    # google: the SDKs' /v1 and /v1beta, the AI SDK, LiteLLM without a version
    ("/v1beta/models/gemini-3:streamGenerateContent", GOOGLE, "gemini"),
    ("/v1beta/models/gemini-3:generateContent", NO_HEADERS, "gemini"),
    ("/v1/models/gemini-3:generateContent", NO_HEADERS, "gemini"),
    ("/v1alpha/models", GOOGLE, "gemini"),
    ("/v1/models", GOOGLE, "gemini"),
    ("/v1/models/gemini-3", GOOGLE, "gemini"),
    ("/models/gemini-3:streamGenerateContent", GOOGLE, "gemini"),
    ("/v1/interactions", GOOGLE, "gemini"),
    ("/v1/interactions", NO_HEADERS, "gemini"),
    ("/v1/interactions/i/cancel", NO_HEADERS, "gemini"),
    ("/v1/tunedModels/mine:generateContent", NO_HEADERS, "gemini"),
    ("/v1beta/interactions/i/cancel", NO_HEADERS, "gemini"),
    ("/upload/v1beta/files", GOOGLE, "gemini"),
    # vertex: also with an API key, and under the base URL of Anthropic's client
    (
        "/v1beta1/projects/p/locations/l/publishers/google/models/m:predict",
        NO_HEADERS,
        "vertex",
    ),
    ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", CLAUDE, "vertex"),
    ("/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", NO_HEADERS, "vertex"),
    ("/v1beta1/publishers/google/models/m:streamGenerateContent", GOOGLE, "vertex"),
    # ollama
    ("/api/chat", NO_HEADERS, "ollama"),
    ("/api/generate", NO_HEADERS, "ollama"),
    ("/api/show", NO_HEADERS, "ollama"),
    ("/api/blobs/sha256:0", NO_HEADERS, "ollama"),
    ("/", NO_HEADERS, "ollama"),
    ("/", BUN, "ollama"),
    ("/api/helloes", NO_HEADERS, "ollama"),
    # others with their own paths
    ("/openai/v1/chat/completions", NO_HEADERS, "groq"),
    ("/openai/deployments/d/chat/completions", NO_HEADERS, "azure"),
    ("/openai/responses", NO_HEADERS, "azure"),
    # a base URL that ends in a slash puts another one in front
    ("//openai/deployments/d/chat/completions", NO_HEADERS, "azure"),
    ("//openai/responses", NO_HEADERS, "azure"),
    ("//openai/v1/responses", AZURE, "azure"),
    ("//openai/v1/chat/completions", NO_HEADERS, "groq"),
    ("//v1/chat/completions", NO_HEADERS, "openai"),
    ("//v1/messages", CLAUDE, "anthropic"),
    ("//", NO_HEADERS, "ollama"),
    ("/x//openai/responses", NO_HEADERS, DEFAULT_PROVIDER),
    ("/api/v1/chat/completions", NO_HEADERS, "openrouter"),
    ("/api/v1/messages", CLAUDE, "openrouter"),
    ("/model/anthropic.claude-x%3A0/converse-stream", NO_HEADERS, "bedrock"),
    ("/model/anthropic.claude-x%3A0/converse", NO_HEADERS, "bedrock"),
    ("/model/m/invoke", NO_HEADERS, "bedrock"),
    ("/model/m/invoke-with-response-stream", NO_HEADERS, "bedrock"),
    ("/model/m/count-tokens", NO_HEADERS, "bedrock"),
    ("/guardrail/g/version/1/apply", NO_HEADERS, "bedrock"),
    ("/async-invoke", NO_HEADERS, "bedrock"),
    ("/async-invoke/arn%3Aaws%3Abedrock%3A1", NO_HEADERS, "bedrock"),
    ("/guardrail-checks/invoke", NO_HEADERS, "bedrock"),
    # ... a model named by the ARN of an inference profile, also in the form of old clients
    (f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/converse", NO_HEADERS, "bedrock"),
    (f"/model/{ARN}/converse-stream", NO_HEADERS, "bedrock"),
    (f"/model/{ARN}/invoke", NO_HEADERS, "bedrock"),
    # ... behind a gateway's prefix, even if it resembles another provider's path
    ("/bedrock/model/m/converse", NO_HEADERS, "bedrock"),
    ("/v1/model/m/invoke-with-response-stream", NO_HEADERS, "bedrock"),
    ("/api/gateway/model/m/invoke", NO_HEADERS, "bedrock"),
    ("/openai/model/m/converse", NO_HEADERS, "bedrock"),
    # ... its agents: by path, or by signature where the path is not specific to it
    ("/agents/A/agentAliases/B/sessions/C/text", NO_HEADERS, "bedrock"),
    ("/knowledgebases/K/retrieve", NO_HEADERS, "bedrock"),
    ("/retrieveAndGenerateStream", NO_HEADERS, "bedrock"),
    ("/flows/F/aliases/A", NO_HEADERS, "bedrock"),
    ("/flows/F/executions", NO_HEADERS, "bedrock"),
    ("/rerank", SIGNED, "bedrock"),
    ("/rerank", NO_HEADERS, DEFAULT_PROVIDER),
    ("/sessions/", SIGNED, "bedrock"),
    ("/sessions/", NO_HEADERS, DEFAULT_PROVIDER),
    ("/v1/chat/completions", SIGNED, "openai"),
    # ... and paths that only resemble its own
    ("/model/m", NO_HEADERS, DEFAULT_PROVIDER),
    ("/model/m/describe", NO_HEADERS, DEFAULT_PROVIDER),
    ("/model//converse", NO_HEADERS, DEFAULT_PROVIDER),
    ("/v2/chat", NO_HEADERS, "cohere"),
    ("/v2/rerank", NO_HEADERS, "cohere"),
    ("/v1/chat", NO_HEADERS, "cohere"),
    ("/v1/tokenize", NO_HEADERS, "cohere"),
    ("/v1/rerank", COHERE, "cohere"),
    ("/v1/rerank", (("User-Agent", "cohere/7.3.1"),), "cohere"),
    ("/v1/rerank", NO_HEADERS, "openai"),
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
    # gemini's Code Assist has its own address
    ("/v1internal:streamGenerateContent", NO_HEADERS, "codeassist"),
    ("/v1internal:loadCodeAssist", NO_HEADERS, "codeassist"),
    ("/v1internal/operations/1", NO_HEADERS, "codeassist"),
    ("/v1internals", NO_HEADERS, DEFAULT_PROVIDER),
    # of no known provider
    ("/healthz", NO_HEADERS, DEFAULT_PROVIDER),
    ("/v3/x", NO_HEADERS, DEFAULT_PROVIDER),
    ("/openai", NO_HEADERS, DEFAULT_PROVIDER),
    ("/anthropic/v1/messages", NO_HEADERS, DEFAULT_PROVIDER),
    ("/anthropic/v1/messages", CLAUDE, "anthropic"),
    ("/V1/chat/completions", NO_HEADERS, DEFAULT_PROVIDER),
    ("*", NO_HEADERS, DEFAULT_PROVIDER),
]


@each_row(("path", "headers", "provider"), PATH_CASES)
def test_a_path_belongs_to_its_provider(path: str, headers: Headers, provider: str) -> None:
    assert provider_of_request(Request("POST", path, "", headers, b"")) == provider


def test_every_provider_with_paths_has_a_case() -> None:
    names = {provider.name for provider in PROVIDERS if provider.paths_pattern}

    assert names <= {name for _, _, name in PATH_CASES}, "add its paths to PATH_CASES"


@each_row(
    ("query", "provider"),
    [
        ("api-version=preview", "azure"),
        ("a=1&API-Version=2025-04-01", "azure"),
        ("a=api-version=1", "groq"),
        ("api-versions=1", "groq"),
        ("", "groq"),
    ],
)
def test_a_version_in_the_query_distinguishes_azure_from_groq(query: str, provider: str) -> None:
    assert (
        provider_of_request(Request("POST", "/openai/v1/responses", query, NO_HEADERS, b""))
        == provider
    )


@each_row(
    ("agent", "provider"),
    [
        ("Bun/1.4.4", "anthropic"),
        ("node", "anthropic"),
        ("ollama/0.14.3 (amd64 linux) Go/go1.24.1", "ollama"),
        ("curl/8.5.0", "ollama"),
        ("", "ollama"),
    ],
)
def test_a_client_that_only_opens_a_connection_is_identified_by_its_runtime(
    agent: str, provider: str
) -> None:
    headers = (("user-agent", agent),) if agent else NO_HEADERS
    assert provider_of_request(Request("HEAD", "/", "", headers, b"")) == provider


@each_row(
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
def test_reranking_belongs_to_cohere_only_for_its_models(body: bytes, provider: str) -> None:
    assert provider_of_request(Request("POST", "/v1/rerank", "", NO_HEADERS, body)) == provider


@each_row(
    ("method", "path", "expected"),
    [
        ("HEAD", "/", True),
        ("HEAD", "/api/hello", True),
        ("GET", "/", False),
        ("HEAD", "/v1/models", False),
    ],
)
def test_a_head_request_to_a_known_address_is_a_probe(
    method: str, path: str, expected: bool
) -> None:
    assert providers.is_probe_request(Request(method, path, "", NO_HEADERS, b"")) is expected


@pytest.mark.timeout(10)
@each_row(
    "path",
    ["/model/" * 10_000, "/model/" + "/converse/" * 7_000 + "!", "/model/m/converse" * 4_000 + "!"],
    ids=["prefixes", "operations", "both"],
)
def test_no_path_takes_long(path: str) -> None:
    assert provider_of_request(Request("POST", path, "", NO_HEADERS, b"")) == DEFAULT_PROVIDER


@each_row(
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
    assert providers.signed_url(path, region) == url


def test_every_provider_has_a_name_of_its_own() -> None:
    names = [provider.name for provider in PROVIDERS]
    assert len(set(names)) == len(names)
    assert DEFAULT_PROVIDER not in names


@each_row(
    ("provider", "configured", "url"),
    [
        ("openai", {}, "https://api.openai.com"),
        ("openai", {"openai": "http://a"}, "http://a"),
        ("openai", {"openai": "http://a", DEFAULT_PROVIDER: "http://b"}, "http://a"),
        ("openai", {DEFAULT_PROVIDER: "http://b", "groq": "http://c"}, "http://b"),
        ("openai", {"groq": "http://c"}, "https://api.openai.com"),
        ("azure", {}, None),
        ("azure", {"azure": "http://a"}, "http://a"),
        ("mine", {}, None),
        ("mine", {"mine": "http://a"}, "http://a"),
        (DEFAULT_PROVIDER, {}, None),
        (DEFAULT_PROVIDER, {DEFAULT_PROVIDER: "http://b"}, "http://b"),
    ],
)
def test_the_most_specific_configured_address_is_used(
    provider: str, configured: dict[str, str], url: str | None
) -> None:
    assert providers.upstream_url(provider, configured) == url


@each_row(
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
        ("http://a/api/v1", "/api/v1/x?b=1", "http://a/api/v1/x?b=1"),
        ("http://a/~b/openai/v1", "/openai/v1/x", "http://a/~b/openai/v1/x"),
        ("http://a/api/v1", "/v1/x", "http://a/api/v1/x"),
        ("http://a/api", "/api/x", "http://a/api/api/x"),
        ("http://a", "/", "http://a/"),
        ("http://a", "/a%2Fb//c?d=%20", "http://a/a%2Fb//c?d=%20"),
    ],
)
def test_a_target_is_joined_to_its_base(base: str, target: str, url: str) -> None:
    assert providers.join_url(base, target) == url


@each_row(
    ("base", "target", "url"),
    [
        ("http://a/v1", "/v1/x", "http://a/v1/x"),
        ("http://a", "/v1/x", "http://a/x"),
        ("http://a/b/", "/v1/x?c=1", "http://a/b/x?c=1"),
        ("http://a/v1beta/openai/", "/v1?c", "http://a/v1beta/openai?c"),
        ("http://a/b", "/v1beta/x", "http://a/b/v1beta/x"),
    ],
)
def test_a_clients_own_base_url_replaces_v1(base: str, target: str, url: str) -> None:
    assert providers.join_url(base, target, replaces_v1=True) == url
