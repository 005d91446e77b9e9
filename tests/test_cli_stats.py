"""`llm-proxy stats`: a library in figures."""

from __future__ import annotations

import json
from pathlib import Path

import sample_cassettes
from cli_process import run
from stored_cassettes import chat, put, says


async def test_a_library_is_told_in_figures(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    sample_cassettes.unproven(tmp_path)
    sample_cassettes.in_session(tmp_path, "alice")
    put(tmp_path, chat("twice"), says("1"), says("2"))

    document = json.loads((await run("stats", "--json", folder=tmp_path)).out)

    assert document["cassettes"] == 5
    assert document["file_bytes"] == sum(item["file_bytes"] for item in document["by_session"])
    assert [(item["dialect"], item["cassettes"]) for item in document["by_dialect"]] == [
        ("openai-chat", 4), ("opaque", 1),
    ]  # fmt: skip
    assert [(item["session"], item["cassettes"]) for item in document["by_session"]] == [
        ("default", 4), ("alice", 1),
    ]  # fmt: skip
    assert document["takes"] == [{"takes": 1, "keys": 3}, {"takes": 2, "keys": 1}]
    assert document["age_days"]["youngest"] == document["age_days"]["oldest"] > 0
    assert document["duplicates"] == []
    assert document["keyed_by_other_rules"] == 0


async def test_the_same_answer_to_the_same_request_is_a_duplicate(tmp_path: Path) -> None:
    put(tmp_path, chat("hi"), says("Hi"), says("Hi"), says("Ho"))
    sample_cassettes.in_session(tmp_path, "alice")
    put(tmp_path, chat("another"), says("Hi"))

    ran = await run("stats", folder=tmp_path)
    listed = await run("ls", "--duplicates", "--json", folder=tmp_path)

    [told] = [line for line in ran.out.splitlines() if line.startswith("duplicates")]
    assert told.startswith("duplicates: 1 answer is there more than once, ")
    [names] = [line for line in ran.out.splitlines() if " = " in line]
    assert names.count(".jsonl") == 3
    rows = json.loads(listed.out)["cassettes"]
    assert sorted(row["session"] for row in rows) == ["alice", "default", "default"]


async def test_people_read_tables_and_sentences(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    put(tmp_path, chat("old rules"), says("x"), key_rules=1)

    ran = await run("stats", folder=tmp_path)

    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["DIALECT", "CASSETTES", "SIZE"] in rows
    assert ["MODEL", "CASSETTES", "SIZE"] in rows
    assert "takes by key and session: 2 with 1 take" in ran.out
    assert "1 cassette was keyed by other rules" in ran.out
    assert ran.complaint.startswith("llm-proxy: 2 cassettes in cassettes, ")


async def test_filters_count_and_an_empty_library_has_nothing_to_tell(tmp_path: Path) -> None:
    empty = await run("stats", folder=tmp_path)
    sample_cassettes.complete(tmp_path)
    none = json.loads((await run("stats", "--status", "5xx", "--json", folder=tmp_path)).out)

    assert (empty.code, empty.out) == (0, "")
    assert empty.complaint == "llm-proxy: 0 cassettes in cassettes, 0 B"
    assert (none["cassettes"], none["age_days"]) == (0, None)


async def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    sample_cassettes.torn(tmp_path)

    ran = await run("stats", folder=tmp_path)

    assert ran.code == 1
    assert "unreadable: " in ran.out
