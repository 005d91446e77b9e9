"""`llm-proxy prune`: cassettes that nobody needs any more."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import run
from in_process_proxy import proxy
from llm_proxy.cli import prune
from llm_proxy.cli.library.rows import read_rows
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from raw_http import ask
from stored_cassettes import chat, put, says

DAY = timedelta(days=1)


def there(folder: Path) -> list[Path]:
    return sorted((folder / "cassettes").rglob("*.jsonl"))


def young(path: Path) -> Path:
    """A cassette of today: those of the shelf are older."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    sample_cassettes.rewritten(path, "2026-01-01T00:00:00.000Z", now)
    return path


def played(folder: Path, ago: timedelta, *paths: Path, noted: timedelta = 400 * DAY) -> None:
    """What this machine knows."""
    state, root, now = folder / "state" / "llm-proxy", folder / "cassettes", datetime.now(UTC)
    last_played.record_played(state, root, [], now - noted)
    last_played.record_played(
        state, root, [str(path.relative_to(root)) for path in paths], now - ago
    )


async def test_what_is_older_goes_and_its_folder_with_it(tmp_path: Path) -> None:
    put(tmp_path, chat("old"), says("1"))
    sample_cassettes.in_session(tmp_path, "alice")
    kept = young(put(tmp_path, chat("new"), says("2"))[0])

    ran = await run("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert ran.code == 0
    assert there(tmp_path) == [kept]
    assert not (tmp_path / "cassettes" / "@alice").exists()
    assert "2 cassettes of cassettes deleted" in ran.complaint
    assert len(ran.out.splitlines()) == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--dry-run", "--yes"), ("--json",)])
async def test_nothing_is_deleted_before_somebody_says_yes(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    paths = put(tmp_path, chat("old"), says("1"))

    ran = await run("prune", "--older-than", "30d", *options, folder=tmp_path)

    assert ran.code == 0
    assert there(tmp_path) == paths
    assert paths[0].name in ran.out


async def test_takes_go_together_or_not_at_all(tmp_path: Path) -> None:
    one, other = put(tmp_path, chat(), says("1"), says("2"))
    young(other)

    ran = await run("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert there(tmp_path) == [one, other]
    assert "0 cassettes of cassettes would be deleted" in ran.complaint
    assert "1 kept with other takes of their requests" in ran.complaint


async def test_a_take_that_cannot_be_read_keeps_the_others(tmp_path: Path) -> None:
    one, other = put(tmp_path, chat(), says("1"), says("2"))
    other.write_text("{}\n")

    ran = await run("prune", "--older-than", "30d", "--yes", folder=tmp_path)

    assert there(tmp_path) == [one, other]
    assert "1 cannot be read and stay: llm-proxy verify" in ran.complaint


async def test_what_was_not_played_for_long_goes(tmp_path: Path) -> None:
    [stale] = put(tmp_path, chat("stale"), says("1"))
    [fresh] = put(tmp_path, chat("fresh"), says("2"))
    put(tmp_path, chat("never"), says("3"))
    new = young(put(tmp_path, chat("new"), says("4"))[0])
    played(tmp_path, 60 * DAY, stale)
    played(tmp_path, DAY, fresh)

    ran = await run("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert there(tmp_path) == sorted([fresh, new])
    assert "2 cassettes of cassettes deleted" in ran.complaint
    known = last_played.read_last_played(
        tmp_path / "state" / "llm-proxy", tmp_path / "cassettes"
    ).played
    assert list(known) == [str(fresh.relative_to(tmp_path / "cassettes"))]


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        (None, "it was never noted on this machine what is played of cassettes, so"),
        (DAY, "what is played of cassettes is noted on this machine only since 2"),
    ],
    ids=["never", "for a day"],
)
async def test_what_is_not_known_for_long_enough_is_not_taken_for_unused(
    tmp_path: Path, noted: timedelta | None, said: str
) -> None:
    paths = put(tmp_path, chat(), says("1"))
    if noted is not None:
        played(tmp_path, DAY, noted=noted)

    ran = await run("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert ran.code == 2
    assert f"--unused-since 30d: {said}" in ran.complaint
    assert there(tmp_path) == paths


async def test_what_no_run_of_these_used_goes(tmp_path: Path) -> None:
    [a], [b], _ = (put(tmp_path, chat(item), says(item)) for item in "abc")
    for name, used in (("one", {"played": [a], "recorded": []}),
                       ("two", {"played": [], "recorded": [b]})):  # fmt: skip
        names = {
            how: [str(path.relative_to(tmp_path / "cassettes")) for path in paths]
            for how, paths in used.items()
        }
        (tmp_path / f"{name}.json").write_text(json.dumps({"requests": 1, "library": names}))

    both = ("--journal", "one.json", "--journal", "two.json")
    ran = await run("prune", *both, "--yes", "--json", folder=tmp_path)

    assert there(tmp_path) == sorted([a, b])
    document = json.loads(ran.out)
    assert document["deleted"] is True
    assert len(document["cassettes"]) == 1


@pytest.mark.parametrize(
    ("names", "why"),
    [(["openai-chat/m/0-1.jsonl"], "run.json tells of no cassette of cassettes"),
     ([], "no run of --journal used any cassette of cassettes: all of them would go")],
    ids=["of another library", "of a run that played nothing"],
)  # fmt: skip
async def test_a_journal_that_would_let_all_of_them_go_is_refused(
    tmp_path: Path, names: list[str], why: str
) -> None:
    paths = put(tmp_path, chat(), says("1"))
    used = {"requests": 1, "library": {"played": names, "recorded": []}}
    (tmp_path / "run.json").write_text(json.dumps(used))

    ran = await run("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert ran.code == 2
    assert why in ran.complaint
    assert there(tmp_path) == paths


async def test_what_a_run_played_stays_whatever_its_folder_is_called(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("1"))
    put(tmp_path, chat("other"), says("2"))
    folder = Path(os.fsdecode(bytes(path.parent.parent) + b"/gr\xfcn"))
    folder.mkdir()
    path = path.rename(folder / path.name)
    async with proxy("replay", tmp_path) as it:
        await ask(it.url, chat())
        document = {"requests": 1, "library": it.journal.document()["library"]}
    (tmp_path / "run.json").write_text(json.dumps(document))

    await run("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert there(tmp_path) == [path]


def test_takes_stay_together_when_another_is_recorded_meanwhile(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("1"))
    files = Library(tmp_path / "cassettes")
    files.refresh()
    rows, _ = read_rows(files, files.files(), datetime.now(UTC))
    second = put(tmp_path, chat(), says("2"), first=2)

    gone = prune._delete_rows(files, rows)

    assert gone == []
    assert there(tmp_path) == sorted([rows[0].path, *second])


@pytest.mark.parametrize("content", ["", "{}", '{"entries": []}', "[1]"])
async def test_a_journal_that_does_not_say_what_was_used_is_refused(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "run.json").write_text(content)

    ran = await run("prune", "--journal", "run.json", "--yes", folder=tmp_path)

    assert ran.code == 2
    assert "run.json does not tell which cassettes its run used" in ran.complaint


async def test_to_ask_for_nothing_is_refused(tmp_path: Path) -> None:
    paths = put(tmp_path, chat(), says("1"))

    ran = await run("prune", "--yes", folder=tmp_path)

    assert ran.code == 2
    assert "prune needs to know what may go" in ran.complaint
    assert there(tmp_path) == paths
