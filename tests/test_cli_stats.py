"""`llm-proxy stats`: statistics of a library."""

from __future__ import annotations

import json
from pathlib import Path

import sample_cassettes
from cli_process import run_command
from stored_cassettes import raw_chat_request, text_response, write_cassettes


async def test_json_summarises_the_library(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_unproven(tmp_path)
    sample_cassettes.write_in_session(tmp_path, "alice")
    write_cassettes(tmp_path, raw_chat_request("twice"), text_response("1"), text_response("2"))

    document = json.loads((await run_command("stats", "--json", folder=tmp_path)).stdout)

    assert document["cassettes"] == 5
    assert document["file_bytes"] == sum(row["file_bytes"] for row in document["by_session"])
    assert [(row["dialect"], row["cassettes"]) for row in document["by_dialect"]] == [
        ("openai-chat", 4), ("opaque", 1),
    ]  # fmt: skip
    assert [(row["session"], row["cassettes"]) for row in document["by_session"]] == [
        ("default", 4), ("alice", 1),
    ]  # fmt: skip
    assert document["takes"] == [{"takes": 1, "keys": 3}, {"takes": 2, "keys": 1}]
    assert document["age_days"]["youngest"] == document["age_days"]["oldest"] > 0
    assert document["duplicates"] == []
    assert document["keyed_by_other_rules"] == 0


async def test_the_same_answer_to_the_same_request_is_a_duplicate(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path,
        raw_chat_request("hi"),
        text_response("Hi"),
        text_response("Hi"),
        text_response("Ho"),
    )
    sample_cassettes.write_in_session(tmp_path, "alice")
    write_cassettes(tmp_path, raw_chat_request("another"), text_response("Hi"))

    result = await run_command("stats", folder=tmp_path)
    listing = await run_command("ls", "--duplicates", "--json", folder=tmp_path)

    [duplicates_line] = [
        line for line in result.stdout.splitlines() if line.startswith("duplicates")
    ]
    assert duplicates_line.startswith(
        "duplicates: 1 response stored more than once; the copies use "
    )
    [names] = [line for line in result.stdout.splitlines() if " = " in line]
    assert names.count(".jsonl") == 3
    rows = json.loads(listing.stdout)["cassettes"]
    assert sorted(row["session"] for row in rows) == ["alice", "default", "default"]


async def test_people_read_tables_and_sentences(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    write_cassettes(tmp_path, raw_chat_request("old rules"), text_response("x"), key_rules=1)

    result = await run_command("stats", folder=tmp_path)

    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["DIALECT", "CASSETTES", "SIZE"] in rows
    assert ["MODEL", "CASSETTES", "SIZE"] in rows
    assert "takes: 2 keys with 1 take" in result.stdout
    assert "1 cassette recorded with different --normalise rules" in result.stdout
    assert result.last_error_line.startswith("llm-proxy: 2 cassettes in ./cassettes, ")


async def test_filters_apply_and_an_empty_library_has_no_figures(tmp_path: Path) -> None:
    empty = await run_command("stats", folder=tmp_path)
    sample_cassettes.write_complete(tmp_path)
    filtered = json.loads(
        (await run_command("stats", "--status", "5xx", "--json", folder=tmp_path)).stdout
    )

    assert (empty.exit_code, empty.stdout) == (0, "")
    assert empty.last_error_line == "llm-proxy: 0 cassettes in ./cassettes, 0 B"
    assert (filtered["cassettes"], filtered["age_days"]) == (0, None)


async def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    sample_cassettes.write_truncated(tmp_path)

    result = await run_command("stats", folder=tmp_path)

    assert result.exit_code == 1
    assert "unreadable: " in result.stdout
