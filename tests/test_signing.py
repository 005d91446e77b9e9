"""Requests for Bedrock go out with the signature of the operator, whoever signed them before."""

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
from bedrock_requests import BODY, CLIENTS_ID, CLIENTS_TOKEN, CONVERSE, SIGNED, fields, on_disk
from cli_process import run
from in_process_proxy import cassettes, proxy
from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.upstream.signing import AwsSigner
from raw_http import Raw, ask, post
from sigv4_upstream import ENVIRONMENT, KEY_ID, TOKEN, checking
from stub_upstream import Connection, Script, Upstream, upstream, whole
from waiting import until

ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0"
SAID: Final = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}
ANSWER: Final = whole(json.dumps(SAID).encode())


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's credentials, and nothing else that leads to any."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


async def asked(folder: Path, request: bytes, answer: Script = ANSWER) -> tuple[Upstream, Raw]:
    """The upstream and the answer of one request through a recording proxy that signs."""
    async with upstream(checking(answer)) as live:
        async with proxy("record", folder, live.url, sign="aws") as recording:
            return live, await ask(recording.url, request)


def frames(*events: tuple[str, object]) -> bytes:
    return b"".join(
        encode_frame(
            ((":event-type", kind), (":content-type", "application/json"),
             (":message-type", "event")),
            json.dumps(said).encode(),
        )
        for kind, said in events
    )  # fmt: skip


STREAM: Final = frames(
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "content-type"}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
)


def streaming(body: bytes) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type="application/vnd.amazon.eventstream")
        await connection.chunk(body[:30])
        await connection.chunk(body[30:])
        await connection.finish()

    return script


# --- signed anew --------------------------------------------------------------------------------


def client(url: str) -> Any:
    """A real client, with credentials of its own."""
    session = importlib.import_module("botocore.session").get_session()
    return session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=url,
        aws_access_key_id=CLIENTS_ID, aws_secret_access_key="secret-of-the-client-0123",
        aws_session_token=CLIENTS_TOKEN,
    )  # fmt: skip


@pytest.mark.parametrize("model", ["us.anthropic.claude-x-20260101-v1:0", ARN])
async def test_a_real_client_is_answered_by_an_upstream_that_checks_signatures(
    tmp_path: Path, model: str
) -> None:
    def converse(url: str) -> str:
        said = client(url).converse(
            modelId=model, messages=[{"role": "user", "content": [{"text": "hi"}]}]
        )
        return str(said["output"]["message"]["content"][0]["text"])

    async with upstream(checking(ANSWER)) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            assert await asyncio.to_thread(converse, recording.url) == "hello"
    assert CLIENTS_ID.encode() not in live.requests[0][0]
    assert b"CANARY" not in on_disk(tmp_path)
    async with proxy("replay", tmp_path, sign="aws") as replaying:
        assert await asyncio.to_thread(converse, replaying.url) == "hello"


async def test_a_stream_of_a_real_client_is_recorded_whole_and_replayed(tmp_path: Path) -> None:
    def converse(url: str) -> list[str]:
        said = client(url).converse_stream(
            modelId="m", messages=[{"role": "user", "content": [{"text": "hi"}]}]
        )
        return [kind for event in said["stream"] for kind in event]

    kinds = ["messageStart", "contentBlockDelta", "contentBlockStop", "messageStop"]
    async with upstream(checking(streaming(STREAM))) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            assert await asyncio.to_thread(converse, recording.url) == kinds
    [cassette] = cassettes(tmp_path)
    assert b"".join(read.data for read in cassette.reads) == STREAM
    assert b"canary" not in on_disk(tmp_path).lower()
    async with proxy("replay", tmp_path) as replaying:
        assert await asyncio.to_thread(converse, replaying.url) == kinds


