"""Where the operator's credentials cannot be had, it is told: at the start, and later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from bedrock_requests import BODY, CONVERSE, SIGNED
from in_process_proxy import proxy
from llm_proxy.errors import UsageError
from llm_proxy.shell.upstream.signing import AwsSigner
from raw_http import ask, post
from sigv4_upstream import ENVIRONMENT, KEY_ID, SECRET, TOKEN, checking
from stub_upstream import upstream, whole

CANARY: Final = "canary-in-the-text-of-an-error"
"""What an error's own text would show."""


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region, and nothing that leads to credentials."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                 "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def configure(patch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    """Make these lines the profile that is asked for."""
    file = folder / "config"
    file.write_text("\n".join(("[profile operator]", *lines, "")))
    patch.setenv("AWS_CONFIG_FILE", str(file))
    patch.setenv("AWS_PROFILE", "operator")


def refused(error: Exception | None, kind: str) -> None:
    """It is said what kind of failure it was, and no more."""
    assert str(error).startswith(f"--sign aws: the AWS credentials cannot be had ({kind}): look at")
    assert CANARY not in str(error)


PROGRAMS: Final = {
    "none": (f"/nonexistent/{CANARY}", "FileNotFoundError"),
    "one that is no program": (f"/dev/null {CANARY}", "PermissionError"),
    "one that prints no JSON": (f"/bin/echo {CANARY}", "JSONDecodeError"),
    "one that prints other JSON": ("/bin/echo []", "AttributeError"),
    "one that fails": ("/bin/false", "CredentialRetrievalError"),
}


@pytest.mark.parametrize("which", PROGRAMS)
def test_a_program_that_gives_no_credentials_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    program, kind = PROGRAMS[which]
    configure(monkeypatch, tmp_path, f"credential_process = {program}")
    with pytest.raises(UsageError) as caught:
        AwsSigner(None)
    refused(caught.value, kind)


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
def test_variables_that_lead_nowhere_are_told_at_the_start(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kind: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        AwsSigner(None)
    refused(caught.value, kind)


async def test_a_role_that_is_denied_is_told_at_the_start(
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
    async with upstream(whole(denied.encode(), status="403 Forbidden")) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        with pytest.raises(UsageError) as caught:
            await asyncio.to_thread(AwsSigner, None)
    assert sts.requests
    refused(caught.value, "ClientError")


def given(minutes: float) -> str:
    """What a program prints of credentials that run out in so many minutes."""
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    return json.dumps({
        "Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": TOKEN,
        "Expiration": until.isoformat(),
    })  # fmt: skip


LATER: Final[dict[str, tuple[Callable[[Path, Path], object], str]]] = {
    "its program is gone": (lambda program, _: program.unlink(), "FileNotFoundError"),
    "it prints no JSON": (lambda _, said: said.write_text(CANARY), "JSONDecodeError"),
    "it gives old ones": (lambda _, said: said.write_text(given(-5)), "RuntimeError"),
    "it fails": (lambda _, said: said.unlink(), "CredentialRetrievalError"),
}


@pytest.mark.parametrize("failure", LATER)
async def test_credentials_that_cannot_be_renewed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """Those that run out in five minutes are renewed for every request."""
    program, said = tmp_path / "program", tmp_path / "said"
    said.write_text(given(5))
    program.write_text(f"#!/bin/sh\nexec cat '{said}'\n")
    program.chmod(0o700)
    configure(monkeypatch, tmp_path, f"credential_process = {program}")
    break_it, kind = LATER[failure]
    answer = checking(whole(b"{}"))
    async with upstream(answer) as live:
        async with proxy("record", tmp_path / "cassettes", live.url, sign="aws") as recording:
            before = await ask(recording.url, post(CONVERSE, BODY, *SIGNED))
            break_it(program, said)
            after = await ask(recording.url, post(CONVERSE, BODY, *SIGNED))
    assert (before.status, after.status) == (200, 502)
    message = json.loads(after.body)["message"]
    assert message.startswith(f"the AWS credentials cannot be renewed ({kind}): log in again")
    assert not [item for item in (CANARY, TOKEN, SECRET) if item in message]
    assert len(live.requests) == 1
