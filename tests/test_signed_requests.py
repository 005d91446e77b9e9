"""Requests for Bedrock that are signed, and are not signed anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from bedrock_requests import BODY, CONVERSE, SIGNED, fields, on_disk
from in_process_proxy import cassettes, proxy
from llm_proxy.shell.running.sources import ModeName
from raw_http import ask, post
from stub_upstream import upstream, whole

ANSWER: Final = whole(b"{}")


@pytest.mark.parametrize(
    "request_",
    [
        post(CONVERSE, BODY, *SIGNED),
        post(CONVERSE, BODY, "authorization: AWS4-ECDSA-P256-SHA256 Credential=a"),
        post(f"{CONVERSE}?X-Amz-Signature=0&X-Amz-Date=1", BODY),
        post(f"/~bedrock{CONVERSE}", BODY, *SIGNED),
    ],
    ids=["SigV4", "SigV4a", "in the query", "by the provider's name"],
)
@pytest.mark.parametrize("mode", ["record", "auto"])
async def test_a_signed_request_that_would_go_live_is_refused_in_words(
    tmp_path: Path, mode: ModeName, request_: bytes
) -> None:
    async with upstream(ANSWER) as live:
        async with proxy(mode, tmp_path, live.url) as running:
            raw = await ask(running.url, request_)
    assert raw.status == 501
    assert raw.header("x-llm-proxy-error") == "request_refused"
    assert raw.header("x-should-retry") == "false"
    said = json.loads(raw.body)
    assert said["__type"] == "request_refused"
    assert "--sign aws" in said["message"]
    assert "Bedrock API key" in said["message"]
    assert running.journal.counts.upstream_failed == 0
    assert (live.connections, cassettes(tmp_path)) == (0, [])


async def test_a_bedrock_api_key_is_passed_on(tmp_path: Path) -> None:
    async with upstream(ANSWER) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await ask(
                recording.url, post(CONVERSE, BODY, "Authorization: Bearer bedrock-api-key-canary")
            )
    assert raw.status == 200
    assert ("Authorization", "Bearer bedrock-api-key-canary") in fields(live.requests[0][0])
    assert b"canary" not in on_disk(tmp_path)
