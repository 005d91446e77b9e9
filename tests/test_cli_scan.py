"""`llm-proxy scan`, on files and on the git index, and what code scanning gets of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import sample_cassettes
from case_tables import each_row
from cli_process import environment, run_command
from stored_cassettes import raw_chat_request, text_response, write_cassettes

KEY: Final = "sk-ant-" + "api03-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8v"
ROOT: Final = Path(__file__).parents[1]
GIT: Final = shutil.which("git") or ""
HIDDEN: Final = f"anthropic-key: sk-a… ({len(KEY)} characters)"


def write_cassette_with_secret(folder: Path) -> Path:
    """Write a cassette whose answer contains a key, in pieces."""
    response = text_response("It is ", KEY[:12], KEY[12:], ".")
    return write_cassettes(folder, raw_chat_request("hi"), response)[0]


async def test_a_clean_library_passes(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)

    result = await run_command("scan", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.last_error_line == "llm-proxy: 1 file scanned, no secrets found"


async def test_each_secret_is_a_line_without_its_value_and_the_advice_follows(
    tmp_path: Path,
) -> None:
    path = write_cassette_with_secret(tmp_path).relative_to(tmp_path)
    (tmp_path / "notes.txt").write_text(f"\n{KEY}\n")

    result = await run_command("scan", "cassettes", "notes.txt", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{path}:5: {HIDDEN} at response text $.choices[0].delta.content, messages 2 to 3",
        f"notes.txt:2: {HIDDEN}",
    ]
    assert result.stderr.splitlines() == [
        "llm-proxy: 2 files scanned, 2 secrets found in 2 files",
        f"llm-proxy: to remove secrets from cassettes, run llm-proxy scrub --write {path}",
        "llm-proxy: revoke each secret that other people may have seen",
    ]
    library_result = await run_command("scan", folder=tmp_path)
    assert library_result.stderr.splitlines()[1] == (
        "llm-proxy: to remove secrets from cassettes, run llm-proxy scrub --write"
    )
    other_result = await run_command("scan", "notes.txt", folder=tmp_path)
    assert other_result.stderr.splitlines() == [
        "llm-proxy: 1 file scanned, 1 secret found in 1 file",
        "llm-proxy: revoke each secret that other people may have seen",
    ]


async def test_secrets_of_the_environment_are_found(tmp_path: Path) -> None:
    secret = "tops3cr3t" + "x9k2m4q8"
    (tmp_path / "notes.txt").write_text(secret)

    result = await run_command("scan", ".", folder=tmp_path, env={"ACME_API_KEY": secret})

    assert result.stdout == f"notes.txt:1: environment: tops… ({len(secret)} characters)\n"


async def test_rules_are_added_and_disabled(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(f"{KEY} me@example.com")

    result = await run_command(
        "scan", "notes.txt", "--redact", "email", "--no-redact", "anthropic-key", folder=tmp_path
    )

    assert result.stdout == "notes.txt:1: email: me@… (14 characters)\n"


@each_row("option", [["--json"], ["--format", "json"]])
async def test_json_is_one_document(tmp_path: Path, option: list[str]) -> None:
    path = write_cassette_with_secret(tmp_path).relative_to(tmp_path)

    result = await run_command("scan", *option, folder=tmp_path)

    assert json.loads(result.stdout) == {
        "ok": False,
        "scanned": 1,
        "findings": [
            {
                "file": str(path),
                "line": 5,
                "place": "response text $.choices[0].delta.content, messages 2 to 3",
                "rule": "anthropic-key",
                "start": "sk-a",
                "characters": len(KEY),
            }
        ],
        "older_rules": [],
        "unreadable": [],
    }


async def test_older_rules_fail_only_where_that_is_asked(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    sample_cassettes.replace_in_file(path, '"redaction_rules":3', '"redaction_rules":2')

    result = await run_command("scan", folder=tmp_path)
    strict = await run_command("scan", "--strict", folder=tmp_path)
    listing = await run_command("ls", folder=tmp_path)
    doctor = await run_command("doctor", folder=tmp_path)

    message = "1 cassette redacted by older rules; run llm-proxy scrub --write to apply"
    assert (result.exit_code, strict.exit_code) == (0, 1)
    assert message in result.last_error_line
    assert "older rules" in listing.stdout
    assert "1 redacted by older rules" in listing.last_error_line
    assert message in doctor.stdout


@each_row(
    ("arguments", "message"),
    [
        (["missing"], "no such file or folder: missing"),
        (["--format", "xml"], "'xml' is not one of text, json, sarif"),
        (["--staged"], "--staged: git failed: not a git repository"),
        (["--cassettes", "missing"], "no such folder: missing (set --cassettes)"),
    ],
)
async def test_a_mistake_is_exit_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = await run_command("scan", *arguments, folder=tmp_path)

    assert result.exit_code == 2
    assert message in result.stderr


async def test_a_file_that_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    torn = sample_cassettes.write_truncated(tmp_path).relative_to(tmp_path)
    (tmp_path / "a.gz").write_bytes(b"text")

    result = await run_command("scan", "cassettes", "a.gz", folder=tmp_path)

    assert result.exit_code == 2
    first, second = result.stdout.splitlines()
    assert first.startswith(f"unreadable: {torn}:7: the file is truncated")
    assert second.startswith("unreadable: a.gz: cannot decode the gzip data: ")


# --- the git index ------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(
        [GIT, *identity, *arguments],
        cwd=folder,
        env=environment(folder),
        check=True,
        capture_output=True,
    )


async def test_the_index_is_scanned_and_not_the_work_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name, text in (("old.txt", KEY), ("staged\n.txt", KEY), ("moved.txt", f"\n{KEY}\n")):
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "old.txt", "moved.txt")
    git(tmp_path, "commit", "-q", "-m", "a")
    git(tmp_path, "add", ".")
    git(tmp_path, "mv", "moved.txt", "renamed.txt")
    git(tmp_path, "rm", "-q", "old.txt")
    (tmp_path / "staged\n.txt").write_text("clean in the work tree")
    (tmp_path / "untracked.txt").write_text(KEY)

    result = await run_command("scan", "--staged", folder=tmp_path)
    one_file = await run_command("scan", "--staged", "renamed.txt", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"renamed.txt:2: {HIDDEN}",
        f"staged⏎.txt:1: {HIDDEN}",
    ]
    assert one_file.stdout == f"renamed.txt:2: {HIDDEN}\n"


def test_the_hook_of_pre_commit_runs_a_command_that_exists() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

    assert hook["id"] == "llm-proxy-scan"
    assert hook["entry"] == "llm-proxy scan --"
    assert {"name", "language", "types"} <= hook.keys()


# --- SARIF --------------------------------------------------------------------------------------


async def sarif_run(folder: Path, *paths: str) -> Any:
    result = await run_command("scan", *paths, "--format", "sarif", folder=folder)
    document = json.loads(result.stdout)
    assert document["version"] == "2.1.0"
    [run] = document["runs"]
    assert KEY[4:] not in result.stdout
    return run


async def test_sarif_has_what_code_scanning_requires(tmp_path: Path) -> None:
    path = write_cassette_with_secret(tmp_path).relative_to(tmp_path)
    (tmp_path / "a b.txt").write_text(f"{KEY}\n{KEY}")

    run = await sarif_run(tmp_path, "cassettes", "a b.txt")

    driver = run["tool"]["driver"]
    assert driver["name"] == "llm-proxy"
    assert [rule["id"] for rule in driver["rules"]] == ["anthropic-key"]
    assert driver["rules"][0]["shortDescription"]["text"] == (
        "Secret: Anthropic API, admin and session keys, and OAuth tokens"
    )
    locations = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [
        (each["artifactLocation"]["uri"], each["region"]["startLine"]) for each in locations
    ] == [(str(path), 5), ("a%20b.txt", 1), ("a%20b.txt", 2)]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert HIDDEN in result["message"]["text"]
    fingerprints = {result["partialFingerprints"]["secretPlace/v1"] for result in run["results"]}
    assert len(fingerprints) == 3
    assert run["invocations"][0]["executionSuccessful"] is True


async def test_sarif_names_files_that_could_not_be_read(tmp_path: Path) -> None:
    sample_cassettes.write_truncated(tmp_path)

    run = await sarif_run(tmp_path)

    [invocation] = run["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert "the file is truncated" in notification["message"]["text"]


@pytest.mark.parametrize("command", ["scan", "scrub"])
async def test_a_server_setting_is_not_taken_for_an_option_of_the_scan(
    tmp_path: Path, command: str
) -> None:
    sample_cassettes.write_complete(tmp_path)
    (tmp_path / "llm-proxy.toml").write_text('strict = true\nredact = ["email"]\n')

    result = await run_command(command, folder=tmp_path)

    assert result.exit_code == 0
