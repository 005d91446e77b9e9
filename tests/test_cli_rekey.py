"""`llm-proxy rekey`: cassettes named by the rules that are used by now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import run
from in_process_proxy import cassettes, proxy
from llm_proxy import redaction
from llm_proxy.matching import RuleSet
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library import last_played, rekeying
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import cassette_filer
from llm_proxy.shell.running.settings import MatchingOptions
from raw_http import ask
from stored_cassettes import bodies, chat, key_of, put, says

ONE, OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
UUIDS = ("--normalise", "uuids")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cassettes").rglob("*.jsonl"))


async def hears(folder: Path, *contents: str) -> list[bytes]:
    """What a replay with the rule answers."""
    async with proxy(
        "replay", folder, matching=MatchingOptions(rules=parse_rules(["uuids"]))
    ) as it:
        return [(await ask(it.url, chat(content))).body for content in contents]


async def test_files_get_the_names_that_they_would_have_today(tmp_path: Path) -> None:
    put(tmp_path, chat(ONE), says("1"), says("2"))
    put(tmp_path, chat("plain"), says("3"))
    before = [cassette.body for cassette in cassettes(tmp_path)]

    ran = await run("rekey", *UUIDS, folder=tmp_path)

    assert ran.code == 0
    assert ran.complaint == "llm-proxy: 3 cassettes: 3 keyed anew, 2 of them renamed"
    assert sorted(before) == sorted(cassette.body for cassette in cassettes(tmp_path))
    assert {cassette.meta.rules for cassette in cassettes(tmp_path)} == {("uuids@1",)}
    assert f"{key_of(chat('plain'))[:16]}-1.jsonl" in names(tmp_path)
    assert await hears(tmp_path, OTHER, ONE) == bodies([says("1"), says("2")])
    assert (await run("verify", folder=tmp_path)).code == 0
    again = await run("rekey", *UUIDS, folder=tmp_path)
    assert again.complaint == "llm-proxy: 3 cassettes, each of them keyed by these rules"


async def test_back_to_no_rules_is_as_it_was(tmp_path: Path) -> None:
    put(tmp_path, chat(ONE), says("1"), says("2"))
    before = {path: path.read_bytes() for path in (tmp_path / "cassettes").rglob("*.jsonl")}

    await run("rekey", *UUIDS, folder=tmp_path)
    await run("rekey", folder=tmp_path)

    assert {path: path.read_bytes() for path in before} == before
    assert len(names(tmp_path)) == 2


async def test_requests_that_have_one_key_by_a_rule_become_takes_and_that_is_said(
    tmp_path: Path,
) -> None:
    [one] = put(tmp_path, chat(ONE), says("1"))
    [other] = put(tmp_path, chat(OTHER), says("2"))
    sample_cassettes.rewritten(other, "2026-01-01", "2026-01-02")

    ran = await run("rekey", *UUIDS, folder=tmp_path)

    assert ran.code == 0
    [said] = [line for line in ran.out.splitlines() if "have one key" in line]
    assert said.startswith("2 cassettes of different requests have one key by uuids@1, and answer")
    assert one.name in said
    assert other.name in said
    assert await hears(tmp_path, OTHER, OTHER) == bodies([says("1"), says("2")])


async def test_a_replay_by_a_rule_that_files_do_not_have_says_which_of_them_it_joins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [one] = put(tmp_path, chat(ONE), says("1"))
    put(tmp_path, chat(OTHER), says("2"))
    put(tmp_path, chat("plain"), says("3"))

    await hears(tmp_path, OTHER, ONE)

    [warning] = [record.message for record in caplog.records if "have one key" in record.message]
    assert "2 cassettes of different requests have one key by uuids@1" in warning
    assert str(one) in warning


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, chat(ONE), says("1"))
    before = names(tmp_path)

    ran = await run("rekey", *UUIDS, "--dry-run", folder=tmp_path)
    told = await run("rekey", *UUIDS, "--dry-run", "--json", folder=tmp_path)

    assert names(tmp_path) == before
    assert ran.complaint.endswith(
        "1 would be keyed anew, 1 of them renamed; nothing was changed (--dry-run)"
    )
    document = json.loads(told.out)
    assert document["dry_run"] is True
    assert document["keyed"][0]["name"].endswith(before[0])
    assert document["keyed"][0]["new_name"].endswith(document["keyed"][0]["key"][:16] + "-1.jsonl")


async def test_the_rules_of_the_settings_file_count(tmp_path: Path) -> None:
    put(tmp_path, chat(ONE), says("1"))
    (tmp_path / "llm-proxy.toml").write_text('normalise = ["uuids"]\n')

    await run("rekey", folder=tmp_path)

    assert await hears(tmp_path, OTHER) == bodies([says("1")])


async def test_a_file_without_the_secret_that_its_key_was_made_with_keeps_its_name(
    tmp_path: Path,
) -> None:
    [path] = put(tmp_path, chat(redaction.OF_OPERATOR), says("1"))
    before = path.read_bytes()

    ran = await run("rekey", *UUIDS, folder=tmp_path)

    assert path.read_bytes() == before
    assert "keeps its name: its request held a secret of yours" in ran.out


async def test_what_cannot_be_read_is_named_and_stays(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(ONE), says("1"))
    path.write_text("{}\n")

    ran = await run("rekey", *UUIDS, folder=tmp_path)

    assert ran.code == 1
    assert ran.out.startswith("unreadable: ")
    assert path.read_text() == "{}\n"


def planned(folder: Path, rules: RuleSet) -> rekeying.RekeyPlan:
    files = Library(folder / "cassettes")
    files.refresh()
    return rekeying.rekey_plan(files, rules, files.files())


def test_what_a_crash_left_of_both_is_one_take_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, chat(ONE), says("1"))
    rules = parse_rules(["uuids"])

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _crash)
        with pytest.raises(KeyboardInterrupt):
            list(rekeying.apply_changes(planned(tmp_path, rules).changes))
    both = len(names(tmp_path))
    list(rekeying.apply_changes(planned(tmp_path, rules).changes))

    assert both == 2
    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies([says("1")])
    assert planned(tmp_path, rules).changes == ()


def test_what_a_crash_leaves_over_is_known_to_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, chat(ONE), says("1"))
    found = planned(tmp_path, parse_rules(["uuids"]))
    there: list[str] = []

    def synced(_: int) -> None:
        there.extend(path.name for path in tmp_path.rglob("*.tmp"))

    monkeypatch.setattr("os.fsync", synced)
    list(rekeying.apply_changes(found.changes))

    assert [cassette_filer.TEMPORARY.fullmatch(name) is not None for name in there] == [True]


def test_takes_keep_their_order_when_a_crash_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second was recorded before the first, as an import of two files may have it."""
    _, second = put(tmp_path, chat(ONE), says("1"), says("2"))
    sample_cassettes.rewritten(second, "2026-01-01", "2025-01-01")
    rules = parse_rules(["uuids"])

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _crash)
        with pytest.raises(KeyboardInterrupt):
            list(rekeying.apply_changes(planned(tmp_path, rules).changes))
    list(rekeying.apply_changes(planned(tmp_path, rules).changes))

    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies([says("1"), says("2")])


