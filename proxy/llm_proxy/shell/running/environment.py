"""The environment of a child process, so that its clients use the proxy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.shell.running.settings import checked_http_url

BASE_URL_PATHS: Final = {
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
"""The variables that clients read a base URL from, each with its path below the proxy's URL."""

UPSTREAM_VARIABLES: Final = {
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
"""Provider by base URL variable: if the operator's environment sets one, it is that provider's
upstream; of two for one provider, the first that is set counts."""

API_KEY_VARIABLES: Final = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GEMINI_API_KEY": "gemini",
    "GROQ_API_KEY": "groq",
    "CO_API_KEY": "cohere",
    "MISTRAL_API_KEY": "mistral",
    "AZURE_OPENAI_API_KEY": "azure",
}
"""Provider by API key variable: without a key, most SDKs refuse to start."""

DUMMY_KEY: Final = "llm-proxy-replay"
_LOOPBACK: Final = ("127.0.0.1", "localhost")


def child_environment(environ: Mapping[str, str], url: str, *, dummy_keys: bool) -> dict[str, str]:
    """`environ` with every provider's base URL pointing at `url`, without an HTTP proxy for it.

    With `dummy_keys`, API keys that are not set get a dummy value.
    """
    child_environ = dict(environ)
    child_environ |= {name: url + path for name, path in BASE_URL_PATHS.items()}
    child_environ["LLM_PROXY_URL"] = url
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environ.get(name, "").split(",") if host]
        child_environ[name] = ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)])
    if dummy_keys:
        child_environ |= dict.fromkeys(missing_key_variables(environ), DUMMY_KEY)
    return child_environ


def missing_key_variables(environ: Mapping[str, str]) -> list[str]:
    """The API key variables that are unset or empty: CI sets a missing secret to nothing."""
    return [name for name in API_KEY_VARIABLES if not environ.get(name)]


def adopted_upstreams(
    environ: Mapping[str, str], given_providers: Container[str] = ()
) -> dict[str, str]:
    """The upstream URLs in the operator's environment, except for `given_providers`.

    Raises `UsageError` for one that is no plain http or https URL: requests for a private
    gateway must not go to the public provider.
    """
    upstreams: dict[str, str] = {}
    for name, provider in configured_base_url_variables(environ).items():
        if provider not in given_providers:
            try:
                upstreams[provider] = checked_http_url(name, normalized_base_url(name, environ))
            except UsageError as error:
                raise UsageError(
                    f"{error}; correct it, unset it, or give --upstream {provider}=URL, which wins"
                ) from None
    return upstreams


def configured_base_url_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The base URL variables that are set, at most one per provider, with that provider."""
    variables: dict[str, str] = {}
    for name, provider in UPSTREAM_VARIABLES.items():
        if provider not in variables.values() and normalized_base_url(name, environ):
            variables[name] = provider
    return variables


def normalized_base_url(name: str, environ: Mapping[str, str]) -> str:
    """The value of a base URL variable as a URL; empty if it is not set."""
    value = environ.get(name, "").strip()
    return _ollama_url(value) if name == "OLLAMA_HOST" else value


def providers_with_v1(providers: Container[str]) -> frozenset[str]:
    """The given providers whose clients get the proxy's URL with a `/v1`."""
    return frozenset(
        provider
        for name, provider in UPSTREAM_VARIABLES.items()
        if provider in providers and BASE_URL_PATHS[name].endswith("/v1")
    )


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` as a URL: Ollama clients accept `HOST`, `HOST:PORT` and `:PORT` as well."""
    if not host or "://" in host or host.lower().startswith(("http:", "https:")):
        return host  # a URL, or a malformed one
    authority, slash, path = host.partition("/")
    user, at, host_and_port = authority.rpartition("@")
    name, _, port = host_and_port.rpartition(":")
    if not name.endswith("]") and (":" in name or ":" not in host_and_port):
        name, port = host_and_port, ""  # the colons are an IPv6 address's
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return f"http://{user}{at}{name or '127.0.0.1'}:{port or '11434'}{slash}{path}"


def export_lines(url: str) -> list[str]:
    """Shell lines that point the most common clients at `url`."""
    return [
        f"export {name}={url}{BASE_URL_PATHS[name]}"
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST")
    ]
