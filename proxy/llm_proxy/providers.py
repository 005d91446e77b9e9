"""Which provider a path belongs to, and each provider's addresses, headers and keys.

The provider is part of the key, so it is found by the path alone (and by a header or a query
parameter, on the paths that several providers share), never by what happens to be configured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.exchange import Request

ANY: Final = "default"
"""The provider of paths that none claims; `--upstream default=URL` also stands in for all."""

_PROBED: Final = ("/", "/api/hello")

_BEARER: Final = "authorization: Bearer {}"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider whose address or paths are known without configuration."""

    name: str
    url: str
    """Empty where every customer has an address of their own."""
    paths: str = ""
    """A regular expression for the paths that are this provider's."""
    headers: tuple[str, ...] = ()
    """Headers that only this provider's clients send, on paths that it shares with others."""
    shared_paths: str = ""
    """A regular expression for paths that are this provider's where `tells` says so, and else
    another's, whatever the order."""
    identifying_headers: str = ""
    """A regular expression for what says so, in any case: a header, `name: value`, with the method
    in front where that counts; a parameter, `?name=value`; the body's model, `$.model=name`."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that hold a client's key; the first that is set counts."""
    credential_template: str = _BEARER
    """The header in which the key is sent, `{}` in its place."""


_OF_AGENTS: Final = (
    r"/agents/[^/]+/agentAliases/.*|/knowledgebases/[^/]+/.*|/flows/[^/]+/(aliases/|executions).*"
    r"|/(retrieveAndGenerate(Stream)?|agenticRetrieveStream|generateQuery|optimize-prompt)"
)
_OF_SIGNED_AGENTS: Final = r"/(agents|sessions|tags|rerank)(/.*)?"
"""Paths of Bedrock's that anybody may have."""

PROVIDERS: Final[tuple[Provider, ...]] = (
    Provider(
        # A gateway's prefix may stand in front, up to the first /model/: no path takes long.
        "bedrock", "", r"((?!/model/).)*/model/.+/(converse|invoke|count)[a-z-]*/?"
        rf"|/(guardrail|async-invoke).*|{_OF_AGENTS}",
        shared_paths=_OF_SIGNED_AGENTS, identifying_headers=r"authorization: "
                                                            r"aws4-.*/bedrock/aws4_request\b.*",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    ),
    Provider("vertex", "", r"/(v1(beta1)?/)?(projects|publishers)/.*"),
    Provider("groq", "https://api.groq.com", r"/openai/v1/.*", key_variables=("GROQ_API_KEY",)),
    Provider(
        "azure", "", r"/openai/.*",
        shared_paths=r"/openai/v1/.*", identifying_headers=r"api-key: .*|\?api-version=.*",
        key_variables=("AZURE_OPENAI_API_KEY",), credential_template="api-key: {}",
    ),
    Provider(
        "openrouter", "https://openrouter.ai", r"/api/v1/.*", key_variables=("OPENROUTER_API_KEY",),
    ),
    Provider(
        "ollama", "http://127.0.0.1:11434", r"/api/(?!hello$).*|/",
        key_variables=("OLLAMA_API_KEY",),
    ),
    Provider(
        "anthropic", "https://api.anthropic.com", r"/(v1/)?(messages|complete)(/.*)?|/api/hello",
        ("anthropic-version",),
        # Claude Code opens its connection so: its `fetch` says nothing of itself but the runtime.
        shared_paths="/", identifying_headers=r"HEAD user-agent: "
                                              r"(node|bun/.*)|anthropic-version: .*",
        key_variables=("ANTHROPIC_API_KEY",), credential_template="x-api-key: {}",
    ),
    Provider("codeassist", "https://cloudcode-pa.googleapis.com", r"/v1internal[:/].*"),
    Provider(
        "gemini", "https://generativelanguage.googleapis.com",
        r"/v1(beta|alpha)/.*|/v1/models/[^/]+:.*|/upload/v1.*", ("x-goog-api-key",),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        credential_template="x-goog-api-key: {}",
    ),
    Provider(
        "cohere", "https://api.cohere.com",
        r"/v2/.*|/v1/(chat|generate|embed|tokenize|detokenize)",
        shared_paths=r"/v1/(models|datasets|connectors|finetuning|embed-jobs|classify|summarize"
        r"|check-api-key|rerank)(/.*)?",
        identifying_headers=r"x-fern-sdk-name: .*cohere.*|user-agent: .*cohere.*|cohere-version: .*"
        r"|\$\.model=rerank-(v\d|english-|multilingual-).*",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
    ),
    Provider(
        "openai", "https://api.openai.com",
        r"/v1/.*|/(chat/)?completions|/(responses|embeddings|models)(/.*)?",
        key_variables=("OPENAI_API_KEY",),
    ),
    Provider("mistral", "https://api.mistral.ai", key_variables=("MISTRAL_API_KEY",)),
    Provider("deepseek", "https://api.deepseek.com", key_variables=("DEEPSEEK_API_KEY",)),
    Provider("xai", "https://api.x.ai", key_variables=("XAI_API_KEY",)),
    Provider("together", "https://api.together.xyz", key_variables=("TOGETHER_API_KEY",)),
    Provider(
        "fireworks", "https://api.fireworks.ai/inference", key_variables=("FIREWORKS_API_KEY",)
    ),
    Provider("perplexity", "https://api.perplexity.ai", key_variables=("PERPLEXITY_API_KEY",)),
)  # fmt: skip
"""In the order in which they are asked, those whose paths nobody shares first; a header decides
on the paths that come after.  Those without paths are reached as `/~NAME/...`."""