@pytest.mark.parametrize(
    "target",
    [
        CONVERSE,
        f"/model/{ARN}/converse",
        f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/invoke",
        "/model/a%2fb%3a0/converse-stream",
        "/model/a%20b/converse",
        "/model/a~b*c'd(e)!@$&=+,;f/converse",
        "/model/%E6%97%A5/converse",
        "/gateway//model/m/../n/converse",
        "/~bedrock/openai/v1/chat/completions",
        f"{CONVERSE}?b=2&a=1&a=%2F&c",
        f"{CONVERSE}?X-Amz-Algorithm=AWS4-HMAC-SHA256&a=1&X-Amz-Signature=00",
        "/agents/A/agentAliases/B/sessions/C/text",
    ],
)
async def test_any_target_is_signed_as_it_is_sent(tmp_path: Path, target: str) -> None:
    _, raw = await asked(tmp_path, post(target, BODY, *SIGNED))
    assert (raw.status, raw.body) == (200, json.dumps(SAID).encode())


def test_what_is_percent_encoded_in_a_path_is_signed_encoded_once_more() -> None:
    auth = importlib.import_module("botocore.auth")
    request = sigv4_upstream.awsrequest.AWSRequest("POST", f"http://a{CONVERSE}", data=b"")
    request.context["timestamp"] = "20261122T010203Z"
    canonical = auth.SigV4Auth(None, "bedrock", "eu-west-1").canonical_request(request)
    assert canonical.split("\n")[1] == CONVERSE.replace("%3A", "%253A")


@pytest.mark.parametrize(
    "request_",
    [
        post("/async-invoke", b"", *SIGNED[:3], method="GET"),
        post(CONVERSE, BODY),
        post(CONVERSE, BODY, "Authorization: Bearer a-bearer-token"),
        post(CONVERSE, b"x" * 700_000, *SIGNED),
        post(CONVERSE, BODY, *SIGNED, "X-Amzn-Bedrock-Trace:  ENABLED  twice "),
        post(CONVERSE, BODY, *SIGNED, "x-amz-a: 1", "Connection: x-amz-a"),
        post(CONVERSE, BODY, *SIGNED, "User-Agent: a", "amz-sdk-request: attempt=1"),
    ],
    ids=["no body", "unsigned", "with a bearer token", "a large body", "Bedrock's headers",
         "a header of the connection", "headers that are not covered"],
)  # fmt: skip
async def test_any_request_is_signed(tmp_path: Path, request_: bytes) -> None:
    live, raw = await asked(tmp_path, request_)
    assert raw.status == 200, raw.body
    sent = [name.lower() for name, _ in fields(live.requests[0][0])]
    assert sorted(set(sent)) == sorted(sent)
    assert "x-amz-content-sha256" not in sent


async def test_requests_of_other_providers_are_not_signed(tmp_path: Path) -> None:
    async with upstream(whole(b"{}")) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            await ask(recording.url, post("/v1/chat/completions", b"{}", "Authorization: Bearer k"))
    sent = dict(fields(live.requests[0][0]))
    assert sent["Authorization"] == "Bearer k"
    assert "X-Amz-Date" not in sent


async def test_what_the_upstream_repeats_of_our_signature_is_nowhere_on_the_disk(
    tmp_path: Path,
) -> None:
    """AWS shows what it had signed instead, our session token in it."""

    async def repeating(connection: Connection) -> None:
        said = json.dumps({"message": connection.head.decode("latin-1")}).encode()
        await whole(said, status="403 Forbidden")(connection)

    live, raw = await asked(tmp_path, post(CONVERSE, BODY, *SIGNED), repeating)
    signature = dict(fields(live.requests[0][0]))["Authorization"].rpartition("=")[2]
    assert TOKEN in json.loads(raw.body)["message"]  # the client has it as it came
    stored = on_disk(tmp_path)
    for secret in (TOKEN, KEY_ID, signature):
        assert secret.encode() not in stored
    [cassette] = cassettes(tmp_path)
    assert b"[redacted]" in cassette.reads[0].data
    assert b"content-type" in cassette.reads[0].data.lower()


