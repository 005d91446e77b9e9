"""Recorded exchanges in the formats of other tools."""

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

from cli_process import run
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.exporting import FORMATS, ExportedExchange
from llm_proxy.shell.library.library import Library
from raw_http import post
from stored_cassettes import Answer, bodies, chat, event, key_of, put, says
from stub_upstream import upstream, whole

KEY = key_of(chat())[:16]
URL = "https://api.openai.com/v1/chat/completions"
BODY = chat().partition(b"\r\n\r\n")[2]
JSON = (("Content-Type", "application/json"), ("x-ratelimit-a", "1"), ("X-Ratelimit-A", "2"))
NDJSON = ResponseHead(200, "OK", (("Content-Type", "application/x-ndjson"),), "chunked")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Cassette:
    """A cassette to be varied."""
    folder = tmp_path_factory.mktemp("sample")
    [path] = put(folder, chat(), says("Hel", "lo", gap=20))
    return Library(folder).load_cassette(path)


def asking(it: Cassette, body: bytes) -> Cassette:
    return replace(it, request=replace(it.request, body=body))


def written(name: str, *exchanges: Cassette, url: str = URL) -> bytes:
    return FORMATS[name].write([ExportedExchange(exchange, url) for exchange in exchanges])


class TestHar:
    async def test_an_exchange_is_an_entry_with_its_times(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), says("Hel", "lo", gap=20))

        ran = await run("export", KEY, "--format", "har", folder=tmp_path)

        log = json.loads(ran.out)["log"]
        [entry] = log["entries"]
        ours = entry.pop("_llm_proxy")
        text = bodies([says("Hel", "lo")])[0].decode()
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
                "postData": {"mimeType": "application/json", "text": BODY.decode()},
                "headersSize": -1,
                "bodySize": len(BODY),
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
        assert [read["at"] for read in ours["reads"]] == [20.0, 40.0, 60.0]
        assert ours["key"] in path.read_text()

    async def test_a_library_is_one_file_with_what_is_partial_marked(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("One"), says("Two"))
        put(tmp_path, chat("broken"), Answer(((1.0, event("Hal")),), Ending.RST))

        ran = await run("export", "--all", "--format", "har", folder=tmp_path)

        entries = json.loads(ran.out)["log"]["entries"]
        assert [entry.get("comment") for entry in entries].count(None) == 2
        assert "partial: the upstream reset the connection" in [
            entry.get("comment") for entry in entries
        ]
        assert ran.err == "llm-proxy: 3 exchanges as har\n"

    def test_bytes_are_base64(self, sample: Cassette) -> None:
        log = json.loads(written("har", asking(sample, b"\xff\x00")))["log"]

        posted = log["entries"][0]["request"]["postData"]
        assert (posted["_encoding"], base64.b64decode(posted["text"])) == ("base64", b"\xff\x00")


