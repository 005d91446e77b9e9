"""`llm-proxy rekey`: renames cassettes to the keys of the current rules."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import run_command
from in_process_proxy import load_cassettes, proxy
from llm_proxy import redaction
from llm_proxy.matching import RuleSet
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.matching.presets import needs_rekeying
from llm_proxy.shell.library import last_played, rekeying
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import cassette_filer
from raw_http import send_request
from stored_cassettes import (
    key_of_request,
    meta_for_request,
    raw_chat_request,
    response_bodies,
    route_raw_request,
    text_response,
    write_cassettes,
)

ONE, OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
UUIDS = ("--normalise", "uuids")


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cassettes").rglob("*.jsonl"))


async def replayed_bodies(folder: Path, *contents: str) -> list[bytes]:
    """The bodies that a replay with the rule `uuids` sends."""
    async with proxy("replay", folder, match_rules=parse_rules(["uuids"])) as server:
        return [
            (await send_request(server.url, raw_chat_request(content))).body for content in contents
        ]


async def test_files_get_the_names_that_they_would_have_today(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"), text_response("2"))
    write_cassettes(tmp_path, raw_chat_request("plain"), text_response("3"))
    before = [cassette.response_body for cassette in load_cassettes(tmp_path)]

    result = await run_command("rekey", *UUIDS, folder=tmp_path)

    assert result.exit_code == 0
    assert result.last_error_line == "llm-proxy: rekeyed 3 of 3 cassettes and renamed 2"
    assert sorted(before) == sorted(cassette.response_body for cassette in load_cassettes(tmp_path))
    assert {cassette.meta.match_rules for cassette in load_cassettes(tmp_path)} == {("uuids@1",)}
    assert f"{key_of_request(raw_chat_request('plain'))[:16]}-1.jsonl" in file_names(tmp_path)
    assert await replayed_bodies(tmp_path, OTHER, ONE) == response_bodies(
        [text_response("1"), text_response("2")]
    )
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0
    again = await run_command("rekey", *UUIDS, folder=tmp_path)
    assert again.last_error_line == "llm-proxy: 3 cassettes checked, nothing to change"


async def test_back_to_no_rules_is_as_it_was(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"), text_response("2"))
    before = {path: path.read_bytes() for path in (tmp_path / "cassettes").rglob("*.jsonl")}

    await run_command("rekey", *UUIDS, folder=tmp_path)
    await run_command("rekey", folder=tmp_path)

    assert {path: path.read_bytes() for path in before} == before
    assert len(file_names(tmp_path)) == 2


async def test_requests_that_a_rule_gives_one_key_become_takes_and_are_reported(
    tmp_path: Path,
) -> None:
    [one] = write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    [other] = write_cassettes(tmp_path, raw_chat_request(OTHER), text_response("2"))
    sample_cassettes.replace_in_file(other, "2026-01-01", "2026-01-02")

    result = await run_command("rekey", *UUIDS, folder=tmp_path)

    assert result.exit_code == 0
    [collision_line] = [line for line in result.stdout.splitlines() if "have the same key" in line]
    assert collision_line.startswith(
        "2 cassettes of different requests have the same key under the rules uuids@1; llm-proxy"
    )
    assert one.name in collision_line
    assert other.name in collision_line
    assert await replayed_bodies(tmp_path, OTHER, OTHER) == response_bodies(
        [text_response("1"), text_response("2")]
    )


async def test_a_replay_by_a_rule_that_files_do_not_have_says_which_of_them_it_joins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [one] = write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request(OTHER), text_response("2"))
    write_cassettes(tmp_path, raw_chat_request("plain"), text_response("3"))

    await replayed_bodies(tmp_path, OTHER, ONE)

    [warning] = [
        record.message for record in caplog.records if "have the same key" in record.message
    ]
    assert "2 cassettes of different requests have the same key under the rules uuids@1" in warning
    assert str(one) in warning


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    before = file_names(tmp_path)

    result = await run_command("rekey", *UUIDS, "--dry-run", folder=tmp_path)
    json_result = await run_command("rekey", *UUIDS, "--dry-run", "--json", folder=tmp_path)

    assert file_names(tmp_path) == before
    assert result.last_error_line == "llm-proxy: would rekey 1 of 1 cassette and rename 1"
    document = json.loads(json_result.stdout)
    assert document["dry_run"] is True
    assert document["rekeyed"][0]["name"].endswith(before[0])
    assert document["rekeyed"][0]["new_name"].endswith(
        document["rekeyed"][0]["key"][:16] + "-1.jsonl"
    )


async def test_the_rules_of_the_settings_file_count(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    (tmp_path / "llm-proxy.toml").write_text('normalise = ["uuids"]\n')

    await run_command("rekey", folder=tmp_path)

    assert await replayed_bodies(tmp_path, OTHER) == response_bodies([text_response("1")])


async def test_a_file_without_the_secret_that_its_key_was_made_with_keeps_its_name(
    tmp_path: Path,
) -> None:
    [path] = write_cassettes(
        tmp_path, raw_chat_request(redaction.OPERATOR_PLACEHOLDER), text_response("1")
    )
    before = path.read_bytes()

    result = await run_command("rekey", *UUIDS, folder=tmp_path)

    assert path.read_bytes() == before
    assert "not rekeyed, because the key depends on a secret that is not stored" in result.stdout


async def test_what_cannot_be_read_is_named_and_stays(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    path.write_text("{}\n")

    result = await run_command("rekey", *UUIDS, folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout.startswith("unreadable: ")
    assert path.read_text() == "{}\n"


def plan_rekey(folder: Path, rules: RuleSet) -> rekeying.RekeyPlan:
    cassette_library = Library(folder / "cassettes")
    cassette_library.refresh()
    return rekeying.plan_rekey(cassette_library, rules, cassette_library.cassette_paths())


def test_a_rename_interrupted_by_a_crash_leaves_one_take_after_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    rules = parse_rules(["uuids"])

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _crash)
        with pytest.raises(KeyboardInterrupt):
            list(rekeying.apply_changes(plan_rekey(tmp_path, rules).changes))
    file_count = len(file_names(tmp_path))
    list(rekeying.apply_changes(plan_rekey(tmp_path, rules).changes))

    assert file_count == 2
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response("1")]
    )
    assert plan_rekey(tmp_path, rules).changes == ()


def test_temporary_files_left_by_a_crash_are_recognised_by_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    plan = plan_rekey(tmp_path, parse_rules(["uuids"]))
    temporary_names: list[str] = []

    def record_temporary_files(_: int) -> None:
        temporary_names.extend(path.name for path in tmp_path.rglob("*.tmp"))

    monkeypatch.setattr("os.fsync", record_temporary_files)
    list(rekeying.apply_changes(plan.changes))

    assert [
        cassette_filer.TEMPORARY_FILE_NAME.fullmatch(name) is not None for name in temporary_names
    ] == [True]


def test_takes_keep_their_order_when_a_crash_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second take has an older date than the first, as an import of two files can give."""
    _, second = write_cassettes(
        tmp_path, raw_chat_request(ONE), text_response("1"), text_response("2")
    )
    sample_cassettes.replace_in_file(second, "2026-01-01", "2025-01-01")
    rules = parse_rules(["uuids"])

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _crash)
        with pytest.raises(KeyboardInterrupt):
            list(rekeying.apply_changes(plan_rekey(tmp_path, rules).changes))
    list(rekeying.apply_changes(plan_rekey(tmp_path, rules).changes))

    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response("1"), text_response("2")]
    )