async def test_what_a_prompt_holds_of_the_operators_credentials_is_nowhere_on_the_disk(
    tmp_path: Path,
) -> None:
    prompt = f"AWS_SESSION_TOKEN={TOKEN} AWS_ACCESS_KEY_ID={KEY_ID}"
    body = json.dumps({"messages": [{"role": "user", "content": [{"text": prompt}]}]}).encode()
    target = f"/model/x.{KEY_ID}/converse?a={KEY_ID}"
    live, raw = await asked(tmp_path, post(target, body, *SIGNED, f"Accept: {KEY_ID}"))
    assert raw.status == 200
    assert live.requests[0][1] == body  # the upstream has it as it came
    assert not [item for item in (TOKEN, KEY_ID) if item.encode() in on_disk(tmp_path)]
    [cassette] = cassettes(tmp_path)
    said = "AWS_SESSION_TOKEN=[redacted-operator] AWS_ACCESS_KEY_ID=[redacted-operator]"
    assert json.loads(cassette.request.body)["messages"][0]["content"][0]["text"] == said
    assert cassette.request.redacted == 5
    assert cassette.meta.model == "x.[redacted-operator]"


async def test_a_prompt_with_the_operators_credentials_is_replayed_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = post(CONVERSE, b'{"messages":[],"system":[{"text":"%b"}]}' % TOKEN.encode(), *SIGNED)
    await asked(tmp_path, request)
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    async with proxy("replay", tmp_path) as replaying:
        assert json.loads((await ask(replaying.url, request)).body) == SAID


async def test_what_the_upstream_repeats_of_the_clients_is_nowhere_on_the_disk_either(
    tmp_path: Path,
) -> None:
    """Of its signature too, which we do not pass on: it stood in the prompt."""

    async def repeating(connection: Connection) -> None:
        said = (connection.head + connection.body).decode("latin-1")
        await whole(json.dumps({"message": said}).encode())(connection)

    secrets = ("cookie-canary-0123", "query-canary-0123", CLIENTS_TOKEN)
    cookie, key, token = secrets
    body = b'{"messages":[],"system":[{"text":"%b"}]}' % token.encode()
    target = f"{CONVERSE}?key={key}"
    _, raw = await asked(tmp_path, post(target, body, *SIGNED, f"Cookie: a={cookie}"), repeating)
    assert not [secret for secret in secrets if secret not in json.loads(raw.body)["message"]]
    assert not [secret for secret in secrets if secret.encode() in on_disk(tmp_path)]


COVERED: Final = (
    "Content-Type: application/json", "x-amz-meta: 1", "X-Amzn-Bedrock-Trace: ENABLED",
    "x-amzn-bedrock-guardrailidentifier: g",
)  # fmt: skip


async def test_the_headers_that_aws_reads_are_signed_and_no_others(tmp_path: Path) -> None:
    live, _ = await asked(tmp_path, post(CONVERSE, BODY, *COVERED, "User-Agent: a", "x-amzn-a: 1"))
    signature = dict(fields(live.requests[0][0]))["Authorization"]
    names = signature.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert names == [
        "content-type", "host", "x-amz-date", "x-amz-meta", "x-amz-security-token",
        "x-amzn-bedrock-guardrailidentifier", "x-amzn-bedrock-trace",
    ]  # fmt: skip


async def test_requests_keep_their_order_while_one_is_being_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    sign = AwsSigner._sign

    def slowly(self: AwsSigner, request: Request, url: str) -> Request:
        go_on.wait(10)
        return sign(self, request, url)

    async def named(connection: Connection) -> None:
        name = dict(fields(connection.head))["User-Agent"]
        await whole(json.dumps({"name": name}).encode())(connection)

    monkeypatch.setattr(AwsSigner, "_sign", slowly)
    async with upstream(checking(named)) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            asking = []
            for number in range(1, 5):
                request = post(CONVERSE, BODY, *SIGNED, f"User-Agent: {number}")
                asking.append(asyncio.ensure_future(ask(recording.url, request)))
                await until(lambda n=number: recording.server.active_count == n)  # type: ignore[misc] # it is bound at once
            go_on.set()
            await asyncio.gather(*asking)
    said = [json.loads(b"".join(read.data for read in take.reads)) for take in cassettes(tmp_path)]
    assert said == [{"name": str(number)} for number in range(1, 5)]


