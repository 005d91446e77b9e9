"""`llm-proxy ls`: one row for each cassette of a library."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import run_command
from llm_proxy.cli.output import TableColumn, fitting_column_indexes, plain_table_lines
from stored_cassettes import key_of_request, raw_chat_request, text_response, write_cassettes


def table_cells(text: str) -> list[list[str]]:
    """The cells of an aligned table, split at two spaces."""
    return [[cell.strip() for cell in row.split("  ") if cell] for row in text.splitlines()]


async def list_cassettes(folder: Path, *options: str) -> dict[str, Any]:
    result = await run_command("ls", "--json", *options, folder=folder)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


async def test_each_cassette_is_a_row_of_plain_text(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_partial(tmp_path)
    sample_cassettes.write_unproven(tmp_path)
    days = (datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)).days

    result = await run_command("ls", folder=tmp_path)

    assert result.exit_code == 0
    header, *rows = table_cells(result.stdout)
    assert header == [
        "CASSETTE", "DIALECT", "MODEL", "STATUS", "OUTCOME", "MESSAGES", "SIZE", "DURATION", "AGE",
        "RECORDED (UTC)",
    ]  # fmt: skip
    by_outcome = {row[4]: row for row in rows}
    assert set(by_outcome) == {
        "complete",
        "partial: the upstream reset the connection",
        "complete, unproven: delimited by close",
    }
    name = f"openai-chat/m/{key_of_request(raw_chat_request('hi'))[:16]}-1.jsonl"
    assert by_outcome["complete"] == [
        name, "openai-chat", "m", "200", "complete", "3", "870 B", "60 ms", f"{days} days",
        "2026-01-01 00:00:00",
    ]  # fmt: skip
    assert result.last_error_line == "llm-proxy: 3 cassettes, 1 partial, 2.3 kB"


async def test_takes_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path, raw_chat_request(), *[text_response(str(number)) for number in range(11)]
    )

    document = await list_cassettes(tmp_path)

    file_names = [cassette["name"] for cassette in document["cassettes"]]
    assert [name.rpartition("-")[2] for name in file_names] == [f"{n}.jsonl" for n in range(1, 12)]


async def test_a_session_has_a_column_once_there_is_one(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_in_session(tmp_path, "alice")

    result = await run_command("ls", folder=tmp_path)

    header, *rows = table_cells(result.stdout)
    assert header[3] == "SESSION"
    assert [row[3] for row in rows] == ["alice", "200"]


async def test_json_is_one_document_and_nothing_else(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_truncated(tmp_path)

    result = await run_command("ls", "--json", folder=tmp_path)

    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert result.exit_code == 1
    [cassette] = document["cassettes"]
    assert cassette["file"] == str(path.relative_to(tmp_path))
    assert cassette["key"] == key_of_request(raw_chat_request("hi"))
    assert cassette["outcome"] == {
        "complete": True, "proven": True, "reason": "[DONE]", "text": "complete",
    }  # fmt: skip
    assert (cassette["status"], cassette["messages"], cassette["reads"]) == (200, 3, 3)
    assert (cassette["bytes"], cassette["duration_ms"]) == (131, 60.0)
    [refused] = document["unreadable"]
    assert refused["reason"] == "the file is truncated: the last line is incomplete"


async def test_what_cannot_be_read_is_named_with_its_reason(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    torn = sample_cassettes.write_truncated(tmp_path)

    result = await run_command("ls", folder=tmp_path)

    assert result.exit_code == 1
    reason = "the file is truncated: the last line is incomplete"
    line = f"unreadable: {torn.relative_to(tmp_path)}:7: {reason}"
    assert line in result.stdout.splitlines()
    assert result.last_error_line == "llm-proxy: 1 cassette, 1 unreadable, 870 B"


@each_row(
    ("options", "count"),
    [
        ([], 4),
        (["--partial"], 1),
        (["--session", "alice"], 1),
        (["--session", "nobody"], 0),
        (["--model", "M"], 3),
        (["--model", "gpt"], 0),
        (["--partial", "--session", "alice"], 0),
        (["--dialect", "openai-chat"], 3),
        (["--provider", "openai"], 4),
        (["--provider", "anthropic"], 0),
        (["--status", "200"], 4),
        (["--status", "2xx"], 4),
        (["--status", "429"], 0),
        (["--older-than", "30d"], 4),
        (["--newer-than", "30d"], 0),
    ],
)
async def test_filters_choose_rows(tmp_path: Path, options: list[str], count: int) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_partial(tmp_path)
    sample_cassettes.write_unproven(tmp_path)
    sample_cassettes.write_in_session(tmp_path, "alice")

    assert len((await list_cassettes(tmp_path, *options))["cassettes"]) == count


@each_row(
    ("sort", "order"),
    [("name", "dem"), ("recorded", "med"), ("size", "mde"), ("duration", "mde"), ("model", "dem")],
)
async def test_rows_are_sorted_by_what_is_asked(tmp_path: Path, sort: str, order: str) -> None:
    """The expected order is given by the first letters of the models."""
    for model, day, texts in (("m", "01", ("word" * 9,)), ("e", "02", ("a", "b", "c", "d")),
                              ("d", "03", ("a", "b"))):  # fmt: skip
        path = sample_cassettes.write_complete(tmp_path, *texts, content=model)
        sample_cassettes.replace_in_file(
            path, '"model":"m","session"', f'"model":"{model}","session"'
        )
        sample_cassettes.replace_in_file(path, "2026-01-01", f"2026-01-{day}")
        target = path.parents[1] / model / path.name
        target.parent.mkdir(exist_ok=True)
        path.rename(target)

    listing = await list_cassettes(tmp_path, "--sort", sort)
    reversed_listing = await list_cassettes(tmp_path, "--sort", sort, "--reverse")

    models = "".join(cassette["model"] for cassette in listing["cassettes"])
    assert models == order
    assert reversed_listing["cassettes"] == listing["cassettes"][::-1]


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--status", "9", "'9' is not a valid status: use 200, 429, 4xx or 5xx"),
        (
            "--older-than",
            "soon",
            "'soon' is not a valid age: use a number followed by h, d, w, m or y, such as 90d",
        ),
    ],
)
async def test_a_filter_that_means_nothing_is_refused(
    tmp_path: Path, option: str, value: str, reason: str
) -> None:
    result = await run_command("ls", option, value, folder=tmp_path)

    assert result.exit_code == 2
    assert reason in result.last_error_line


async def test_filters_report_the_total_count(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_partial(tmp_path)

    result = await run_command("ls", "--partial", folder=tmp_path)

    assert result.last_error_line.startswith("llm-proxy: 1 of 2 cassettes, 1 partial")


@pytest.mark.parametrize("exists", [True, False], ids=["empty folder", "no folder"])
async def test_an_empty_library_says_how_to_record(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "cassettes").mkdir()

    result = await run_command("ls", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert "no cassettes in ./cassettes; record some" in result.last_error_line
    assert "llm-proxy record -- COMMAND" in result.last_error_line


async def test_a_file_given_as_a_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = await run_command("ls", "--cassettes", "file", folder=tmp_path)

    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["llm-proxy: error: not a folder: file (set --cassettes)"]


async def test_the_settings_file_says_where_the_library_is(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    (tmp_path / "cassettes").rename(tmp_path / "elsewhere")
    (tmp_path / "llm-proxy.toml").write_text('cassettes = "elsewhere"\n')

    [cassette] = (await list_cassettes(tmp_path))["cassettes"]

    assert cassette["name"] == str(path.relative_to(tmp_path / "cassettes"))


async def test_the_session_of_a_settings_file_is_that_of_requests(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    (tmp_path / "llm-proxy.toml").write_text('session = "mine"\n')

    assert len((await list_cassettes(tmp_path))["cassettes"]) == 1


async def test_a_file_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    path.rename(path.with_name(f"{sample_cassettes.TERMINAL_ESCAPE}.jsonl"))
    (path.parent / "caf\udce9\x9b31m.jsonl").write_bytes(b"torn")

    text = await run_command("ls", folder=tmp_path)
    document = await run_command("ls", "--json", folder=tmp_path)

    assert "\\x1b]0;owned" in text.stdout
    assert "\\u001b]0;owned" in document.stdout
    for result in (text, document):
        assert result.exit_code == 1
        assert not {"\x1b", "\x07", "\x9b"} & set(result.stdout + result.stderr)


async def test_two_files_of_one_take_are_both_listed(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    (tmp_path / "cassettes" / path.name).write_bytes(path.read_bytes())

    assert len((await list_cassettes(tmp_path))["cassettes"]) == 2


COLUMNS = (
    TableColumn("name"),
    TableColumn("size", is_right_aligned=True, drop_priority=1),
    TableColumn("when", drop_priority=2),
)
ROWS = [
    ("a", "1234567", "today"),
    ("漢字", "1", ""),
]


def test_a_plain_table_is_aligned_by_columns() -> None:
    assert list(plain_table_lines(COLUMNS, ROWS)) == [
        "NAME     SIZE  WHEN",
        "a     1234567  today",
        "漢字        1",
    ]


@each_row(
    ("width", "kept_columns"), [(20, [0, 1, 2]), (19, [0, 1]), (13, [0, 1]), (12, [0]), (1, [0])]
)
def test_a_narrow_terminal_omits_columns(width: int, kept_columns: list[int]) -> None:
    assert fitting_column_indexes(COLUMNS, ROWS, width) == kept_columns
