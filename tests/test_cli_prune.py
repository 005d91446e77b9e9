"""`llm-proxy prune`: deletes cassettes that are no longer needed."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import run_command
from in_process_proxy import proxy
from llm_proxy.cli import prune
from llm_proxy.cli.library import read_rows
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from raw_http import send_request
from stored_cassettes import raw_chat_request, text_response, write_cassettes

DAY = timedelta(days=1)


def cassette_paths(folder: Path) -> list[Path]:
    return sorted((folder / "cassettes").rglob("*.jsonl"))


def make_recent(path: Path) -> Path:
    """Give a cassette today's date; those of `stored_cassettes` are older."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    sample_cassettes.replace_in_file(path, "2026-01-01T00:00:00.000Z", now)
    return path


def record_played(
    folder: Path, played_ago: timedelta, *paths: Path, tracked_for: timedelta = 400 * DAY
) -> None:
    """Record that these cassettes were played, as this machine would."""
    state, root, now = folder / "state" / "llm-proxy", folder / "cassettes", datetime.now(UTC)
    last_played.mark_played(state, root, [], now - tracked_for)
    last_played.mark_played(
        state, root, [str(path.relative_to(root)) for path in paths], now - played_ago
    )


async def test_older_cassettes_are_deleted_with_their_empty_folders(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("old"), text_response("1"))
    sample_cassettes.write_in_session(tmp_path, "alice")
    kept = make_recent(write_cassettes(tmp_path, raw_chat_request("new"), text_response("2"))[0])

    result = await run_command("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert result.exit_code == 0
    assert cassette_paths(tmp_path) == [kept]
    assert not (tmp_path / "cassettes" / "@alice").exists()
    assert "deleted 2 cassettes in ./cassettes, " in result.last_error_line
    assert len(result.stdout.splitlines()) == 2


@each_row("options", [(), ("--dry-run",), ("--dry-run", "--yes"), ("--json",)])
async def test_nothing_is_deleted_without_confirmation(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    paths = write_cassettes(tmp_path, raw_chat_request("old"), text_response("1"))

    result = await run_command("prune", "--older-than", "30d", *options, folder=tmp_path)

    assert result.exit_code == 0
    assert cassette_paths(tmp_path) == paths
    assert paths[0].name in result.stdout


async def test_takes_go_together_or_not_at_all(tmp_path: Path) -> None:
    one, other = write_cassettes(
        tmp_path, raw_chat_request(), text_response("1"), text_response("2")
    )
    make_recent(other)

    result = await run_command("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert cassette_paths(tmp_path) == [one, other]
    assert "deleted 0 cassettes in ./cassettes; " in result.last_error_line
    assert (
        "kept 1 cassette (other takes of the same requests do not match the filters)"
        in result.last_error_line
    )


async def test_a_take_that_cannot_be_read_keeps_the_others(tmp_path: Path) -> None:
    one, other = write_cassettes(
        tmp_path, raw_chat_request(), text_response("1"), text_response("2")
    )
    other.write_text("{}\n")

    result = await run_command("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert cassette_paths(tmp_path) == [one, other]
    assert (
        "kept 1 unreadable file (to see the errors, run llm-proxy verify)" in result.last_error_line
    )


async def test_cassettes_unplayed_for_long_are_deleted(tmp_path: Path) -> None:
    [stale] = write_cassettes(tmp_path, raw_chat_request("stale"), text_response("1"))
    [fresh] = write_cassettes(tmp_path, raw_chat_request("fresh"), text_response("2"))
    write_cassettes(tmp_path, raw_chat_request("never"), text_response("3"))
    new = make_recent(write_cassettes(tmp_path, raw_chat_request("new"), text_response("4"))[0])
    record_played(tmp_path, 60 * DAY, stale)
    record_played(tmp_path, DAY, fresh)

    result = await run_command("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert cassette_paths(tmp_path) == sorted([fresh, new])
    assert "deleted 2 cassettes in ./cassettes, " in result.last_error_line
    last_played_paths = last_played.read_last_played(
        tmp_path / "state" / "llm-proxy", tmp_path / "cassettes"
    ).played_at_by_path
    assert list(last_played_paths) == [str(fresh.relative_to(tmp_path / "cassettes"))]


@pytest.mark.parametrize(
    ("tracked_for", "message"),
    [
        (
            None,
            "this machine has no record of when the cassettes in ./cassettes were last replayed; ",
        ),
        (DAY, "for ./cassettes, this machine records replays of cassettes only since 2"),
    ],
    ids=["never", "for a day"],
)
async def test_what_is_not_known_for_long_enough_is_not_taken_for_unused(
    tmp_path: Path, tracked_for: timedelta | None, message: str
) -> None:
    paths = write_cassettes(tmp_path, raw_chat_request(), text_response("1"))
    if tracked_for is not None:
        record_played(tmp_path, DAY, tracked_for=tracked_for)

    result = await run_command("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert result.exit_code == 2
    assert f"--unused-since 30d: {message}" in result.last_error_line
    assert cassette_paths(tmp_path) == paths


async def test_cassettes_that_no_journal_used_are_deleted(tmp_path: Path) -> None:
    [a], [b], _ = (
        write_cassettes(tmp_path, raw_chat_request(item), text_response(item)) for item in "abc"
    )
    for name, used in (("one", {"played": [a], "recorded": []}),
                       ("two", {"played": [], "recorded": [b]})):  # fmt: skip
        names = {
            usage: [str(path.relative_to(tmp_path / "cassettes")) for path in paths]
            for usage, paths in used.items()
        }
        (tmp_path / f"{name}.json").write_text(json.dumps({"requests": 1, "library": names}))

    journal_options = ("--journal", "one.json", "--journal", "two.json")
    result = await run_command("prune", *journal_options, "--yes", "--json", folder=tmp_path)

    assert cassette_paths(tmp_path) == sorted([a, b])
    document = json.loads(result.stdout)
    assert document["deleted"] is True
    assert len(document["cassettes"]) == 1


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["openai-chat/m/0-1.jsonl"], "run.json: none of the cassettes in this journal exists"),
     ([], "--journal: the journals list no cassettes, so prune would")],
    ids=["of another library", "of a run that played nothing"],
)  # fmt: skip
async def test_a_journal_that_would_let_all_of_them_go_is_refused(
    tmp_path: Path, names: list[str], reason: str
) -> None:
    paths = write_cassettes(tmp_path, raw_chat_request(), text_response("1"))
    used = {"requests": 1, "library": {"played": names, "recorded": []}}
    (tmp_path / "run.json").write_text(json.dumps(used))

    result = await run_command("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert result.exit_code == 2
    assert reason in result.last_error_line
    assert cassette_paths(tmp_path) == paths


async def test_what_a_run_played_stays_whatever_its_folder_is_called(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request("other"), text_response("2"))
    folder = Path(os.fsdecode(bytes(path.parent.parent) + b"/gr\xfcn"))
    folder.mkdir()
    path = path.rename(folder / path.name)
    async with proxy("replay", tmp_path) as server:
        await send_request(server.url, raw_chat_request())
        document = {"requests": 1, "library": server.journal.to_json_document()["library"]}
    (tmp_path / "run.json").write_text(json.dumps(document))

    await run_command("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert cassette_paths(tmp_path) == [path]


def test_takes_stay_together_when_another_is_recorded_meanwhile(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("1"))
    cassette_library = Library(tmp_path / "cassettes")
    cassette_library.refresh()
    rows, _ = read_rows(cassette_library)
    second = write_cassettes(tmp_path, raw_chat_request(), text_response("2"), first_take=2)

    deleted = prune._delete_unchanged_cassettes(cassette_library, rows)

    assert deleted == []
    assert cassette_paths(tmp_path) == sorted([rows[0].path, *second])


@each_row("content", ["", "{}", '{"entries": []}', "[1]"])
async def test_a_journal_that_does_not_say_what_was_used_is_refused(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "run.json").write_text(content)

    result = await run_command("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert result.exit_code == 2
    assert "run.json: the journal contains no list of cassettes" in result.last_error_line


async def test_prune_without_a_criterion_is_refused(tmp_path: Path) -> None:
    paths = write_cassettes(tmp_path, raw_chat_request(), text_response("1"))

    result = await run_command("prune", "--yes", folder=tmp_path)

    assert result.exit_code == 2
    assert "prune needs a filter" in result.last_error_line
    assert cassette_paths(tmp_path) == paths
