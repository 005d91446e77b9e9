"""Explains why an upstream gave no response, for 502, 504 and 508."""

from __future__ import annotations

from http import HTTPStatus

import aiohttp
from yarl import URL

from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import ResponseHead, head_lines, header_value
from llm_proxy.routing import ERROR_HEADER, RoutedRequest
from llm_proxy.shell.upstream.connection import UnexpectedBytes
from llm_proxy.shell.upstream.settings import UpstreamSettings


def response_head_failure(
    head: ResponseHead, routed: RoutedRequest, url: URL
) -> UpstreamFailed | None:
    """Why a response with this head cannot be passed on; None if it can.

    The reason is an invalid head (502), or a loop through another llm-proxy (508).
    """
    if reason := _invalid_head_reason(head):
        return UpstreamFailed(
            502, f"{_target_description(routed, url)} answered with {reason}: that is no HTTP"
        )
    if head.status == HTTPStatus.LOOP_DETECTED and header_value(head.headers, ERROR_HEADER):
        hint = f"give the provider's own address with --upstream {routed.provider}=URL"
        reason = "leads back to a proxy that it was asked through"
        return UpstreamFailed(508, f"{_target_description(routed, url)} {reason}: {hint}")
    return None


def _invalid_head_reason(head: ResponseHead) -> str:
    """What makes this head invalid; empty if it is valid."""
    if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return "101 to a request that asked for no other protocol"
    if head.status < HTTPStatus.OK:  # aiohttp has dropped other 1xx responses
        return f"the status {head.status}"
    try:
        head_lines(head)
    except ValueError:
        return "a control character in its head"
    return ""


def upstream_failure(
    error: Exception, routed: RoutedRequest, url: URL, settings: UpstreamSettings
) -> UpstreamFailed:
    """The error to respond with when an attempt failed with `error`."""
    upstream = _target_description(routed, url)
    hint = f"check that it runs, or give --upstream {routed.provider}=URL"
    if settings.proxy_url is not None:
        if (proxy_failure := _upstream_proxy_failure(error, URL(settings.proxy_url))) is not None:
            return UpstreamFailed(502, f"--upstream-proxy {settings.proxy_url} {proxy_failure}")
        upstream += f" asked through --upstream-proxy {settings.proxy_url},"
    match error:
        case aiohttp.ServerTimeoutError():
            return UpstreamFailed(
                502,
                f"{upstream} could not be reached within {settings.connect_timeout_s:g} s: {hint}",
            )
        case TimeoutError():
            return UpstreamFailed(
                504, f"{upstream} did not answer within {settings.idle_timeout_s:g} s"
            )
        case aiohttp.ClientConnectorError():
            return UpstreamFailed(502, f"{upstream} cannot be reached ({error.os_error}): {hint}")
        case UnexpectedBytes():
            return UpstreamFailed(502, f"{upstream} sent an answer before it was asked")
        case aiohttp.ServerDisconnectedError() | OSError():
            return UpstreamFailed(502, f"{upstream} closed the connection without an answer")
        case aiohttp.ClientResponseError():  # its message quotes upstream bytes, secrets included
            return UpstreamFailed(502, f"{upstream} did not answer in HTTP")
        case _:
            return UpstreamFailed(502, f"{upstream} could not be asked ({type(error).__name__})")


def _upstream_proxy_failure(error: Exception, proxy: URL) -> str | None:
    """The message for a failure of the operator's HTTP proxy itself; None for any other failure."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return (
                f"refused the way to the upstream with HTTP {error.status}: let it pass that "
                "host, or start llm-proxy with another proxy or none"
            )
        case aiohttp.ClientConnectorError() if (error.host, error.port) == (proxy.host, proxy.port):
            return (
                f"cannot be reached ({error.os_error}): check that it runs, or start llm-proxy "
                "with another proxy or none"
            )
        case _:
            return None


def _target_description(routed: RoutedRequest, url: URL) -> str:
    return f"the upstream of {routed.provider}, {url.origin()},"
