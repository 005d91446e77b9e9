"""Which provider a path belongs to, and each provider's addresses, headers, keys and variables.

The provider is part of the key, so only the path determines it (and a header, a query parameter
or the model, on paths that several providers share), never the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.dialects.lenient_json import get_text, parse_object
from llm_proxy.exchange import Request

DEFAULT_PROVIDER: Final = "default"
"""The provider of paths that no provider claims; `--upstream default=URL` applies to all."""

_PROBE_PATHS: Final = ("/", "/api/hello")

_LOCAL_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1", ""))


@dataclass(frozen=True, slots=True)
class Provider:
    """A built-in provider: its address, paths, headers and keys."""

    name: str
    base_url: str
    """Empty if every customer has their own address."""
    paths_pattern: str = ""
    """A regular expression for the paths of this provider."""
    distinctive_headers: tuple[str, ...] = ()
    """Headers that only this provider's clients send, on paths shared with other providers."""
    shared_paths_pattern: str = ""
    """A regular expression for paths that are this provider's only if `identifying_pattern`
    matches, and else another's, whatever the order."""
    identifying_pattern: str = ""
    """A regular expression, case-insensitive, for what identifies the provider on shared paths: a
    header, `name: value` or `METHOD name: value`; a parameter, `?name=value`; the body's model,
    `$.model=name`."""
    other_urls_pattern: str = ""
    """A regular expression for `HOST/PATH` of its URLs at other hosts than that of `base_url`."""
    key_env_vars: tuple[str, ...] = ()
    """Environment variables that may hold an API key; the first that is set counts."""
    credential_template: str = "authorization: Bearer {}"
    """The header that carries the API key, with `{}` in place of the key."""
    is_key_optional: bool = False
    """Whether its SDKs start without an API key."""


@dataclass(frozen=True, slots=True)
class BaseUrlVariable:
    """An environment variable from which clients of a provider read a base URL."""

    provider: str
    path: str = ""
    """The path that these clients need below the URL of a proxy."""
    is_upstream: bool = True
    """Whether its value serves all requests to the provider."""
    is_host: bool = False
    """Whether clients accept `HOST`, `HOST:PORT` and `:PORT` as well as a URL."""


_BEDROCK_AGENT_PATHS: Final = (
    r"/agents/[^/]+/agentAliases/.*|/knowledgebases/[^/]+/.*|/flows/[^/]+/(aliases/|executions).*"
    r"|/(retrieveAndGenerate(Stream)?|agenticRetrieveStream|generateQuery|optimize-prompt)"
)
_SIGNED_AGENT_PATHS: Final = r"/(agents|sessions|tags|rerank)(/.*)?"
"""Bedrock paths that other providers may have too: only a signature identifies them."""

