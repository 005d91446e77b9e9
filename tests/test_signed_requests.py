"""Signed Bedrock requests without `--sign`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from bedrock_requests import (
    CONVERSE_BODY,
    CONVERSE_PATH,
    SIGNED_HEADERS,
    folder_bytes,
    parse_header_fields,
)
from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.shell.running.settings import ModeName
from raw_http import build_http_request, send_request
from stub_upstream import fixed_length, upstream

ANSWER: Final = fixed_length(b"{}")


@each_row(
    "request_",
    [
        build_http_request(CONVERSE_PATH, CONVERSE_BODY, *SIGNED_HEADERS),
        build_http_request(
            CONVERSE_PATH, CONVERSE_BODY, "authorization: AWS4-ECDSA-P256-SHA256 Credential=a"
        ),
        build_http_request(f"{CONVERSE_PATH}?X-Amz-Signature=0&X-Amz-Date=1", CONVERSE_BODY),
        build_http_request(f"/~bedrock{CONVERSE_PATH}", CONVERSE_BODY, *SIGNED_HEADERS),
    ],
    ids=["SigV4", "SigV4a", "in the query", "by the provider's name"],
)
@each_row("mode", ["record", "auto"])
async def test_a_signed_request_that_would_go_live_is_refused_with_advice(
    tmp_path: Path, mode: ModeName, request_: bytes
) -> None:
    async with upstream(ANSWER) as live:
        async with proxy(mode, tmp_path, live.url) as running:
            raw = await send_request(running.url, request_)
    assert raw.status == 501
    assert raw.header("x-llm-proxy-error") == "request_refused"
    assert raw.header("x-should-retry") == "false"
    error = json.loads(raw.body)
    assert error["__type"] == "request_refused"
    assert "--sign aws" in error["message"]
    assert "Bedrock API key" in error["message"]
    assert running.journal.counts.upstream_failed == 0
    assert (live.connections, load_cassettes(tmp_path)) == (0, [])


async def test_a_bedrock_api_key_is_passed_on(tmp_path: Path) -> None:
    async with upstream(ANSWER) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await send_request(
                recording.url,
                build_http_request(
                    CONVERSE_PATH, CONVERSE_BODY, "Authorization: Bearer bedrock-api-key-canary"
                ),
            )
    assert raw.status == 200
    assert ("Authorization", "Bearer bedrock-api-key-canary") in parse_header_fields(
        live.requests[0][0]
    )
    assert b"canary" not in folder_bytes(tmp_path)