def _crash(path: Path, *, missing_ok: bool = False) -> None:
    if not missing_ok:
        raise KeyboardInterrupt(path)


def test_existing_takes_keep_their_numbers(tmp_path: Path) -> None:
    """Part of a library has keys by the rule already; `rekey` converts the rest."""
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    cassette_library = Library(tmp_path / "cassettes")
    cassette_library.refresh()
    list(
        rekeying.apply_changes(
            rekeying.plan_rekey(
                cassette_library, parse_rules(["uuids"]), cassette_library.cassette_paths()
            ).changes
        )
    )
    write_cassettes(tmp_path, raw_chat_request(OTHER), text_response("2"))
    cassette_library.refresh()

    plan = rekeying.plan_rekey(
        cassette_library, parse_rules(["uuids"]), cassette_library.cassette_paths()
    )
    list(rekeying.apply_changes(plan.changes))

    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response("1"), text_response("2")]
    )
    assert [collision.rules for collision in plan.collisions] == [("uuids@1",)]


async def test_what_was_played_of_late_is_known_by_its_new_name(tmp_path: Path) -> None:
    """Otherwise `prune --unused-since` would treat it as unused."""
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request("stale"), text_response("2"))
    state, root, now = tmp_path / "state" / "llm-proxy", tmp_path / "cassettes", datetime.now(UTC)
    last_played.mark_played(state, root, [], now - timedelta(days=400))
    [path] = (
        str(item.relative_to(root))
        for item in root.rglob(f"{key_of_request(raw_chat_request(ONE))[:16]}-1.jsonl")
    )
    last_played.mark_played(state, root, [path], now)

    await run_command("rekey", *UUIDS, folder=tmp_path)
    await run_command("prune", "--unused-since", "30d", "--yes", folder=tmp_path)

    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response("1")]
    )
    [name] = file_names(tmp_path)
    assert [
        Path(item).name for item in last_played.read_last_played(state, root).played_at_by_path
    ] == [name]


@pytest.mark.parametrize("command", ["verify", "doctor"])
async def test_files_of_other_rules_are_counted(tmp_path: Path, command: str) -> None:
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"), text_response("2"))

    without_rules = await run_command(command, folder=tmp_path)
    with_rules = await run_command(command, *UUIDS, folder=tmp_path)

    message = "2 cassettes recorded with different --normalise rules; run llm-proxy rekey to apply"
    assert message not in without_rules.stdout + without_rules.stderr
    assert message in with_rules.stdout + with_rules.stderr
    assert with_rules.exit_code == without_rules.exit_code


@each_row(
    ("file_rules", "expected"),
    [
        (("uuids@1",), False),
        (("uuids@1", "llm-pytest@1"), False),
        (("call-ids@1", "uuids@1"), True),
        (("llm-pytest@1",), True),
        ((), True),
    ],
)
def test_only_the_preset_of_a_test_that_a_model_runs_is_no_reason_to_rekey(
    file_rules: tuple[str, ...], expected: bool
) -> None:
    meta = msgspec.structs.replace(
        meta_for_request(route_raw_request(raw_chat_request(ONE))), match_rules=file_rules
    )

    assert needs_rekeying(meta, parse_rules(["uuids"])) == expected


async def test_a_replay_logs_how_many_files_rekeying_would_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write_cassettes(tmp_path, raw_chat_request(ONE), text_response("1"))

    await replayed_bodies(tmp_path, ONE)

    assert (
        "1 cassette recorded with different --normalise rules; run llm-proxy rekey" in caplog.text
    )