PROVIDERS: Final[tuple[Provider, ...]] = (
    Provider(
        # A gateway's prefix may come first, up to the first /model/: linear time for any path.
        "bedrock", "", r"((?!/model/).)*/model/.+/(converse|invoke|count)[a-z-]*/?"
        rf"|/(guardrail|async-invoke).*|{_BEDROCK_AGENT_PATHS}",
        shared_paths_pattern=_SIGNED_AGENT_PATHS, identifying_pattern=r"authorization: "
                                                            r"aws4-.*/bedrock/aws4_request\b.*",
        key_env_vars=("AWS_BEARER_TOKEN_BEDROCK",), is_key_optional=True,
    ),
    Provider("vertex", "", r"/(v1(beta1)?/)?(projects|publishers)/.*"),
    Provider("groq", "https://api.groq.com", r"/openai/v1/.*", key_env_vars=("GROQ_API_KEY",)),
    Provider(
        "azure", "", r"/openai/.*",
        shared_paths_pattern=r"/openai/v1/.*", identifying_pattern=r"api-key: .*|\?api-version=.*",
        other_urls_pattern=r".*\.azure\.com/+openai/.*",
        key_env_vars=("AZURE_OPENAI_API_KEY",), credential_template="api-key: {}",
    ),
    Provider(
        "openrouter", "https://openrouter.ai", r"/api/v1/.*", key_env_vars=("OPENROUTER_API_KEY",),
    ),
    Provider(
        "ollama", "http://127.0.0.1:11434", r"/api/(?!hello$).*|/",
        key_env_vars=("OLLAMA_API_KEY",), is_key_optional=True,
    ),
    Provider(
        "anthropic", "https://api.anthropic.com", r"/(v1/)?(messages|complete)(/.*)?|/api/hello",
        ("anthropic-version",),
        # The first request of Claude Code: its `fetch` sends only the runtime as user agent.
        shared_paths_pattern="/", identifying_pattern=r"HEAD user-agent: "
                                              r"(node|bun/.*)|anthropic-version: .*",
        key_env_vars=("ANTHROPIC_API_KEY",), credential_template="x-api-key: {}",
    ),
    Provider("codeassist", "https://cloudcode-pa.googleapis.com", r"/v1internal[:/].*"),
    Provider(
        "gemini", "https://generativelanguage.googleapis.com",
        r"/v1(beta|alpha)/.*|/v1/(models|tunedModels)/[^/]+:.*|/v1/interactions(/.*)?|/upload/v1.*",
        ("x-goog-api-key",),
        key_env_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        credential_template="x-goog-api-key: {}",
    ),
    Provider(
        "cohere", "https://api.cohere.com",
        r"/v2/.*|/v1/(chat|generate|embed|tokenize|detokenize)",
        shared_paths_pattern=r"/v1/(models|datasets|connectors|finetuning|embed-jobs|classify|summarize"
        r"|check-api-key|rerank)(/.*)?",
        identifying_pattern=r"x-fern-sdk-name: .*cohere.*|user-agent: .*cohere.*|cohere-version: .*"
        r"|\$\.model=rerank-(v\d|english-|multilingual-).*",
        other_urls_pattern=r"api\.cohere\.ai/.*", key_env_vars=("CO_API_KEY", "COHERE_API_KEY"),
    ),
    Provider(
        "openai", "https://api.openai.com",
        r"/v1/.*|/(chat/)?completions|/(responses|embeddings|models)(/.*)?",
        key_env_vars=("OPENAI_API_KEY",),
    ),
    Provider("mistral", "https://api.mistral.ai", key_env_vars=("MISTRAL_API_KEY",)),
    Provider("deepseek", "https://api.deepseek.com", key_env_vars=("DEEPSEEK_API_KEY",)),
    Provider("xai", "https://api.x.ai", key_env_vars=("XAI_API_KEY",)),
    Provider("together", "https://api.together.xyz", key_env_vars=("TOGETHER_API_KEY",)),
    Provider(
        "fireworks", "https://api.fireworks.ai/inference",
        key_env_vars=("FIREWORKS_API_KEY",),
    ),
    Provider("perplexity", "https://api.perplexity.ai", key_env_vars=("PERPLEXITY_API_KEY",)),
    Provider(
        "vllm", "http://127.0.0.1:8000", key_env_vars=("VLLM_API_KEY",), is_key_optional=True
    ),
    Provider(
        "llamacpp", "http://127.0.0.1:8080", key_env_vars=("LLAMA_API_KEY",), is_key_optional=True
    ),
)  # fmt: skip
"""In the order in which they are tried: first those whose paths no other shares; for the later
ones a header decides.  Providers without paths are reached as `/~NAME/...`."""

_PROVIDER_BY_NAME: Final = {provider.name: provider for provider in PROVIDERS}

SIGNED_PROVIDER: Final = "bedrock"
"""The provider whose requests AWS signatures (SigV4) authenticate; its service name in them."""

BASE_URL_VARIABLES: Final = {
    "OPENAI_BASE_URL": BaseUrlVariable("openai", "/v1"),
    "OPENAI_API_BASE": BaseUrlVariable("openai", "/v1"),
    "ANTHROPIC_BASE_URL": BaseUrlVariable("anthropic"),
    "GOOGLE_GEMINI_BASE_URL": BaseUrlVariable("gemini"),
    "OLLAMA_HOST": BaseUrlVariable("ollama", is_host=True),
    "GROQ_BASE_URL": BaseUrlVariable("groq"),
    "CO_API_URL": BaseUrlVariable("cohere"),
    "MISTRAL_BASE_URL": BaseUrlVariable("mistral", "/~mistral/v1"),
    "AZURE_OPENAI_ENDPOINT": BaseUrlVariable("azure"),
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": BaseUrlVariable("bedrock"),
    "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME": BaseUrlVariable("bedrock", is_upstream=False),
}
"""In the order in which they are listed; of two for one provider, the first that is set counts."""

