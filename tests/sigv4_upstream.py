"""An upstream that takes no request but a well signed one, as AWS does; botocore judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from bedrock_requests import fields
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
"""What an operator has in the environment; nothing else of this machine's is looked at."""


def wrong(head: bytes, body: bytes, region: str = "eu-west-1") -> str:
    """What AWS would hold against a request; empty where nothing."""
    method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
    sent = fields(head)
    found: Mapping[str, str] = {name.lower(): value for name, value in sent}
    scheme, _, rest = found.get("authorization", "").partition(" ")
    parts = dict(item.strip().partition("=")[::2] for item in rest.split(","))
    covered = parts.get("SignedHeaders", "").split(";")
    if scheme != "AWS4-HMAC-SHA256" or found.get("x-amz-security-token") != TOKEN:
        return "no signature of the operator's"
    if sum(name.lower() == "authorization" for name, _ in sent) != 1:
        return "several signatures"
    if missing := [item for item in found if item.startswith("x-amz-") and item not in covered]:
        return f"not covered: {missing}"
    asked = awsrequest.AWSRequest(method, f"http://{found['host']}{target}", data=body)
    for name, value in sent:
        if name.lower() in covered:
            asked.headers[name] = value
    asked.context["timestamp"] = found["x-amz-date"]
    judge = auth.SigV4Auth(credentials.Credentials(KEY_ID, SECRET, TOKEN), "bedrock", region)
    expected = judge.signature(judge.string_to_sign(asked, judge.canonical_request(asked)), asked)
    if parts["Credential"] != judge.scope(asked):
        return f"scope {parts['Credential']}"
    return "" if parts["Signature"] == expected else "SignatureDoesNotMatch"


def checking(answer: Script, region: str = "eu-west-1") -> Script:
    """A script that answers 403 unless the signature is right, in AWS's own words."""

    async def script(connection: Connection) -> None:
        if why := wrong(connection.head, connection.body, region):
            said = b'{"message":"%b"}' % why.encode()
            kind = "x-amzn-errortype: InvalidSignatureException"
            length = f"Content-Length: {len(said)}"
            await connection.begin(
                kind, length, status="403 Forbidden", content_type="application/json"
            )
            await connection.send(said)
        else:
            await answer(connection)

    return script