class TestVcr:
    async def test_an_exchange_is_an_interaction(self, tmp_path: Path) -> None:
        head = ResponseHead(429, "Too Many Requests", JSON, "length", 2)
        put(tmp_path, chat(), Answer(((1.0, b"{}"),), head=head))

        ran = await run("export", KEY, "--format", "vcr", folder=tmp_path)

        assert yaml.safe_load(ran.out) == {
            "version": 1,
            "interactions": [
                {
                    "request": {
                        "method": "POST",
                        "uri": URL,
                        "headers": {"content-type": ["application/json"]},
                        "body": BODY.decode(),
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
    def test_any_body_is_read_as_it_was(self, sample: Cassette, body: bytes) -> None:
        document = yaml.safe_load(written("vcr", asking(sample, body)))

        read = document["interactions"][0]["request"]["body"]
        assert (read.encode() if isinstance(read, str) else read or b"") == body

    async def test_what_is_partial_would_seem_whole_and_is_left_out(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("One"))
        put(tmp_path, chat("broken"), Answer(((1.0, event("Hal")),), Ending.RST))

        everything = await run("export", "--all", "--format", "vcr", folder=tmp_path)
        broken = key_of(chat("broken"))[:16]
        alone = await run("export", broken, "--format", "vcr", folder=tmp_path)

        assert len(yaml.safe_load(everything.out)["interactions"]) == 1
        assert "left out: cassettes/openai-chat/m/" in everything.err
        assert (alone.code, alone.out) == (1, "")
        assert "is partial: the upstream reset the connection; as vcr it would" in alone.complaint


class TestSse:
    async def test_a_stream_is_written_as_it_came(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("Hel", "lo"))

        ran = await run("export", KEY, "--format", "sse", folder=tmp_path)

        assert ran.out.encode() == bodies([says("Hel", "lo")])[0]

    async def test_what_is_no_such_stream_is_refused_with_a_way_out(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), Answer(((1.0, b"{}\n"),), head=NDJSON))

        ran = await run("export", KEY, "--format", "sse", folder=tmp_path)

        file = path.relative_to(tmp_path)
        assert ran.code == 1
        assert f"is no stream of events but ndjson: llm-proxy show {file} --body" in ran.complaint


class TestCurl:
    async def test_it_is_a_command_that_takes_its_key_from_the_environment(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, chat(), says("Yes."))

        ran = await run("export", KEY, "--format", "curl", folder=tmp_path)

        assert ran.out == (
            f"curl -sS -N -g -X POST {URL} \\\n"
            "  -H 'content-type: application/json' \\\n"
            '  -H "authorization: Bearer $OPENAI_API_KEY" \\\n'
            f"  --data-raw '{BODY.decode()}'\n"
        )

    async def test_a_key_in_the_query_becomes_a_header(self, tmp_path: Path) -> None:
        request = post("/v1beta/models/m:generateContent?alt=sse&key=AIzaSyExample", b"{}")
        put(tmp_path, request, says("Yes."))

        ran = await run("export", "gemini", "--format", "curl", folder=tmp_path)

        assert "/v1beta/models/m:generateContent?alt=sse' " in ran.out
        assert '-H "x-goog-api-key: $GEMINI_API_KEY"' in ran.out

    async def test_it_can_go_through_a_proxy_in_its_session(self, tmp_path: Path) -> None:
        put(tmp_path, chat(path="/@one/~groq/v1/chat/completions"), says("Yes."))

        ran = await run(
            "export", "@one", "--format", "curl", "--through", "http://127.0.0.1:4777",
            folder=tmp_path,
        )  # fmt: skip

        assert " 'http://127.0.0.1:4777/@one/~groq/v1/chat/completions' " in ran.out

    async def test_an_address_that_nobody_knows_is_asked_for(self, tmp_path: Path) -> None:
        put(tmp_path, post("/model/m/converse", b"{}"), says("Yes."))

        ran = await run("export", "bedrock", "--format", "curl", folder=tmp_path)

        why = "give --upstream bedrock=URL, or --through URL"
        assert (ran.code, ran.complaint) == (
            2,
            f"llm-proxy: no address is known for bedrock: {why}",
        )

    @given(body=st.text(min_size=1).map(str.encode))
    def test_any_text_is_one_argument(self, sample: Cassette, body: bytes) -> None:
        command = written("curl", asking(sample, body)).decode()

        if command.startswith("curl"):
            assert shlex.split(command)[-1].encode() == body

    @pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
    @pytest.mark.parametrize(
        "body",
        [b'{"a": "it\'s $HOME `x` \\\\ \n!"}', b"\xff\x00\r\n", b"@file", b"x" * 200_000, b""],
        ids=["quotes", "bytes", "at sign", "large", "none"],
    )
    async def test_curl_asks_what_was_asked(self, sample: Cassette, body: bytes) -> None:
        async with upstream(whole(b"{}")) as it:
            url = f"{it.url}/v1/a%20b?c=[d]&e=it's"
            command = written("curl", asking(sample, body), url=url)
            shell = await asyncio.create_subprocess_exec(
                "sh", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                env={"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-of-test"},
            )  # fmt: skip
            out, _ = await shell.communicate(command)
            [(head, came)] = it.requests

        lines = head.decode().split("\r\n")
        assert (out, came) == (b"{}", body)
        assert lines[0] == "POST /v1/a%20b?c=[d]&e=it's HTTP/1.1"
        assert {"content-type: application/json", "authorization: Bearer sk-of-test"} <= set(lines)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("a",), "export takes one of --as DIALECT and --format FORMAT"),
        (("a", "--as", "anthropic", "--format", "har"), "export takes one of --as DIALECT and"),
        (("a", "--format", "har", "--whole"), "--whole goes with --as"),
        (("--all", "--as", "anthropic"), "--all goes with --format"),
        (("a", "b", "--as", "anthropic"), "--as is of one cassette: name one"),
        (("a", "b", "--format", "sse"), "--format sse is of one cassette: name one"),
        (("--format", "har"), "export needs to know which: name cassettes, or give --all"),
        (("--all", "--format", "har"), "cassettes holds no cassettes: record one with"),
    ],
)
async def test_what_does_not_go_together_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    ran = await run("export", *arguments, folder=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert why in ran.complaint


def test_a_har_of_many_keeps_their_order(sample: Cassette) -> None:
    others: list[Any] = json.loads(written("har", sample, asking(sample, b"{}")))["log"]["entries"]

    assert [other["request"]["bodySize"] for other in others] == [len(BODY), 2]
