"""What a child process needs in its environment to talk to us instead of the providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
}
"""Each variable that clients take a base URL from, and the path that it has below ours."""

ADOPTED: Final = {
    "OPENAI_BASE_URL": "openai",
    "ANTHROPIC_BASE_URL": "anthropic",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "OLLAMA_HOST": "ollama",
    "GROQ_BASE_URL": "groq",
    "CO_API_URL": "cohere",
    "AZURE_OPENAI_ENDPOINT": "azure",
}
"""Variables that name a provider's address, where the operator's shell sets them already."""

KEYS: Final = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "CO_API_KEY",
    "MISTRAL_API_KEY",
    "AZURE_OPENAI_API_KEY",
)
"""Without some key, most SDKs refuse to start."""

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
        child |= dict.fromkeys(keys_not_set(base), DUMMY_KEY)
    return child


def keys_not_set(environ: Mapping[str, str]) -> list[str]:
    """The API keys that are not set, or to nothing: CI gives a secret so that it does not have."""
    return [name for name in KEYS if not environ.get(name)]


def adopted_upstreams(environ: Mapping[str, str]) -> dict[str, str]:
    """The providers' addresses that the operator's environment names."""
    named = {provider: environ.get(name, "") for name, provider in ADOPTED.items()}
    named["ollama"] = _ollama(named["ollama"])
    return {
        provider: address
        for provider, address in named.items()
        if address.startswith(("http://", "https://"))
    }


def _ollama(host: str) -> str:
    """`OLLAMA_HOST` as a URL: its clients take `HOST` and `HOST:PORT` as well."""
    if not host or "://" in host:
        return host
    return f"http://{host}" if ":" in host else f"http://{host}:11434"


def exports(url: str) -> list[str]:
    """Shell lines that point the most common clients at `url`."""
    return [
        f"export {name}={url}{BASE_URLS[name]}"
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST")
    ]
