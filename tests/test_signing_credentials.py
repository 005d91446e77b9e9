"""Missing operator credentials are reported at the start and at renewal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from bedrock_requests import CONVERSE_BODY, CONVERSE_PATH, SIGNED_HEADERS
from in_process_proxy import proxy
from llm_proxy.errors import UsageError
from llm_proxy.shell.upstream.signing import AwsSigner
from raw_http import build_http_request, send_request
from sigv4_upstream import ENVIRONMENT, KEY_ID, SECRET, TOKEN, require_signature
from stub_upstream import fixed_length, upstream

CANARY: Final = "canary-in-the-text-of-an-error"
"""A string that the error's own text would contain."""


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a region, and remove all variables that lead to credentials."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                 "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def configure(patch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    """Write these lines as the selected AWS profile."""
    file = folder / "config"
    file.write_text("\n".join(("[profile operator]", *lines, "")))
    patch.setenv("AWS_CONFIG_FILE", str(file))
    patch.setenv("AWS_PROFILE", "operator")


def assert_refused(error: Exception | None, kind: str) -> None:
    """Assert that the error names its exception type and nothing more."""
    assert str(error).startswith(f"cannot load the AWS credentials ({kind}); check")
    assert CANARY not in str(error)


PROGRAMS: Final = {
    "none": (f"/nonexistent/{CANARY}", "FileNotFoundError"),
    "one that is no program": (f"/dev/null {CANARY}", "PermissionError"),
    "one that prints no JSON": (f"/bin/echo {CANARY}", "JSONDecodeError"),
    "one that prints other JSON": ("/bin/echo []", "AttributeError"),
    "one that fails": ("/bin/false", "CredentialRetrievalError"),
}


@pytest.mark.parametrize("program_kind", PROGRAMS)
def test_a_program_that_gives_no_credentials_is_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program_kind: str
) -> None:
    program, kind = PROGRAMS[program_kind]
    configure(monkeypatch, tmp_path, f"credential_process = {program}")
    with pytest.raises(UsageError) as caught:
        AwsSigner(None)
    assert_refused(caught.value, kind)


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        (
            {
                "AWS_ROLE_ARN": "arn:aws:iam::1:role/x",
                "AWS_WEB_IDENTITY_TOKEN_FILE": f"/nonexistent/{CANARY}",
            },
            "FileNotFoundError",
        ),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{CANARY}.example/x"}, "ValueError"),
    ],
    ids=["no file of a web identity", "an address that is no container's"],
)
def test_invalid_variables_are_reported_at_the_start(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kind: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        AwsSigner(None)
    assert_refused(caught.value, kind)


async def test_a_denied_role_is_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = (
        "<ErrorResponse><Error><Code>AccessDenied</Code>"
        f"<Message>{CANARY}</Message></Error></ErrorResponse>"
    )
    configure(
        monkeypatch, tmp_path,
        "region = eu-west-1", "role_arn = arn:aws:iam::1:role/x", "source_profile = other",
        "[profile other]", f"aws_access_key_id = {KEY_ID}", f"aws_secret_access_key = {SECRET}",
    )  # fmt: skip
    async with upstream(fixed_length(denied.encode(), status="403 Forbidden")) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        with pytest.raises(UsageError) as caught:
            await asyncio.to_thread(AwsSigner, None)
    assert sts.requests
    assert_refused(caught.value, "ClientError")


def credentials_json(minutes: float) -> str:
    """The output of a credential process whose credentials expire in so many minutes."""
    expiration = datetime.now(UTC) + timedelta(minutes=minutes)
    return json.dumps({
        "Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": TOKEN,
        "Expiration": expiration.isoformat(),
    })  # fmt: skip


RENEWAL_FAILURES: Final[dict[str, tuple[Callable[[Path, Path], object], str]]] = {
    "its program is gone": (lambda program, _: program.unlink(), "FileNotFoundError"),
    "it prints no JSON": (lambda _, output: output.write_text(CANARY), "JSONDecodeError"),
    "it gives old ones": (
        lambda _, output: output.write_text(credentials_json(-5)),
        "RuntimeError",
    ),
    "it fails": (lambda _, output: output.unlink(), "CredentialRetrievalError"),
}


@pytest.mark.parametrize("failure", RENEWAL_FAILURES)
async def test_credentials_that_cannot_be_renewed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """Credentials that expire in five minutes are renewed for every request."""
    program, output = tmp_path / "program", tmp_path / "said"
    output.write_text(credentials_json(5))
    program.write_text(f"#!/bin/sh\nexec cat '{output}'\n")
    program.chmod(0o700)
    configure(monkeypatch, tmp_path, f"credential_process = {program}")
    cause_failure, kind = RENEWAL_FAILURES[failure]
    answer = require_signature(fixed_length(b"{}"))
    async with upstream(answer) as live:
        async with proxy("record", tmp_path / "cassettes", live.url, sign="aws") as recording:
            before = await send_request(
                recording.url, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS)
            )
            cause_failure(program, output)
            after = await send_request(
                recording.url, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS)
            )
    assert (before.status, after.status) == (200, 502)
    message = json.loads(after.body)["message"]
    assert message.startswith(f"cannot renew the AWS credentials ({kind}); log in to AWS again")
    assert not [item for item in (CANARY, TOKEN, SECRET) if item in message]
    assert len(live.requests) == 1