COMMON_BASE_URL_VARIABLES: Final = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST")
"""Those of the most common clients."""

API_KEY_VARIABLES: Final = {
    provider.key_env_vars[0]: provider.name
    for provider in (_PROVIDER_BY_NAME[each.provider] for each in BASE_URL_VARIABLES.values())
    if not provider.is_key_optional
}
"""Provider by API key variable: without a key, most SDKs refuse to start."""

DUMMY_API_KEY: Final = "llm-proxy-replay"
"""The API key of a command whose environment has none."""


_TOOLS_REFUSED: Final = re.compile(
    r"do(es not|esn't) support (tools|tool (use|calling))"  # Ollama, Bedrock
    r"|\b(tools?|'tools'|tool calling|tool use|function calling) (is|are) not (supported|enabled)"
    r"|that support tool use"  # OpenRouter
    r"|tool choice requires --|tools? param requires --",  # vLLM, llama.cpp
    re.IGNORECASE,
)
"""Messages of servers whose model, or whose settings, allow no tools."""

BASE_URL_ADVICE: Final = (
    "reads OPENAI_BASE_URL, or the base-URL variable of its provider, and that no base URL is "
    "fixed in its code"
)
"""What to check if a program sends no request to the proxy, after `check that the command`."""


def missing_key_warning(provider: str, variable: str) -> str:
    """A warning that requests to this provider fail, since its API key variable is not set."""
    return f"{variable} is not set, so {provider} will respond with status 401; set {variable}"


def has_dummy_key(request: Request) -> bool:
    """Whether a request brings the dummy API key, in a header or in the query."""
    header_keys = (value.rpartition(" ")[2] for _, value in request.headers)
    query_values = (term.partition("=")[2] for term in request.query.split("&"))
    return DUMMY_API_KEY in (*header_keys, *query_values)


_DISTINCTIVE_HEADERS: Final = frozenset(
    name for provider in PROVIDERS for name in provider.distinctive_headers
)


def provider_of_request(request: Request) -> str:
    """The name of the provider that a request belongs to; `DEFAULT_PROVIDER` if none claims it.

    The path may begin with two slashes, because the client's base URL ended in one.
    """
    path = "/" + request.path.lstrip("/")
    for provider in _providers_sharing_path(path):
        if _request_matches(request, provider.identifying_pattern):
            return provider.name
    path_provider = _provider_of_path(path)
    header_names = {name.lower() for name, _ in request.headers}
    if header_names.isdisjoint(_DISTINCTIVE_HEADERS):
        return path_provider or DEFAULT_PROVIDER
    return next(
        provider.name
        for provider in PROVIDERS
        if provider.name == path_provider
        or not header_names.isdisjoint(provider.distinctive_headers)
    )


def provider_of_host(host: str, path: str) -> str | None:
    """The name of the provider that serves a path at this host; None where the path decides."""
    if host in _LOCAL_HOSTS:
        return None
    return next(
        (
            provider.name
            for provider in PROVIDERS
            if urlsplit(provider.base_url).hostname == host
            or re.fullmatch(provider.other_urls_pattern, f"{host}{path}")
        ),
        None,
    )


def _provider_named(name: str) -> Provider:
    """The built-in provider; one without address, paths and keys for another name."""
    return _PROVIDER_BY_NAME.get(name) or Provider(name, "")


def strip_base_path(provider: str, path: str) -> str:
    """The path as a client sends it to the provider's base URL."""
    base_path = urlsplit(_provider_named(provider).base_url).path.rstrip("/")
    return path.removeprefix(base_path) if path.startswith(f"{base_path}/") else path


