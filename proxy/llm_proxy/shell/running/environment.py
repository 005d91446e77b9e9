"""The environment of a child process, so that its clients use the proxy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.errors import UsageError
from llm_proxy.providers import (
    API_KEY_VARIABLES,
    BASE_URL_VARIABLES,
    COMMON_BASE_URL_VARIABLES,
    DEFAULT_PROVIDER,
    DUMMY_API_KEY,
    key_env_vars,
    upstream_url,
)
from llm_proxy.shell.running.settings import Settings, checked_http_url

_LOOPBACK: Final = ("127.0.0.1", "localhost")


def child_environment(environ: Mapping[str, str], url: str, *, dummy_keys: bool) -> dict[str, str]:
    """`environ` with every provider's base URL pointing at `url`, without an HTTP proxy for it.

    With `dummy_keys`, API keys that are not set get a dummy value.
    """
    child_environ = dict(environ)
    child_environ |= {name: url + each.path for name, each in BASE_URL_VARIABLES.items()}
    child_environ["LLM_PROXY_URL"] = url
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environ.get(name, "").split(",") if host]
        child_environ[name] = ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)])
    if dummy_keys:
        child_environ |= dict.fromkeys(missing_key_variables(environ), DUMMY_API_KEY)
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
                    f"{error}; correct or unset {name}, or set --upstream {provider}=URL"
                ) from None
    return upstreams


def configured_base_url_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables set to a provider's upstream, at most one for each, with that provider."""
    variables: dict[str, str] = {}
    for name, variable in BASE_URL_VARIABLES.items():
        is_new = variable.is_upstream and variable.provider not in variables.values()
        if is_new and normalized_base_url(name, environ):
            variables[name] = variable.provider
    return variables


def normalized_base_url(name: str, environ: Mapping[str, str]) -> str:
    """The value of a base URL variable as a URL; empty if it is not set.

    A host or port alone is completed from the provider's built-in address.
    """
    host, variable = environ.get(name, "").strip(), BASE_URL_VARIABLES[name]
    if not variable.is_host or not host or "://" in host:
        return host
    if host.lower().startswith(("http:", "https:")):
        return host  # a malformed URL
    builtin_address = urlsplit(upstream_url(variable.provider, {}) or "")
    authority, slash, path = host.partition("/")
    user, at, host_and_port = authority.rpartition("@")
    host_name, _, port = host_and_port.rpartition(":")
    if not host_name.endswith("]") and (":" in host_name or ":" not in host_and_port):
        host_name, port = host_and_port, ""  # the colons are an IPv6 address's
    if ":" in host_name and not host_name.startswith("["):
        host_name = f"[{host_name}]"
    host_name = host_name or str(builtin_address.hostname)
    return f"http://{user}{at}{host_name}:{port or builtin_address.port}{slash}{path}"


def providers_with_v1(providers: Container[str]) -> frozenset[str]:
    """The given providers whose clients get the proxy's URL with a `/v1`."""
    return frozenset(
        variable.provider
        for variable in BASE_URL_VARIABLES.values()
        if variable.provider in providers and variable.path.endswith("/v1")
    )


def export_lines(url: str) -> list[str]:
    """Shell lines that point the most common clients at `url`."""
    return [
        f"export {name}={url}{BASE_URL_VARIABLES[name].path}" for name in COMMON_BASE_URL_VARIABLES
    ]


def key_variables_of_public_providers(settings: Settings) -> dict[str, str]:
    """The API key variable of each provider that requests go to at its public address."""
    if DEFAULT_PROVIDER in settings.upstreams:
        return {}
    return {
        provider: name
        for name, provider in API_KEY_VARIABLES.items()
        if provider not in settings.upstreams and upstream_url(provider, {}) is not None
    }


def no_request_warning(settings: Settings, environ: Mapping[str, str]) -> str:
    """A warning for a command that ended without a request, though one might have gone live."""
    names = [
        name
        for provider, name in key_variables_of_public_providers(settings).items()
        if not any(map(environ.get, key_env_vars(provider)))
    ]
    keys = f"; these API key variables are not set: {', '.join(names)}" if names else ""
    return f"the command sent no request to llm-proxy{keys}"
