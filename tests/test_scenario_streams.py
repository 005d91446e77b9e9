"""Streaming of scripted answers, and its reproducibility."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from scenario_server import (
    DIALECTS,
    DecodedResponse,
    in_every_dialect,
    part_tuples,
    serve_scenarios,
    single_turn_scenario,
)

# Streams


@pytest.mark.shows("000-91", "000-92", "000-93", "000-94", "000-95")
async def test_a_stream_starts_sends_each_part_whole_and_finishes(tmp_path: Path) -> None:
    calls = [{"toolName": "a", "arguments": {"b": 1}}]
    document = single_turn_scenario(
        "tool-call", assistantText="Some words.", toolCalls=calls, reasoningContent="Let me see."
    )
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send("anthropic")

    events = [event for event in response.events if event["type"] != "ping"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    content_deltas = [
        delta
        for delta in deltas
        if delta["type"] != "signature_delta" and delta.get("partial_json") != ""
    ]
    silent = [delta for delta in deltas if delta not in content_deltas]
    part_event_types = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in events if event.get("delta") not in silent] == [
        "message_start", *part_event_types * 3, "message_delta", "message_stop",
    ]  # fmt: skip
    assert content_deltas == [
        {"type": "thinking_delta", "thinking": "Let me see."},
        {"type": "text_delta", "text": "Some words."},
        {"type": "input_json_delta", "partial_json": '{"b":1}'},
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.shows("000-91", "000-94", "000-95")
async def test_a_stream_of_chat_is_a_role_one_chunk_a_part_a_finish_and_the_usage(
    tmp_path: Path,
) -> None:
    document = single_turn_scenario(
        "text", assistantText="Some words.", reasoningContent="Let me see."
    )
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send()

    *chunks, finish, usage, done = response.events
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Let me see."},
        {"content": "Some words."},
    ]
    assert (finish["choices"][0]["delta"], finish["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == ([], 96, "[DONE]")


@pytest.mark.shows("000-92", "000-95")
@in_every_dialect
async def test_joined_deltas_are_the_text_however_it_is_cut(tmp_path: Path, dialect: str) -> None:
    text = "Several words,  with 🌊 and\nlines."
    document = single_turn_scenario("text", assistantText=text) | {"chunks": {"by": "characters"}}
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send(dialect)

    assert response.turn.text == text
    assert server.last_simulated.chunks >= len(text)


# Reproducibility


DOCUMENT: Final = single_turn_scenario(
    "tool-call",
    assistantText="Some words.",
    toolCalls=[{"toolName": item, "arguments": {"b": 1}} for item in "ab"],
    reasoningContent="Let me see.",
)


async def _responses(folder: Path, seed: int, clock: str = "fixed") -> list[DecodedResponse]:
    async with serve_scenarios(folder, DOCUMENT, seed=seed, clock=clock) as server:
        return [
            await server.send(dialect, stream=stream)
            for dialect in DIALECTS
            for stream in (True, False)
        ]


@pytest.mark.shows("000-80", "001-01")
async def test_the_same_scenario_gives_the_same_bytes_and_another_seed_other_ids(
    tmp_path: Path,
) -> None:
    first, second, other = [await _responses(tmp_path, seed) for seed in (7, 7, 8)]

    assert [item.raw_response.body for item in first] == [item.raw_response.body for item in second]
    assert [part_tuples(item) for item in first] == [part_tuples(item) for item in other]
    ids = [(one.turn.id, two.turn.id) for one, two in zip(first, other, strict=True)]
    assert all(one != two for one, two in ids if one)
    assert {one for one, _ in ids} & {two for _, two in ids} == {""}  # Ollama responses have no ids


@pytest.mark.shows("000-80")
async def test_the_clock_is_fixed_unless_the_operator_asks_for_the_real_one(
    tmp_path: Path,
) -> None:
    fixed, real = [await _responses(tmp_path, 0, clock) for clock in ("fixed", "real")]
    new_year_of_2026 = 1_767_225_600

    assert fixed[1].json["created"] == new_year_of_2026 < real[1].json["created"]
