"""The environment of a child process, so that its clients use the proxy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.errors import UsageError
from llm_proxy.providers import (
    API_KEY_VARIABLES,
    BASE_URL_ADVICE,
    BASE_URL_VARIABLES,
    COMMON_BASE_URL_VARIABLES,
    DEFAULT_PROVIDER,
    DUMMY_API_KEY,
    key_env_vars,
    upstream_url,
)
from llm_proxy.shell.running.settings import Settings, checked_http_url

_LOOPBACK: Final = ("127.0.0.1", "localhost")


def child_environment(
    environ: Mapping[str, str], url: str, dummy_keys: Iterable[str] = ()
) -> dict[str, str]:
    """`environ` with every provider's base URL pointing at `url`, without an HTTP proxy for it.

    `dummy_keys` are the variables that get the dummy API key, see `dummy_key_variables`.
    """
    child_environ = dict(environ)
    child_environ |= {name: url + each.path for name, each in BASE_URL_VARIABLES.items()}
    child_environ["LLM_PROXY_URL"] = url
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environ.get(name, "").split(",") if host]
        child_environ[name] = ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)])
    return child_environ | dict.fromkeys(dummy_keys, DUMMY_API_KEY)


def dummy_key_variables(mode: str, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The API key variables that get a dummy value, because most SDKs do not start without a key.

    They are unset or empty: CI sets a missing secret to nothing.  In `record`, only those of
    providers with a local upstream, which needs no key; in the other modes all of them, because
    responses from cassettes and scenarios need none.
    """
    return [
        name
        for name, provider in API_KEY_VARIABLES.items()
        if not environ.get(name)
        and (mode != "record" or is_local_url(upstream_url(provider, settings.upstreams)))
    ]


def is_local_url(url: str | None) -> bool:
    """Whether the host of a URL is this machine, or has a name without a dot.

    Such a name is one of a private network, such as that of a container.
    """
    host = urlsplit(url or "").hostname or "."
    try:
        address = ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


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
                raise UsageError(f"{error}; correct or unset {name}") from None
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


def no_request_message(
    mode: str, settings: Settings, environ: Mapping[str, str], *, has_command: bool
) -> str:
    """What to log about a run without a request, and what to check.

    If the proxy ran a command that needed API keys, they include those that are not set.
    """
    names = [
        name
        for provider, name in key_variables_of_public_providers(settings).items()
        if not any(map(environ.get, key_env_vars(provider)))
    ]
    program = "command" if has_command else "client"
    needs_keys = has_command and settings.may_go_live(mode) and names
    keys = f"; these API key variables are not set: {', '.join(names)}" if needs_keys else ""
    strict = " (--strict)" if settings.strict else ""
    return f"no request reached llm-proxy{strict}; check that the {program} {BASE_URL_ADVICE}{keys}"
