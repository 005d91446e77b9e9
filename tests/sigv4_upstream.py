"""An upstream that, like AWS, accepts only correctly signed requests; botocore verifies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from bedrock_requests import parse_header_fields
from stub_upstream import Connection, Script

REASON: Final = "botocore is not installed: it comes with the extra dev"

auth: Final[Any] = pytest.importorskip("botocore.auth", reason=REASON)
awsrequest: Final[Any] = pytest.importorskip("botocore.awsrequest", reason=REASON)
credentials: Final[Any] = pytest.importorskip("botocore.credentials", reason=REASON)

KEY_ID: Final = "AKIDCANARYOPERATOR01"
SECRET: Final = "secret-canary-of-the-operator/+0123456789"
TOKEN: Final = "session-canary/of+the==operator"
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
    "AWS_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""The operator's environment; it excludes all other AWS configuration of this machine."""


def signature_error(head: bytes, body: bytes, region: str = "eu-west-1") -> str:
    """Why AWS would reject a request's signature; empty if it would not."""
    method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
    headers = parse_header_fields(head)
    header_values: Mapping[str, str] = {name.lower(): value for name, value in headers}
    scheme, _, rest = header_values.get("authorization", "").partition(" ")
    parts = dict(item.strip().partition("=")[::2] for item in rest.split(","))
    signed_header_names = parts.get("SignedHeaders", "").split(";")
    if scheme != "AWS4-HMAC-SHA256" or header_values.get("x-amz-security-token") != TOKEN:
        return "no signature of the operator's"
    if sum(name.lower() == "authorization" for name, _ in headers) != 1:
        return "several signatures"
    if missing := [
        item
        for item in header_values
        if item.startswith("x-amz-") and item not in signed_header_names
    ]:
        return f"not covered: {missing}"
    aws_request = awsrequest.AWSRequest(
        method, f"http://{header_values['host']}{target}", data=body
    )
    for name, value in headers:
        if name.lower() in signed_header_names:
            aws_request.headers[name] = value
    aws_request.context["timestamp"] = header_values["x-amz-date"]
    signer = auth.SigV4Auth(credentials.Credentials(KEY_ID, SECRET, TOKEN), "bedrock", region)
    expected = signer.signature(
        signer.string_to_sign(aws_request, signer.canonical_request(aws_request)), aws_request
    )
    if parts["Credential"] != signer.scope(aws_request):
        return f"scope {parts['Credential']}"
    return "" if parts["Signature"] == expected else "SignatureDoesNotMatch"


def require_signature(next_script: Script, region: str = "eu-west-1") -> Script:
    """A script that responds with 403, as AWS does, unless the signature is correct."""

    async def script(connection: Connection) -> None:
        if error := signature_error(connection.head, connection.body, region):
            body = b'{"message":"%b"}' % error.encode()
            error_type_header = "x-amzn-errortype: InvalidSignatureException"
            length_header = f"Content-Length: {len(body)}"
            await connection.begin(
                error_type_header,
                length_header,
                status="403 Forbidden",
                content_type="application/json",
            )
            await connection.send(body)
        else:
            await next_script(connection)

    return script