def refuses_tools(message: str) -> bool:
    """Whether an error message means that the model cannot be offered tools."""
    return _TOOLS_REFUSED.search(message) is not None


def is_probe_request(request: Request) -> bool:
    """Whether a request only probes the server, as Claude Code and clients of Ollama do."""
    return request.method == "HEAD" and request.path in _PROBE_PATHS


@lru_cache(256)  # an application uses a handful of paths
def _provider_of_path(path: str) -> str | None:
    """The name of the first provider whose `paths_pattern` matches."""
    pattern = "|".join(
        f"(?P<{provider.name}>{provider.paths_pattern})"
        for provider in PROVIDERS
        if provider.paths_pattern
    )
    match = re.fullmatch(pattern, path)
    return match.lastgroup if match else None


@lru_cache(256)
def _providers_sharing_path(path: str) -> tuple[Provider, ...]:
    """The providers whose `shared_paths_pattern` match; mostly none."""
    return tuple(
        provider
        for provider in PROVIDERS
        if provider.shared_paths_pattern and re.fullmatch(provider.shared_paths_pattern, path)
    )


def _request_matches(request: Request, identifying_pattern: str) -> bool:
    """Whether the pattern matches a header, a parameter or the model of the request."""
    headers = [f"{name}: {value}" for name, value in request.headers]
    headers_with_method = (f"{request.method} {header}" for header in headers)
    model = get_text(parse_object(request.body), "model")
    parameters = (f"?{pair}" for pair in request.query.split("&"))
    pattern = re.compile(identifying_pattern, re.IGNORECASE)
    return any(
        pattern.fullmatch(text)
        for text in (*headers, *headers_with_method, *parameters, f"$.model={model}")
    )


def upstream_url(provider: str, configured_urls: Mapping[str, str]) -> str | None:
    """The base URL for requests to this provider; None if there is none.

    First its own `--upstream`, then `default=`, then the built-in address.
    """
    for name in (provider, DEFAULT_PROVIDER):
        if name in configured_urls:
            return configured_urls[name]
    return _provider_named(provider).base_url or None


def key_env_vars(provider: str) -> tuple[str, ...]:
    """The environment variables that may hold an API key of this provider."""
    return _provider_named(provider).key_env_vars


def credential_header(provider: str, key: str) -> tuple[str, str]:
    """The header, as name and value, in which a client of this provider sends its API key."""
    name, _, value = _provider_named(provider).credential_template.partition(": ")
    return name, value.format(key)


def needs_api_key(provider: str, configured_urls: Mapping[str, str]) -> bool:
    """Whether requests to this provider need an API key: those to its public address do.

    A server that an operator configures may need none.
    """
    url = upstream_url(provider, {}) or ""
    is_public = provider not in configured_urls and DEFAULT_PROVIDER not in configured_urls
    return is_public and url.startswith("https:") and bool(key_env_vars(provider))


def signed_url(path: str, region: str) -> str:
    """The AWS base URL for a path of `SIGNED_PROVIDER` in a region: agents have their own host."""
    is_agent_path = re.fullmatch(f"{_BEDROCK_AGENT_PATHS}|{_SIGNED_AGENT_PATHS}", path)
    domain_suffix = ".cn" if region.startswith("cn-") else ""
    host = "bedrock-agent-runtime" if is_agent_path else "bedrock-runtime"
    return f"https://{host}.{region}.amazonaws.com{domain_suffix}"


def join_url(base: str, target: str, *, replaces_v1: bool = False) -> str:
    """Join a base URL and a request target; a `/v1` or `/api/v1` that both have appears once.

    With `replaces_v1`, the base replaces the target's `/v1`, whatever the base ends in: it is the
    client's base URL from before the client was pointed at this proxy.
    """
    base = base.rstrip("/")
    shared_paths = ["/v1"] if replaces_v1 else []
    if base.endswith("/v1"):
        path = urlsplit(base).path
        shared_paths = [path[at:] for at, character in enumerate(path) if character == "/"]
    for path in shared_paths:  # the longest first
        if target == path or target.startswith((f"{path}/", f"{path}?")):
            return base + target.removeprefix(path)
    return base + target
