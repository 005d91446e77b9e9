"""The environment of a child process, so that its clients use the proxy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.shell.running.settings import checked_http_url

BASE_URLS: Final = {
    "OPENAI_BASE_URL": "/v1",
    "OPENAI_API_BASE": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "OLLAMA_HOST": "",
    "GROQ_BASE_URL": "",
    "CO_API_URL": "",
    "MISTRAL_BASE_URL": "/~mistral/v1",
    "AZURE_OPENAI_ENDPOINT": "",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "",
    "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME": "",
}
"""Each variable that clients take a base URL from, and the path that it has below ours."""

ADOPTED: Final = {
    "OPENAI_BASE_URL": "openai",
    "OPENAI_API_BASE": "openai",
    "ANTHROPIC_BASE_URL": "anthropic",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "OLLAMA_HOST": "ollama",
    "GROQ_BASE_URL": "groq",
    "CO_API_URL": "cohere",
    "MISTRAL_BASE_URL": "mistral",
    "AZURE_OPENAI_ENDPOINT": "azure",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "bedrock",
}
"""Variables that name a provider's address, where the operator's shell sets them already; of two
for one provider, the first that is set counts."""

KEYS: Final = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GEMINI_API_KEY": "gemini",
    "GROQ_API_KEY": "groq",
    "CO_API_KEY": "cohere",
    "MISTRAL_API_KEY": "mistral",
    "AZURE_OPENAI_API_KEY": "azure",
}
"""The providers' keys: without some key, most SDKs refuse to start."""

DUMMY_KEY: Final = "llm-proxy-replay"
_LOOPBACK: Final = ("127.0.0.1", "localhost")


def child_environment(base: Mapping[str, str], url: str, *, dummy_keys: bool) -> dict[str, str]:
    """`base` with every provider's base URL pointing at `url`, and no proxy in between.

    With `dummy_keys`, API keys that are not set get a value that is none.
    """
    child = dict(base)
    child |= {name: url + path for name, path in BASE_URLS.items()}
    child["LLM_PROXY_URL"] = url
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in base.get(name, "").split(",") if host]
        child[name] = ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)])
    if dummy_keys:
        child |= dict.fromkeys(missing_key_variables(base), DUMMY_KEY)
    return child


def missing_key_variables(environ: Mapping[str, str]) -> list[str]:
    """The API keys that are not set, or to nothing: CI gives a secret so that it does not have."""
    return [name for name in KEYS if not environ.get(name)]


def adopted_upstreams(environ: Mapping[str, str], container: Container[str] = ()) -> dict[str, str]:
    """The addresses that the operator's environment names, of the providers not `given`.

    Raises `UsageError` for one that is no plain http or https URL: what is meant for a private
    gateway must not go to the public provider.
    """
    adopted: dict[str, str] = {}
    for name, provider in base_url_variables(environ).items():
        if provider not in container:
            try:
                adopted[provider] = checked_http_url(name, normalized_base_url(name, environ))
            except UsageError as error:
                raise UsageError(
                    f"{error}; correct it, unset it, or give --upstream {provider}=URL, which wins"
                ) from None
    return adopted


def base_url_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that name an address, one for each provider, and that provider."""
    chosen: dict[str, str] = {}
    for name, provider in ADOPTED.items():
        if provider not in chosen.values() and normalized_base_url(name, environ):
            chosen[name] = provider
    return chosen


def normalized_base_url(name: str, environ: Mapping[str, str]) -> str:
    """The value of a base-URL variable as it is meant; empty where it is not set."""
    value = environ.get(name, "").strip()
    return _ollama_url(value) if name == "OLLAMA_HOST" else value


def providers_with_v1(providers: Container[str]) -> frozenset[str]:
    """Those of these providers whose clients are given our address with a `/v1`."""
    return frozenset(
        provider
        for name, provider in ADOPTED.items()
        if provider in providers and BASE_URLS[name].endswith("/v1")
    )


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` as a URL: its clients take `HOST`, `HOST:PORT` and `:PORT` as well."""
    if not host or "://" in host or host.lower().startswith(("http:", "https:")):
        return host  # a URL, or a mistake in one
    authority, slash, path = host.partition("/")
    user, at, place = authority.rpartition("@")
    name, _, port = place.rpartition(":")
    if not name.endswith("]") and (":" in name or ":" not in place):
        name, port = place, ""  # an IPv6 address holds colons of its own
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return f"http://{user}{at}{name or '127.0.0.1'}:{port or '11434'}{slash}{path}"


def export_lines(url: str) -> list[str]:
    """Shell lines that point the most common clients at `url`."""
    return [
        f"export {name}={url}{BASE_URLS[name]}"
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST")
    ]