async def test_a_signed_request_is_replayed_without_any_credentials(tmp_path: Path) -> None:
    await asked(tmp_path, post(CONVERSE, BODY, *SIGNED))
    async with proxy("auto", tmp_path, on_miss="fail") as running:
        raw = await ask(running.url, post(CONVERSE, BODY, *SIGNED))
    assert json.loads(raw.body) == SAID


# --- where to, and with what --------------------------------------------------------------------


@pytest.mark.parametrize(
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


async def test_without_an_upstream_the_one_of_the_region_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[str, str]] = []
    async with upstream(checking(ANSWER)) as live:

        def here(path: str, region: str) -> str:
            asked_for.append((path, region))
            return live.url

        monkeypatch.setattr(providers, "bedrock_url", here)
        async with proxy("record", tmp_path, sign="aws") as recording:
            raw = await ask(recording.url, post(CONVERSE, BODY, *SIGNED))
    assert raw.status == 200
    assert set(asked_for) == {(CONVERSE, "eu-west-1")}


def no_botocore(patch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "botocore"]:
        patch.setitem(sys.modules, name, None)


LACKS: Final[dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]]] = {
    "botocore": (no_botocore, "--sign aws needs botocore: pip install 'llm-proxy-replay[aws]'"),
    "credentials": (
        lambda patch: patch.delenv("AWS_ACCESS_KEY_ID"),
        "--sign aws: there are no AWS credentials: set AWS_ACCESS_KEY_ID",
    ),
    "a region": (
        lambda patch: patch.delenv("AWS_REGION"),
        "--sign aws: the region is not known: set AWS_REGION",
    ),
    "the profile": (
        lambda patch: patch.setenv("AWS_PROFILE", "nobody"),
        "--sign aws: the AWS credentials cannot be had (ProfileNotFound): look at AWS_PROFILE",
    ),
    "the secret": (
        lambda patch: patch.delenv("AWS_SECRET_ACCESS_KEY"),
        "--sign aws: the AWS credentials cannot be had (PartialCredentialsError)",
    ),
}


@pytest.mark.parametrize("lack", LACKS)
async def test_what_is_missing_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    take_away, said = LACKS[lack]
    take_away(monkeypatch)
    with pytest.raises(UsageError) as caught:
        async with proxy("record", tmp_path, sign="aws"):
            pass
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(("mode", "on_miss"), [("replay", "record"), ("auto", "fail")])
async def test_where_nothing_goes_live_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ModeName, on_miss: str
) -> None:
    no_botocore(monkeypatch)
    async with proxy(mode, tmp_path, sign="aws", on_miss=on_miss) as running:
        raw = await ask(running.url, post(CONVERSE, BODY, *SIGNED))
    assert raw.status == 424


async def test_at_the_command_line_it_is_an_option_and_a_variable(tmp_path: Path) -> None:
    bare = {k: v for k, v in ENVIRONMENT.items() if k not in {"AWS_ACCESS_KEY_ID", "AWS_REGION"}}
    by_option = await run("record", "--sign", "aws", "--port", "0", folder=tmp_path, env=bare)
    by_name = await run(
        "auto", "--port", "0", folder=tmp_path, env={**bare, "LLM_PROXY_SIGN": "aws"}
    )
    assert (by_option.code, by_name.code) == (2, 2)
    assert "--sign aws: the region is not known" in by_option.complaint
    assert by_name.complaint == by_option.complaint


def test_botocore_is_not_imported_until_it_is_asked_for() -> None:
    program = "import sys, llm_proxy.shell.running.proxy; sys.exit('botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
