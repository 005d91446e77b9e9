"""How a scripted answer is streamed, and that it is the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from scenario_server import DIALECTS, Heard, answering, in_every_dialect, plain, playing

# Streams


@pytest.mark.shows("000-91", "000-92", "000-93", "000-94", "000-95")
async def test_a_stream_opens_tells_each_part_whole_and_finishes(tmp_path: Path) -> None:
    calls = [{"toolName": "a", "arguments": {"b": 1}}]
    document = answering(
        "tool-call", assistantText="Some words.", toolCalls=calls, reasoningContent="Let me see."
    )
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask("anthropic")

    events = [event for event in heard.events if event["type"] != "ping"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    said = [
        delta
        for delta in deltas
        if delta["type"] != "signature_delta" and delta.get("partial_json") != ""
    ]
    silent = [delta for delta in deltas if delta not in said]
    whole = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in events if event.get("delta") not in silent] == [
        "message_start", *whole * 3, "message_delta", "message_stop",
    ]  # fmt: skip
    assert said == [
        {"type": "thinking_delta", "thinking": "Let me see."},
        {"type": "text_delta", "text": "Some words."},
        {"type": "input_json_delta", "partial_json": '{"b":1}'},
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.shows("000-91", "000-94", "000-95")
async def test_a_stream_of_chat_is_a_role_one_chunk_a_part_a_finish_and_the_usage(
    tmp_path: Path,
) -> None:
    document = answering("text", assistantText="Some words.", reasoningContent="Let me see.")
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask()

    *chunks, finish, usage, done = heard.events
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
    document = answering("text", assistantText=text) | {"chunks": {"by": "characters"}}
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask(dialect)

    assert heard.turn.text == text
    assert stage.last.chunks >= len(text)


# The same each time


SAID: Final = answering(
    "tool-call",
    assistantText="Some words.",
    toolCalls=[{"toolName": item, "arguments": {"b": 1}} for item in "ab"],
    reasoningContent="Let me see.",
)


async def _played(folder: Path, seed: int, clock: str = "fixed") -> list[Heard]:
    async with playing(folder, SAID, seed=seed, clock=clock) as stage:
        return [
            await stage.ask(dialect, stream=how) for dialect in DIALECTS for how in (True, False)
        ]


@pytest.mark.shows("000-80", "001-01")
async def test_the_same_scenario_gives_the_same_bytes_and_another_seed_other_ids(
    tmp_path: Path,
) -> None:
    first, second, other = [await _played(tmp_path, seed) for seed in (7, 7, 8)]

    assert [item.raw.body for item in first] == [item.raw.body for item in second]
    assert [plain(item) for item in first] == [plain(item) for item in other]
    ids = [(one.turn.id, two.turn.id) for one, two in zip(first, other, strict=True)]
    assert all(one != two for one, two in ids if one)
    assert {one for one, _ in ids} & {two for _, two in ids} == {""}  # Ollama's have none


@pytest.mark.shows("000-80")
async def test_the_clock_is_fixed_unless_the_operator_asks_for_the_real_one(
    tmp_path: Path,
) -> None:
    fixed, real = [await _played(tmp_path, 0, clock) for clock in ("fixed", "real")]
    new_year_of_2026 = 1_767_225_600

    assert fixed[1].json["created"] == new_year_of_2026 < real[1].json["created"]
