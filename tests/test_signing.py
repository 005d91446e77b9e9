"""With `--sign aws`, Bedrock requests are signed with the operator's credentials."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import sigv4_upstream
from bedrock_requests import (
    CLIENT_ACCESS_KEY_ID,
    CLIENT_SESSION_TOKEN,
    CONVERSE_BODY,
    CONVERSE_PATH,
    SIGNED_HEADERS,
    folder_bytes,
    parse_header_fields,
)
from case_tables import each_row
from cli_process import run_command
from in_process_proxy import load_cassettes, proxy
from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.shell.upstream.signing import AwsSigner
from raw_http import RawResponse, build_http_request, send_request
from sigv4_upstream import ENVIRONMENT, KEY_ID, TOKEN, require_signature
from stub_upstream import Connection, Script, Upstream, fixed_length, upstream
from waiting import wait_until

ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0"
CONVERSE_RESPONSE: Final = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}
ANSWER: Final = fixed_length(json.dumps(CONVERSE_RESPONSE).encode())


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the operator's credentials, and remove other variables that lead to credentials."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


async def send_signed(
    folder: Path, request: bytes, answer: Script = ANSWER
) -> tuple[Upstream, RawResponse]:
    """Send one request through a signing, recording proxy; return the upstream and the response."""
    async with upstream(require_signature(answer)) as live:
        async with proxy("record", folder, live.url, sign="aws") as recording:
            return live, await send_request(recording.url, request)


def event_frames(*events: tuple[str, object]) -> bytes:
    return b"".join(
        encode_frame(
            ((":event-type", event_type), (":content-type", "application/json"),
             (":message-type", "event")),
            json.dumps(payload).encode(),
        )
        for event_type, payload in events
    )  # fmt: skip


STREAM: Final = event_frames(
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "content-type"}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
)


def chunked_script(body: bytes) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type="application/vnd.amazon.eventstream")
        await connection.chunk(body[:30])
        await connection.chunk(body[30:])
        await connection.finish()

    return script


# --- signing ------------------------------------------------------------------------------------


def bedrock_client(url: str) -> Any:
    """A botocore client with its own credentials."""
    session = importlib.import_module("botocore.session").get_session()
    return session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=url,
        aws_access_key_id=CLIENT_ACCESS_KEY_ID, aws_secret_access_key="secret-of-the-client-0123",
        aws_session_token=CLIENT_SESSION_TOKEN,
    )  # fmt: skip


@pytest.mark.parametrize("model", ["us.anthropic.claude-x-20260101-v1:0", ARN])
async def test_a_real_client_is_answered_by_an_upstream_that_checks_signatures(
    tmp_path: Path, model: str
) -> None:
    def converse(url: str) -> str:
        response = bedrock_client(url).converse(
            modelId=model, messages=[{"role": "user", "content": [{"text": "hi"}]}]
        )
        return str(response["output"]["message"]["content"][0]["text"])

    async with upstream(require_signature(ANSWER)) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            assert await asyncio.to_thread(converse, recording.url) == "hello"
    assert CLIENT_ACCESS_KEY_ID.encode() not in live.requests[0][0]
    assert b"CANARY" not in folder_bytes(tmp_path)
    async with proxy("replay", tmp_path, sign="aws") as replaying:
        assert await asyncio.to_thread(converse, replaying.url) == "hello"


async def test_a_stream_of_a_real_client_is_recorded_whole_and_replayed(tmp_path: Path) -> None:
    def converse(url: str) -> list[str]:
        response = bedrock_client(url).converse_stream(
            modelId="m", messages=[{"role": "user", "content": [{"text": "hi"}]}]
        )
        return [kind for event in response["stream"] for kind in event]

    kinds = ["messageStart", "contentBlockDelta", "contentBlockStop", "messageStop"]
    async with upstream(require_signature(chunked_script(STREAM))) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            assert await asyncio.to_thread(converse, recording.url) == kinds
    [cassette] = load_cassettes(tmp_path)
    assert b"".join(read.received_bytes for read in cassette.reads) == STREAM
    assert b"canary" not in folder_bytes(tmp_path).lower()
    async with proxy("replay", tmp_path) as replaying:
        assert await asyncio.to_thread(converse, replaying.url) == kinds


@each_row(
    "target",
    [
        CONVERSE_PATH,
        f"/model/{ARN}/converse",
        f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/invoke",
        "/model/a%2fb%3a0/converse-stream",
        "/model/a%20b/converse",
        "/model/a~b*c'd(e)!@$&=+,;f/converse",
        "/model/%E6%97%A5/converse",
        "/gateway//model/m/../n/converse",
        "/~bedrock/openai/v1/chat/completions",
        f"{CONVERSE_PATH}?b=2&a=1&a=%2F&c",
        f"{CONVERSE_PATH}?X-Amz-Algorithm=AWS4-HMAC-SHA256&a=1&X-Amz-Signature=00",
        "/agents/A/agentAliases/B/sessions/C/text",
    ],
)
async def test_any_target_is_signed_as_it_is_sent(tmp_path: Path, target: str) -> None:
    _, raw = await send_signed(tmp_path, build_http_request(target, CONVERSE_BODY, *SIGNED_HEADERS))
    assert (raw.status, raw.body) == (200, json.dumps(CONVERSE_RESPONSE).encode())


def test_a_percent_encoded_path_is_encoded_again_for_signing() -> None:
    auth = importlib.import_module("botocore.auth")
    request = sigv4_upstream.awsrequest.AWSRequest("POST", f"http://a{CONVERSE_PATH}", data=b"")
    request.context["timestamp"] = "20261122T010203Z"
    canonical = auth.SigV4Auth(None, "bedrock", "eu-west-1").canonical_request(request)
    assert canonical.split("\n")[1] == CONVERSE_PATH.replace("%3A", "%253A")


@each_row(
    "request_",
    [
        build_http_request("/async-invoke", b"", *SIGNED_HEADERS[:3], method="GET"),
        build_http_request(CONVERSE_PATH, CONVERSE_BODY),
        build_http_request(CONVERSE_PATH, CONVERSE_BODY, "Authorization: Bearer a-bearer-token"),
        build_http_request(CONVERSE_PATH, b"x" * 700_000, *SIGNED_HEADERS),
        build_http_request(
            CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS, "X-Amzn-Bedrock-Trace:  ENABLED  twice "
        ),
        build_http_request(
            CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS, "x-amz-a: 1", "Connection: x-amz-a"
        ),
        build_http_request(
            CONVERSE_PATH,
            CONVERSE_BODY,
            *SIGNED_HEADERS,
            "User-Agent: a",
            "amz-sdk-request: attempt=1",
        ),
    ],
    ids=[
        "no body",
        "unsigned",
        "with a bearer token",
        "a large body",
        "Bedrock's headers",
        "a header of the connection",
        "headers that are not covered",
    ],
)
async def test_any_request_is_signed(tmp_path: Path, request_: bytes) -> None:
    live, raw = await send_signed(tmp_path, request_)
    assert raw.status == 200, raw.body
    sent = [name.lower() for name, _ in parse_header_fields(live.requests[0][0])]
    assert sorted(set(sent)) == sorted(sent)
    assert "x-amz-content-sha256" not in sent


async def test_requests_of_other_providers_are_not_signed(tmp_path: Path) -> None:
    async with upstream(fixed_length(b"{}")) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            await send_request(
                recording.url,
                build_http_request("/v1/chat/completions", b"{}", "Authorization: Bearer k"),
            )
    sent = dict(parse_header_fields(live.requests[0][0]))
    assert sent["Authorization"] == "Bearer k"
    assert "X-Amz-Date" not in sent


async def test_a_signature_that_the_upstream_echoes_is_nowhere_on_the_disk(
    tmp_path: Path,
) -> None:
    """AWS's error shows the canonical request, which includes the operator's session token."""

    async def echo_request(connection: Connection) -> None:
        response_body = json.dumps({"message": connection.head.decode("latin-1")}).encode()
        await fixed_length(response_body, status="403 Forbidden")(connection)

    live, raw = await send_signed(
        tmp_path, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS), echo_request
    )
    signature = dict(parse_header_fields(live.requests[0][0]))["Authorization"].rpartition("=")[2]
    assert TOKEN in json.loads(raw.body)["message"]  # the client gets it unchanged
    stored = folder_bytes(tmp_path)
    for secret in (TOKEN, KEY_ID, signature):
        assert secret.encode() not in stored
    [cassette] = load_cassettes(tmp_path)
    assert b"[redacted-operator]" in cassette.reads[0].received_bytes
    assert b"content-type" in cassette.reads[0].received_bytes.lower()


async def test_operator_credentials_in_a_prompt_are_nowhere_on_the_disk(
    tmp_path: Path,
) -> None:
    prompt = f"AWS_SESSION_TOKEN={TOKEN} AWS_ACCESS_KEY_ID={KEY_ID}"
    body = json.dumps({"messages": [{"role": "user", "content": [{"text": prompt}]}]}).encode()
    target = f"/model/x.{KEY_ID}/converse?a={KEY_ID}"
    live, raw = await send_signed(
        tmp_path, build_http_request(target, body, *SIGNED_HEADERS, f"Accept: {KEY_ID}")
    )
    assert raw.status == 200
    assert live.requests[0][1] == body  # the upstream gets it unchanged
    assert not [item for item in (TOKEN, KEY_ID) if item.encode() in folder_bytes(tmp_path)]
    [cassette] = load_cassettes(tmp_path)
    redacted_prompt = "AWS_SESSION_TOKEN=[redacted-operator] AWS_ACCESS_KEY_ID=[redacted-operator]"
    assert json.loads(cassette.request.body)["messages"][0]["content"][0]["text"] == redacted_prompt
    assert cassette.request.redacted_count == 5
    assert cassette.meta.model == "x.[redacted-operator]"


async def test_a_prompt_with_the_operators_credentials_is_replayed_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = build_http_request(
        CONVERSE_PATH, b'{"messages":[],"system":[{"text":"%b"}]}' % TOKEN.encode(), *SIGNED_HEADERS
    )
    await send_signed(tmp_path, request)
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    async with proxy("replay", tmp_path) as replaying:
        assert json.loads((await send_request(replaying.url, request)).body) == CONVERSE_RESPONSE


async def test_client_credentials_that_the_upstream_echoes_are_nowhere_on_the_disk(
    tmp_path: Path,
) -> None:
    """Including its session token: that of its signature is dropped, but the prompt holds it."""

    async def echo_request(connection: Connection) -> None:
        response_body = (connection.head + connection.body).decode("latin-1")
        await fixed_length(json.dumps({"message": response_body}).encode())(connection)

    secrets = ("cookie-canary-0123", "query-canary-0123", CLIENT_SESSION_TOKEN)
    cookie, key, token = secrets
    body = b'{"messages":[],"system":[{"text":"%b"}]}' % token.encode()
    target = f"{CONVERSE_PATH}?key={key}"
    _, raw = await send_signed(
        tmp_path,
        build_http_request(target, body, *SIGNED_HEADERS, f"Cookie: a={cookie}"),
        echo_request,
    )
    assert not [secret for secret in secrets if secret not in json.loads(raw.body)["message"]]
    assert not [secret for secret in secrets if secret.encode() in folder_bytes(tmp_path)]


COVERED: Final = (
    "Content-Type: application/json", "x-amz-meta: 1", "X-Amzn-Bedrock-Trace: ENABLED",
    "x-amzn-bedrock-guardrailidentifier: g",
)  # fmt: skip


async def test_the_headers_that_aws_reads_are_signed_and_no_others(tmp_path: Path) -> None:
    live, _ = await send_signed(
        tmp_path,
        build_http_request(CONVERSE_PATH, CONVERSE_BODY, *COVERED, "User-Agent: a", "x-amzn-a: 1"),
    )
    signature = dict(parse_header_fields(live.requests[0][0]))["Authorization"]
    names = signature.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert names == [
        "content-type", "host", "x-amz-date", "x-amz-meta", "x-amz-security-token",
        "x-amzn-bedrock-guardrailidentifier", "x-amzn-bedrock-trace",
    ]  # fmt: skip


async def test_requests_keep_their_order_while_one_is_being_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = threading.Event()
    original_sign = AwsSigner._sign

    def sign_slowly(self: AwsSigner, request: Request, url: str) -> Request:
        resume.wait(10)
        return original_sign(self, request, url)

    async def echo_user_agent(connection: Connection) -> None:
        name = dict(parse_header_fields(connection.head))["User-Agent"]
        await fixed_length(json.dumps({"name": name}).encode())(connection)

    monkeypatch.setattr(AwsSigner, "_sign", sign_slowly)
    async with upstream(require_signature(echo_user_agent)) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            pending_responses = []
            for number in range(1, 5):
                request = build_http_request(
                    CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS, f"User-Agent: {number}"
                )
                pending_responses.append(
                    asyncio.ensure_future(send_request(recording.url, request))
                )
                await wait_until(lambda n=number: recording.server.active_request_count == n)  # type: ignore[misc] # n is bound at once
            resume.set()
            await asyncio.gather(*pending_responses)
    responses = [
        json.loads(b"".join(read.received_bytes for read in take.reads))
        for take in load_cassettes(tmp_path)
    ]
    assert responses == [{"name": str(number)} for number in range(1, 5)]


async def test_a_signed_request_is_replayed_without_any_credentials(tmp_path: Path) -> None:
    await send_signed(tmp_path, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS))
    async with proxy("auto", tmp_path, on_miss="fail") as running:
        raw = await send_request(
            running.url, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS)
        )
    assert json.loads(raw.body) == CONVERSE_RESPONSE


# --- region, endpoint and settings --------------------------------------------------------------


@each_row(
    ("upstream_", "region"),
    [
        (None, "eu-west-1"),
        ("http://127.0.0.1:4000", "eu-west-1"),
        ("https://bedrock-runtime.us-west-2.amazonaws.com", "us-west-2"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x", "us-gov-west-1"),
        ("https://bedrock-agent-runtime.ap-south-1.amazonaws.com", "ap-south-1"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://bedrock-runtime.us-east-2.api.aws:443", "us-east-2"),
        ("https://vpce-0-1.bedrock-runtime.us-east-1.vpce.amazonaws.com", "us-east-1"),
        ("https://bedrock-runtime.us-west-2.amazonaws.com.example", "eu-west-1"),
    ],
)
def test_the_region_is_that_of_the_host_or_else_the_operators(
    upstream_: str | None, region: str
) -> None:
    assert AwsSigner(upstream_).region == region


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_is_found_in_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv(name, "sa-east-1")
    assert AwsSigner(None).region == "sa-east-1"


async def test_without_an_upstream_the_regional_endpoint_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url_lookups: list[tuple[str, str]] = []
    async with upstream(require_signature(ANSWER)) as live:

        def live_url(path: str, region: str) -> str:
            url_lookups.append((path, region))
            return live.url

        monkeypatch.setattr(providers, "signed_url", live_url)
        async with proxy("record", tmp_path, sign="aws") as recording:
            raw = await send_request(
                recording.url, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS)
            )
    assert raw.status == 200
    assert set(url_lookups) == {(CONVERSE_PATH, "eu-west-1")}


def hide_botocore(patch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "botocore"]:
        patch.setitem(sys.modules, name, None)


MISSING_SETTINGS: Final[dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]]] = {
    "botocore": (
        hide_botocore,
        "signing for AWS requires botocore; run pip install 'llm-proxy-replay[aws]'",
    ),
    "credentials": (
        lambda patch: patch.delenv("AWS_ACCESS_KEY_ID"),
        "no AWS credentials; set AWS_ACCESS_KEY_ID",
    ),
    "a region": (
        lambda patch: patch.delenv("AWS_REGION"),
        "no AWS region; set AWS_REGION",
    ),
    "the profile": (
        lambda patch: patch.setenv("AWS_PROFILE", "nobody"),
        "cannot load the AWS credentials (ProfileNotFound); check AWS_PROFILE",
    ),
    "the secret": (
        lambda patch: patch.delenv("AWS_SECRET_ACCESS_KEY"),
        "cannot load the AWS credentials (PartialCredentialsError)",
    ),
}


@pytest.mark.parametrize("missing_setting", MISSING_SETTINGS)
async def test_a_missing_setting_is_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing_setting: str
) -> None:
    remove_setting, expected_error = MISSING_SETTINGS[missing_setting]
    remove_setting(monkeypatch)
    with pytest.raises(UsageError) as caught:
        async with proxy("record", tmp_path, sign="aws"):
            pass
    assert str(caught.value).startswith(expected_error)


@pytest.mark.parametrize(("mode", "on_miss"), [("replay", "record"), ("auto", "fail")])
async def test_nothing_is_required_where_no_request_goes_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ModeName, on_miss: str
) -> None:
    hide_botocore(monkeypatch)
    async with proxy(mode, tmp_path, sign="aws", on_miss=on_miss) as running:
        raw = await send_request(
            running.url, build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS)
        )
    assert raw.status == 424


async def test_signing_is_an_option_and_a_variable(tmp_path: Path) -> None:
    incomplete_env = {
        k: v for k, v in ENVIRONMENT.items() if k not in {"AWS_ACCESS_KEY_ID", "AWS_REGION"}
    }
    by_option = await run_command(
        "record", "--sign", "aws", "--port", "0", folder=tmp_path, env=incomplete_env
    )
    by_variable = await run_command(
        "auto", "--port", "0", folder=tmp_path, env={**incomplete_env, "LLM_PROXY_SIGN": "aws"}
    )
    assert (by_option.exit_code, by_variable.exit_code) == (2, 2)
    assert "no AWS region" in by_option.last_error_line
    assert by_variable.last_error_line == by_option.last_error_line


def test_botocore_is_not_imported_until_it_is_asked_for() -> None:
    program = "import sys, llm_proxy.shell.running.proxy; sys.exit('botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