def provider_of_request(request: Request) -> str:
    """The name of the provider that this request belongs to; `ANY` where none claims it.

    A base URL that ends in a slash may have put another in front of the path.
    """
    path = "/" + request.path.lstrip("/")
    for provider in _providers_sharing_path(path):
        if _request_matches(request, provider.identifying_headers):
            return provider.name
    by_path = _provider_of_path(path)
    names = _identifying_headers().intersection(name.lower() for name, _ in request.headers)
    if not names:
        return by_path or ANY
    for provider in PROVIDERS:
        if provider.name == by_path or not names.isdisjoint(provider.headers):
            return provider.name
    return ANY


def is_probe_request(request: Request) -> bool:
    """Whether a client only asks whether anybody is there, as Claude Code and Ollama's do."""
    return request.method == "HEAD" and request.path in _PROBED


@lru_cache(256)  # an application asks a handful
def _provider_of_path(path: str) -> str | None:
    """The first provider whose path it is."""
    match = _combined_path_pattern().fullmatch(path)
    return match.lastgroup if match else None


@lru_cache(256)
def _providers_sharing_path(path: str) -> tuple[Provider, ...]:
    """The providers whose path it is where the request says so; mostly none."""
    return tuple(
        provider
        for provider in PROVIDERS
        if provider.shared_paths and re.fullmatch(provider.shared_paths, path)
    )


def _request_matches(request: Request, label: str) -> bool:
    """Whether anything of the request that may tell is what this expression asks for."""
    headers = [f"{name}: {value}" for name, value in request.headers]
    of_method = (f"{request.method} {header}" for header in headers)
    model = lenient_json.printable_text(lenient_json.parse_object(request.body).get("model"))
    parameters = (f"?{pair}" for pair in request.query.split("&"))
    pattern = re.compile(label, re.IGNORECASE)
    return any(
        pattern.fullmatch(text) for text in (*headers, *of_method, *parameters, f"$.model={model}")
    )


@cache
def _identifying_headers() -> frozenset[str]:
    return frozenset(name for provider in PROVIDERS for name in provider.headers)


@cache
def _combined_path_pattern() -> re.Pattern[str]:
    """The paths of all providers in one expression, a group named after each."""
    return re.compile(
        "|".join(
            f"(?P<{provider.name}>{provider.paths})" for provider in PROVIDERS if provider.paths
        )
    )


def upstream_address(provider: str, configured: Mapping[str, str]) -> str | None:
    """Where requests of this provider go, or None where nobody said.

    First its own `--upstream`, then `default=`, then the built-in address.
    """
    if provider in configured:
        return configured[provider]
    if ANY in configured:
        return configured[ANY]
    return next((item.url for item in PROVIDERS if item.name == provider and item.url), None)


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables that hold a key for this provider; none where none is known."""
    return next((item.key_variables for item in PROVIDERS if item.name == provider), ())


def credential_header(provider: str, key: str) -> tuple[str, str]:
    """The header in which a client of this provider sends its key."""
    carries = next(
        (item.credential_template for item in PROVIDERS if item.name == provider), _BEARER
    )
    name, _, value = carries.partition(": ")
    return name, value.format(key)


def needs_api_key(provider: str, configured: Mapping[str, str]) -> bool:
    """Whether requests of this provider go to its public address, where nobody is served without.

    A server that an operator names may need none.
    """
    url = upstream_address(provider, {}) or ""
    is_public = provider not in configured and ANY not in configured
    return is_public and url.startswith("https:") and bool(key_variables(provider))


def bedrock_url(path: str, region: str) -> str:
    """Where AWS serves this path of Bedrock's in a region: its agents have a host of their own."""
    agents = re.fullmatch(f"{_OF_AGENTS}|{_OF_SIGNED_AGENTS}", path)
    country = ".cn" if region.startswith("cn-") else ""
    host = "bedrock-agent-runtime" if agents else "bedrock-runtime"
    return f"https://{host}.{region}.amazonaws.com{country}"


def join_url(base: str, target: str, *, in_place_of_v1: bool = False) -> str:
    """The URL for a request target below a base URL; a `/v1` that both have is joined once.

    A base `in_place_of_v1` takes the place of that `/v1`, whatever it ends in: it is what a
    client was given before it was given ours.
    """
    base = base.rstrip("/")
    joined = in_place_of_v1 or base.endswith("/v1")
    if joined and (target == "/v1" or target.startswith(("/v1/", "/v1?"))):
        target = target.removeprefix("/v1")
    return base + target
