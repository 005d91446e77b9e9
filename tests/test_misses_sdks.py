"""The message of an SDK's exception states what differs and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import anthropic
import ollama
import openai
import pytest

from in_process_proxy import proxy
from raw_http import build_http_request
from sdk_clients import anthropic_client, openai_client
from stored_cassettes import text_response, write_cassettes

HELLO = [{"role": "user", "content": "hello"}]
SYSTEM = "You help people to rent a car. Answer in one sentence, and recommend the {} car first."


def cassette_of_request(folder: Path, path: str, **body: object) -> str:
    """Create a cassette of this request and return its file."""
    request = build_http_request(path, json.dumps(body).encode(), "Content-Type: application/json")
    return str(write_cassettes(folder, request, text_response("x"))[0])


async def test_a_setting_that_differs_comes_with_its_rule(tmp_path: Path) -> None:
    file = cassette_of_request(
        tmp_path, "/v1/chat/completions", model="gpt-5", temperature=0.2, messages=HELLO
    )
    async with (
        proxy("replay", tmp_path) as replay_proxy,
        openai_client(replay_proxy.url, 2) as client,
    ):
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(
                model="gpt-5", temperature=0.7, messages=[{"role": "user", "content": "hello"}]
            )
    assert str(raised.value) == (
        "Error code: 424 - no cassette matches POST /v1/chat/completions (gpt-5); nearest: "
        f"{file}, which differs at $.temperature: request has 0.7, cassette has 0.2; record "
        "the request with llm-proxy record, or ignore the difference with --normalise "
        "'ignore=$.temperature'"
    )


async def test_a_long_prompt_shows_the_words_that_differ(tmp_path: Path) -> None:
    cassette_of_request(
        tmp_path, "/v1/messages", model="claude-sonnet-5", max_tokens=64,
        system=SYSTEM.format("red"), messages=HELLO,
    )  # fmt: skip
    async with (
        proxy("replay", tmp_path) as replay_proxy,
        anthropic_client(replay_proxy.url, 2) as client,
    ):
        with pytest.raises(anthropic.APIStatusError) as raised:
            await client.messages.create(
                model="claude-sonnet-5", max_tokens=64, system=SYSTEM.format("green"),
                messages=[{"role": "user", "content": "hello"}],
            )  # fmt: skip
    assert (
        "and recommend the [-red-] {+green+} car first. "
        "([-cassette-] {+request+}); record the request with llm-proxy record, or "
        "change the request"
    ) in str(raised.value)


async def test_another_prompt_is_to_be_recorded(tmp_path: Path) -> None:
    cassette_of_request(
        tmp_path, "/api/chat", model="qwen3", messages=HELLO, tools=[], stream=False
    )
    async with (
        proxy("replay", tmp_path) as replay_proxy,
        ollama.AsyncClient(host=replay_proxy.url) as client,
    ):
        with pytest.raises(ollama.ResponseError) as raised:
            await client.chat(model="qwen3", messages=[{"role": "user", "content": "good bye"}])
    assert str(raised.value).endswith(
        'which differs at $.messages[0].content: request has "good bye", cassette has "hello"; '
        "record the request with llm-proxy record, or change the request (status code: 424)"
    )
