"""Export of recorded exchanges in the formats of other tools."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli_process import run_command
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.exporting import FORMATS
from llm_proxy.exporting.format import ExportedExchange
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request
from stored_cassettes import (
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import fixed_length, upstream

KEY = key_of_request(raw_chat_request())[:16]
URL = "https://api.openai.com/v1/chat/completions"
REQUEST_BODY = raw_chat_request().partition(b"\r\n\r\n")[2]
JSON_HEADERS = (
    ("Content-Type", "application/json"),
    ("x-ratelimit-a", "1"),
    ("X-Ratelimit-A", "2"),
)
NDJSON_HEAD = ResponseHead(200, "OK", (("Content-Type", "application/x-ndjson"),), "chunked")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Cassette:
    """A cassette that tests vary."""
    folder = tmp_path_factory.mktemp("sample")
    [path] = write_cassettes(folder, raw_chat_request(), text_response("Hel", "lo", gap=20))
    return Library(folder).load_cassette(path)


def with_request_body(cassette: Cassette, body: bytes) -> Cassette:
    return replace(cassette, request=replace(cassette.request, body=body))


def export(name: str, *exchanges: Cassette, url: str = URL) -> bytes:
    return FORMATS[name].serialize([ExportedExchange(exchange, url) for exchange in exchanges])


class TestHar:
    async def test_an_exchange_is_an_entry_with_its_times(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("Hel", "lo", gap=20))

        result = await run_command("export", KEY, "--format", "har", folder=tmp_path)

        log = json.loads(result.stdout)["log"]
        [entry] = log["entries"]
        extension = entry.pop("_llm_proxy")
        text = response_bodies([text_response("Hel", "lo")])[0].decode()
        assert (log["version"], log["creator"]["name"]) == ("1.2", "llm-proxy")
        assert entry == {
            "startedDateTime": "2026-01-01T00:00:00.000Z",
            "time": 60.0,
            "request": {
                "method": "POST",
                "url": URL,
                "httpVersion": "HTTP/1.1",
                "cookies": [],
                "headers": [{"name": "content-type", "value": "application/json"}],
                "queryString": [],
                "postData": {"mimeType": "application/json", "text": REQUEST_BODY.decode()},
                "headersSize": -1,
                "bodySize": len(REQUEST_BODY),
            },
            "response": {
                "status": 200,
                "statusText": "OK",
                "httpVersion": "HTTP/1.1",
                "cookies": [],
                "headers": [{"name": "Content-Type", "value": "text/event-stream"}],
                "content": {
                    "size": len(text),
                    "mimeType": "text/event-stream",
                    "text": text,
                },
                "redirectURL": "",
                "headersSize": -1,
                "bodySize": len(text),
            },
            "cache": {},
            "timings": {"send": 0, "wait": 0.0, "receive": 60.0},
        }
        assert [read["at"] for read in extension["reads"]] == [20.0, 40.0, 60.0]
        assert extension["key"] in path.read_text()

    async def test_a_library_is_one_file_with_partial_exchanges_marked(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("One"), text_response("Two"))
        write_cassettes(
            tmp_path,
            raw_chat_request("broken"),
            StoredResponse(((1.0, chat_event("Hal")),), Ending.RST),
        )

        result = await run_command("export", "--all", "--format", "har", folder=tmp_path)

        entries = json.loads(result.stdout)["log"]["entries"]
        assert [entry.get("comment") for entry in entries].count(None) == 2
        assert "partial: the upstream reset the connection" in [
            entry.get("comment") for entry in entries
        ]
        assert result.stderr == "llm-proxy: 3 exchanges exported as har\n"

    def test_bytes_are_base64(self, sample: Cassette) -> None:
        log = json.loads(export("har", with_request_body(sample, b"\xff\x00")))["log"]

        post_data = log["entries"][0]["request"]["postData"]
        assert (post_data["_encoding"], base64.b64decode(post_data["text"])) == (
            "base64",
            b"\xff\x00",
        )


class TestVcr:
    async def test_an_exchange_is_an_interaction(self, tmp_path: Path) -> None:
        head = ResponseHead(429, "Too Many Requests", JSON_HEADERS, "length", 2)
        write_cassettes(tmp_path, raw_chat_request(), StoredResponse(((1.0, b"{}"),), head=head))

        result = await run_command("export", KEY, "--format", "vcr", folder=tmp_path)

        assert yaml.safe_load(result.stdout) == {
            "version": 1,
            "interactions": [
                {
                    "request": {
                        "method": "POST",
                        "uri": URL,
                        "headers": {"content-type": ["application/json"]},
                        "body": REQUEST_BODY.decode(),
                    },
                    "response": {
                        "status": {"code": 429, "message": "Too Many Requests"},
                        "headers": {
                            "Content-Type": ["application/json"],
                            "x-ratelimit-a": ["1", "2"],
                        },
                        "body": {"string": "{}"},
                    },
                }
            ],
        }

    @given(
        body=st.binary(max_size=40)
        | st.text("\r\n\0\ufeff\u2028\x85a: '\"é\U0001f600-").map(str.encode)
    )
    def test_any_body_survives_export(self, sample: Cassette, body: bytes) -> None:
        document = yaml.safe_load(export("vcr", with_request_body(sample, body)))

        exported_body = document["interactions"][0]["request"]["body"]
        assert (
            exported_body.encode() if isinstance(exported_body, str) else exported_body or b""
        ) == body

    async def test_partial_exchanges_are_left_out(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("One"))
        write_cassettes(
            tmp_path,
            raw_chat_request("broken"),
            StoredResponse(((1.0, chat_event("Hal")),), Ending.RST),
        )

        everything = await run_command("export", "--all", "--format", "vcr", folder=tmp_path)
        partial_key = key_of_request(raw_chat_request("broken"))[:16]
        partial_only = await run_command("export", partial_key, "--format", "vcr", folder=tmp_path)

        assert len(yaml.safe_load(everything.stdout)["interactions"]) == 1
        assert "skipped cassettes/openai-chat/m/" in everything.stderr
        assert (partial_only.exit_code, partial_only.stdout) == (1, "")
        assert (
            ": partial: the upstream reset the connection; --format vcr exports only"
            in partial_only.last_error_line
        )


class TestSse:
    async def test_a_stream_is_written_as_it_came(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("Hel", "lo"))

        result = await run_command("export", KEY, "--format", "sse", folder=tmp_path)

        assert result.stdout.encode() == response_bodies([text_response("Hel", "lo")])[0]

    async def test_another_stream_is_refused_with_a_hint(self, tmp_path: Path) -> None:
        [path] = write_cassettes(
            tmp_path, raw_chat_request(), StoredResponse(((1.0, b"{}\n"),), head=NDJSON_HEAD)
        )

        result = await run_command("export", KEY, "--format", "sse", folder=tmp_path)

        file = path.relative_to(tmp_path)
        assert result.exit_code == 1
        assert (
            f"is not an SSE stream; print the response body with llm-proxy show {file} --body"
            in result.last_error_line
        )


class TestCurl:
    async def test_it_is_a_command_that_takes_its_key_from_the_environment(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("Yes."))

        result = await run_command("export", KEY, "--format", "curl", folder=tmp_path)

        assert result.stdout == (
            f"curl -sS -N -g -X POST {URL} \\\n"
            "  -H 'content-type: application/json' \\\n"
            '  -H "authorization: Bearer $OPENAI_API_KEY" \\\n'
            f"  --data-raw '{REQUEST_BODY.decode()}'\n"
        )

    async def test_a_key_in_the_query_becomes_a_header(self, tmp_path: Path) -> None:
        request = build_http_request(
            "/v1beta/models/m:generateContent?alt=sse&key=AIzaSyExample", b"{}"
        )
        write_cassettes(tmp_path, request, text_response("Yes."))

        result = await run_command("export", "gemini", "--format", "curl", folder=tmp_path)

        assert "/v1beta/models/m:generateContent?alt=sse' " in result.stdout
        assert '-H "x-goog-api-key: $GEMINI_API_KEY"' in result.stdout

    async def test_it_can_go_through_a_proxy_in_its_session(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request(path="/@one/~groq/v1/chat/completions"),
            text_response("Yes."),
        )

        result = await run_command(
            "export", "@one", "--format", "curl", "--through", "http://127.0.0.1:4777",
            folder=tmp_path,
        )  # fmt: skip

        assert " 'http://127.0.0.1:4777/@one/~groq/v1/chat/completions' " in result.stdout

    async def test_an_unknown_address_is_refused_with_a_hint(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path, build_http_request("/model/m/converse", b"{}"), text_response("Yes.")
        )

        result = await run_command("export", "bedrock", "--format", "curl", folder=tmp_path)

        hint = "set --upstream bedrock=URL or --through URL"
        assert (result.exit_code, result.last_error_line) == (
            2,
            f"llm-proxy: error: the base URL of bedrock is unknown; {hint}",
        )

    @given(body=st.text(min_size=1).map(str.encode))
    def test_any_text_is_one_argument(self, sample: Cassette, body: bytes) -> None:
        command = export("curl", with_request_body(sample, body)).decode()

        if command.startswith("curl"):
            assert shlex.split(command)[-1].encode() == body

    @pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
    @pytest.mark.parametrize(
        "body",
        [b'{"a": "it\'s $HOME `x` \\\\ \n!"}', b"\xff\x00\r\n", b"@file", b"x" * 200_000, b""],
        ids=["quotes", "bytes", "at sign", "large", "none"],
    )
    async def test_curl_sends_the_recorded_request(self, sample: Cassette, body: bytes) -> None:
        async with upstream(fixed_length(b"{}")) as server:
            url = f"{server.url}/v1/a%20b?c=[d]&e=it's"
            command = export("curl", with_request_body(sample, body), url=url)
            shell = await asyncio.create_subprocess_exec(
                "sh", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                env={"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-of-test"},
            )  # fmt: skip
            out, _ = await shell.communicate(command)
            [(head, received_body)] = server.requests

        lines = head.decode().split("\r\n")
        assert (out, received_body) == (b"{}", body)
        assert lines[0] == "POST /v1/a%20b?c=[d]&e=it's HTTP/1.1"
        assert {"content-type: application/json", "authorization: Bearer sk-of-test"} <= set(lines)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a",), "set either --as DIALECT or --format FORMAT"),
        (("a", "--as", "anthropic", "--format", "har"), "set either --as DIALECT or --format"),
        (("a", "--format", "har", "--whole"), "--whole requires --as"),
        (("--all", "--as", "anthropic"), "--all requires --format"),
        (
            ("a", "b", "--as", "anthropic"),
            "--as converts one cassette at a time; specify exactly one cassette",
        ),
        (
            ("a", "b", "--format", "sse"),
            "--format sse exports one cassette at a time; specify exactly one cassette",
        ),
        (("--format", "har"), "name the cassettes to export, or set --all"),
        (("--all", "--format", "har"), "no cassettes in ./cassettes; record one with"),
    ],
)
async def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], error: str
) -> None:
    result = await run_command("export", *arguments, folder=tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.last_error_line


def test_a_har_of_many_keeps_their_order(sample: Cassette) -> None:
    entries: list[Any] = json.loads(export("har", sample, with_request_body(sample, b"{}")))["log"][
        "entries"
    ]

    assert [entry["request"]["bodySize"] for entry in entries] == [len(REQUEST_BODY), 2]
