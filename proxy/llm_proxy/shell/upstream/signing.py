"""Signs Bedrock requests with the operator's AWS credentials (SigV4).

A signature covers the host, and the client's signature is for this proxy's host.  botocore makes
the new one: it knows every source of credentials, and renews expired ones.  It is an optional
dependency, imported only here, and only where requests are to be signed.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from llm_proxy.errors import RequestRefused, UpstreamFailed, UsageError, printable_excerpt
from llm_proxy.exchange import Request, forwarded_request_headers
from llm_proxy.providers import SIGNED_PROVIDER

_REGION_NAME: Final = re.compile("[a-z0-9-]+")
"""A region's name, as it may appear in a host name."""

_AWS_HOST: Final = re.compile(
    r"(?:.+\.)?bedrock[a-z-]*\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
"""An AWS host name, with its region as group 1: `bedrock-runtime.eu-west-1.amazonaws.com`."""
_SIGNATURE_HEADERS: Final = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
"""The headers that a signature of ours sets."""
_CLIENT_SIGNATURE_HEADERS: Final = frozenset(
    {*map(str.lower, _SIGNATURE_HEADERS), "x-amz-content-sha256", "x-amz-region-set"}
)  # fmt: skip
"""The headers of a client's signature, in lower case; they are removed."""
_SIGNATURE_PARAMETER: Final = re.compile(
    r"X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature|Security-Token)=.*",
    re.IGNORECASE,
)
"""A query parameter of a client's signature, which may be in the query instead of headers."""
_SIGNED_HEADER: Final = re.compile(r"content-type|x-amz-.*|x-amzn-bedrock-.*", re.IGNORECASE)
"""The headers that a signature covers beside the host: the minimum for AWS; others may change."""


def refuse_sigv4_request(request: Request) -> None:
    """Raise `RequestRefused` for a SigV4 request: AWS refuses its signature once forwarded."""
    authorizations = (value for name, value in request.headers if name.lower() == "authorization")
    if (
        any(authorization.startswith("AWS4-") for authorization in authorizations)
        or _without_signature(request).query != request.query
    ):
        raise RequestRefused(
            501,
            "the client signed this request for llm-proxy's address, so AWS would reject the "
            "signature (SigV4); start llm-proxy with --sign aws to sign requests with your "
            "credentials, or use a Bedrock API key in the client",
        )


class AwsSigner:
    """Signs requests with the credentials that botocore finds in the operator's environment."""

    def __init__(self, base_url: str | None) -> None:
        """`base_url` is the one configured for Bedrock.  The lookup may use the network.

        Raises `UsageError` if botocore, the region or credentials are missing.
        """
        self._botocore = _import_botocore()
        session = self._botocore.session.get_session()
        self.region = _region_of_url(base_url or "") or os.environ.get("AWS_REGION", "").strip()
        """The region of requests whose host names none."""
        self.region = self.region or self._run_startup_lookup(
            lambda: session.get_config_variable("region")
        )
        _check_region(self.region)
        self._credentials = self._run_startup_lookup(session.get_credentials)
        if self._credentials is None:
            raise UsageError(
                "no AWS credentials; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run aws sso login"
            )
        self._run_startup_lookup(self._credentials.get_frozen_credentials)
        # One thread, because requests must stay in the order of their takes; renewal may be slow.
        self._executor = ThreadPoolExecutor(1, "signing")

    def close(self) -> None:
        """Stop the signing thread."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def sign_request(self, request: Request, url_for: Callable[[Request], str]) -> Request:
        """The request signed with the operator's credentials, without the client's signature.

        `url_for` returns the URL of the request.  Raises `UpstreamFailed` if expired credentials
        cannot be renewed.
        """
        loop = asyncio.get_running_loop()
        unsigned = _without_signature(request)
        try:
            return await loop.run_in_executor(
                self._executor, self._sign, unsigned, url_for(unsigned)
            )
        except _BotocoreLookupFailed as error:
            raise UpstreamFailed(
                502,
                f"cannot renew the AWS credentials ({error}); log in to AWS again, or restart "
                "llm-proxy with other credentials",
            ) from None

    def _sign(self, request: Request, url: str) -> Request:
        region = _region_of_url(url) or self.region
        aws_request = self._botocore.awsrequest.AWSRequest(request.method, url, data=request.body)
        for name, value in forwarded_request_headers(request.headers):
            if _SIGNED_HEADER.fullmatch(name):
                aws_request.headers[name] = value  # adds to the headers of that name
        credentials = _run_botocore_lookup(self._credentials.get_frozen_credentials)
        self._botocore.auth.SigV4Auth(credentials, SIGNED_PROVIDER, region).add_auth(aws_request)
        signature_headers = tuple(
            (name, aws_request.headers[name])
            for name in _SIGNATURE_HEADERS
            if name in aws_request.headers
        )
        return replace(request, headers=(*request.headers, *signature_headers))

    @staticmethod
    def _run_startup_lookup(lookup: Callable[[], Any]) -> Any:
        """The result of `lookup`.  Raises `UsageError` if it fails."""
        try:
            return _run_botocore_lookup(lookup)
        except _BotocoreLookupFailed as error:
            raise UsageError(
                f"cannot load the AWS credentials ({error}); check AWS_PROFILE and "
                "your AWS configuration, or run aws sso login"
            ) from None


class _BotocoreLookupFailed(Exception):
    """A botocore lookup failed; the message is only the name of the error's type."""


def _run_botocore_lookup(lookup: Callable[[], Any]) -> Any:
    """The result of `lookup`.  Raises `_BotocoreLookupFailed` for every error.

    Credentials come from files, programs and services: besides botocore's own errors there are
    those of the disk, of JSON and of the service.  Their messages may quote secrets.
    """
    try:
        return lookup()
    except Exception as error:
        raise _BotocoreLookupFailed(type(error).__name__) from None


def _without_signature(request: Request) -> Request:
    headers = tuple(
        pair for pair in request.headers if pair[0].lower() not in _CLIENT_SIGNATURE_HEADERS
    )
    kept_parameters = (
        parameter
        for parameter in request.query.split("&")
        if _SIGNATURE_PARAMETER.fullmatch(parameter) is None
    )
    return replace(request, headers=headers, query="&".join(kept_parameters))


def environment_region() -> str:
    """The AWS region in the environment.  Raises `UsageError` if there is none."""
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    region = next(filter(None, (os.environ.get(name, "").strip() for name in names)), "")
    _check_region(region)
    return region


def _check_region(region: str) -> None:
    """Raise `UsageError` if this is not the name of a region."""
    if not region:
        raise UsageError("no AWS region; set AWS_REGION")
    if _REGION_NAME.fullmatch(region) is None:
        shown_region = printable_excerpt(region, 60)
        raise UsageError(f"{shown_region!r} is not a valid AWS region; correct AWS_REGION")


def _region_of_url(url: str) -> str:
    """The region in a URL's host; empty if it is not an AWS host."""
    match = _AWS_HOST.fullmatch(urlsplit(url).hostname or "")
    return match[1] if match else ""


def _import_botocore() -> Any:
    """The untyped `botocore` package.  Raises `UsageError` if it is not installed."""
    try:
        for module in ("auth", "awsrequest", "session"):
            importlib.import_module(f"botocore.{module}")
        return importlib.import_module("botocore")
    except ImportError:
        raise UsageError(
            "signing for AWS requires botocore; run pip install 'llm-proxy-replay[aws]'"
        ) from None
