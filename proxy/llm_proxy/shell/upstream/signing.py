"""Signs Bedrock requests with the operator's AWS credentials (SigV4).

A signature covers the host, and the client's was made for ours.  botocore makes the new one: it
knows every place that credentials come from, and renews those that run out.  It is an extra,
imported here alone, and only when an operator asks for it.
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

from llm_proxy import http_heads
from llm_proxy.errors import RequestRefused, UpstreamFailed, UsageError, printable
from llm_proxy.exchange import Request

BEDROCK: Final = "bedrock"
"""The provider, and AWS's name of the service that a signature is for."""

_NAME: Final = re.compile("[a-z0-9-]+")
"""A region, as it may stand in a host."""

_REGION: Final = re.compile(
    r"(?:.+\.)?bedrock[a-z-]*\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
"""The region in a host of AWS's: `bedrock-runtime.eu-west-1.amazonaws.com`."""
_MADE: Final = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
"""The headers of a signature, as we make one."""
_DROPPED: Final = frozenset(
    {*map(str.lower, _MADE), "x-amz-content-sha256", "x-amz-region-set"}
)  # fmt: skip
"""The headers of the client's."""
_IN_QUERY: Final = re.compile(
    r"X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature|Security-Token)=.*",
    re.IGNORECASE,
)
"""A parameter of the client's, which may sign in the query instead."""
_COVERED: Final = re.compile(r"content-type|x-amz-.*|x-amzn-bedrock-.*", re.IGNORECASE)
"""The headers that a signature covers, with the host: AWS wants no less, and others may change."""


def refuse_signed(request: Request) -> None:
    """Raise `RequestRefused` for a request whose signature AWS would not take from us."""
    sent = (value for name, value in request.headers if name.lower() == "authorization")
    if (
        any(text.startswith("AWS4-") for text in sent)
        or _without_signature(request).query != request.query
    ):
        raise RequestRefused(
            501,
            "this request has an AWS signature (SigV4), which is for the address that the client "
            "knows, so AWS would refuse it: start llm-proxy with --sign aws, which signs with "
            "your credentials, or give the client a Bedrock API key as bearer token, which needs "
            "no signature and is passed on",
        )


class AwsSigner:
    """Signs requests with the credentials that the operator's environment leads to."""

    def __init__(self, upstream: str | None) -> None:
        """`upstream` is the base URL that is configured for Bedrock.  It may ask the network.

        Raises `UsageError` where botocore, the region or credentials are missing.
        """
        self._botocore_session = _import_botocore()
        session = self._botocore_session.session.get_session()
        self.region = _region_of_url(upstream or "") or os.environ.get("AWS_REGION", "").strip()
        """Where no host names another."""
        self.region = self.region or self._call_botocore(
            lambda: session.get_config_variable("region")
        )
        if self.region and _NAME.fullmatch(self.region) is None:
            raise UsageError(f"--sign aws: {printable(self.region, 60)!r} is no region of AWS")
        if not self.region:
            raise UsageError(
                "--sign aws: the region is not known: set AWS_REGION, or give --upstream "
                "bedrock=URL with a host of AWS's, which names it"
            )
        self._credentials = self._call_botocore(session.get_credentials)
        if self._credentials is None:
            raise UsageError(
                "--sign aws: there are no AWS credentials: set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or log in with aws sso login"
            )
        self._call_botocore(self._credentials.get_frozen_credentials)
        # One thread, for the order of requests is that of their takes; renewing may take a while.
        self._thread = ThreadPoolExecutor(1, "signing")

    def close(self) -> None:
        """Sign nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def sign_request(self, request: Request, url: Callable[[Request], str]) -> Request:
        """The request with our signature for its `url` in place of the client's.

        Raises `UpstreamFailed` where credentials that ran out cannot be renewed.
        """
        loop = asyncio.get_running_loop()
        bare = _without_signature(request)
        try:
            return await loop.run_in_executor(self._thread, self._sign, bare, url(bare))
        except _CredentialsNotFound as error:
            raise UpstreamFailed(
                502,
                f"the AWS credentials cannot be renewed ({error}): log in again, "
                "or start llm-proxy with others",
            ) from None

    def _sign(self, request: Request, url: str) -> Request:
        region = _region_of_url(url) or self.region
        content = self._botocore_session.awsrequest.AWSRequest(
            request.method, url, data=request.body
        )
        for name, value in http_heads.forwarded_headers(request.headers):
            if _COVERED.fullmatch(name):
                content.headers[name] = value  # which adds to those of that name
        credentials = _lookup(self._credentials.get_frozen_credentials)
        self._botocore_session.auth.SigV4Auth(credentials, BEDROCK, region).add_auth(content)
        made = tuple((name, content.headers[name]) for name in _MADE if name in content.headers)
        return replace(request, headers=(*request.headers, *made))

    @staticmethod
    def _call_botocore(ask: Callable[[], Any]) -> Any:
        """What botocore finds.  Raises `UsageError` where looking for it fails."""
        try:
            return _lookup(ask)
        except _CredentialsNotFound as error:
            raise UsageError(
                f"--sign aws: the AWS credentials cannot be had ({error}): look "
                "at AWS_PROFILE and your AWS configuration, or log in with aws sso login"
            ) from None


class _CredentialsNotFound(Exception):
    """Looking for credentials failed; all it says is the name of the failure's type."""


def _lookup(ask: Callable[[], Any]) -> Any:
    """What botocore finds.  Raises `_NotFound`, whatever fails on the way.

    Credentials come from files, programs, and services: besides botocore's own errors there are
    those of the disk, of JSON, and of whoever answers.  Their texts may quote what they had.
    """
    try:
        return ask()
    except Exception as error:
        raise _CredentialsNotFound(type(error).__name__) from None


def _without_signature(request: Request) -> Request:
    headers = tuple(pair for pair in request.headers if pair[0].lower() not in _DROPPED)
    kept = (text for text in request.query.split("&") if _IN_QUERY.fullmatch(text) is None)
    return replace(request, headers=headers, query="&".join(kept))


def _region_of_url(url: str) -> str:
    """The region that a URL's host names; empty where it is none of AWS's."""
    match = _REGION.fullmatch(urlsplit(url).hostname or "")
    return match[1] if match else ""


def _import_botocore() -> Any:
    """The package, which comes without types.  Raises `UsageError` where it is not installed."""
    try:
        for part in ("auth", "awsrequest", "session"):
            importlib.import_module(f"botocore.{part}")
        return importlib.import_module("botocore")
    except ImportError:
        raise UsageError("--sign aws needs botocore: pip install 'llm-proxy-replay[aws]'") from None