def _crash(path: Path, *, missing_ok: bool = False) -> None:
    if not missing_ok:
        raise KeyboardInterrupt(path)


def test_what_is_there_keeps_its_number(tmp_path: Path) -> None:
    """Part of a library is keyed by the rule, and the rest is brought along."""
    put(tmp_path, chat(ONE), says("1"))
    files = Library(tmp_path / "cassettes")
    files.refresh()
    list(
        rekeying.apply_changes(
            rekeying.rekey_plan(files, parse_rules(["uuids"]), files.files()).changes
        )
    )
    put(tmp_path, chat(OTHER), says("2"))
    files.refresh()

    found = rekeying.rekey_plan(files, parse_rules(["uuids"]), files.files())
    list(rekeying.apply_changes(found.changes))

    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies([says("1"), says("2")])
    assert [collision.rules for collision in found.collisions] == [("uuids@1",)]


async def test_what_was_played_of_late_is_known_by_its_new_name(tmp_path: Path) -> None:
    """`prune --unused-since` would take it for unused."""
    put(tmp_path, chat(ONE), says("1"))
    put(tmp_path, chat("stale"), says("2"))
    state, root, now = tmp_path / "state" / "llm-proxy", tmp_path / "cassettes", datetime.now(UTC)
    last_played.record_played(state, root, [], now - timedelta(days=400))
    [path] = (
        str(item.relative_to(root)) for item in root.rglob(f"{key_of(chat(ONE))[:16]}-1.jsonl")
    )
    last_played.record_played(state, root, [path], now)

    await run("rekey", *UUIDS, folder=tmp_path)
    await run("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies([says("1")])
    [name] = names(tmp_path)
    assert [Path(item).name for item in last_played.read_last_played(state, root).played] == [name]


@pytest.mark.parametrize("command", ["verify", "doctor"])
async def test_files_of_other_rules_are_counted(tmp_path: Path, command: str) -> None:
    put(tmp_path, chat(ONE), says("1"), says("2"))

    plain = await run(command, folder=tmp_path)
    other = await run(command, *UUIDS, folder=tmp_path)

    told = "2 cassettes were keyed by other rules than those given, and found by reading"
    assert told not in plain.out + plain.err
    assert told in other.out + other.err
    assert other.code == plain.code
