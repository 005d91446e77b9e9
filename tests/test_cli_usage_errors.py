"""Every usage error is one sentence: the place, the given value and what is accepted."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from case_tables import each_row
from llm_proxy.cli import cli
from llm_proxy.cli.commands import click_error_message
from llm_proxy.errors import UsageError

INVALID_PACE = (
    "'3y' is not a valid pace: use recorded, instant, a speed such as 4x or 0.5x, a rate such as "
    "50tps, profile:NAME, or ttft=300ms, prefill=0.5ms, gap=30..80ms, max-gap=2s, chunks=event"
)
INVALID_PORT = "is not an integer from 0 to 65535"


@pytest.fixture(autouse=True)
def _isolated_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no variables of llm-proxy in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LLM_PROXY_"):
            monkeypatch.delenv(name)


def usage_error(*arguments: str) -> str:
    """The error message for an invalid command line."""
    with pytest.raises((click.ClickException, UsageError)) as caught:
        cli.main(list(arguments), prog_name="llm-proxy", standalone_mode=False)
    match caught.value:
        case click.ClickException() as error:
            assert error.exit_code == 2
            return click_error_message(error)
        case error:
            return str(error)


@each_row(
    ("arguments", "expected"),
    [
        ("record --port abc", f"--port: 'abc' {INVALID_PORT}"),
        ("record --port 70000", f"--port: '70000' {INVALID_PORT}"),
        ("replay --port -1", f"--port: '-1' {INVALID_PORT}"),
        ("replay --pace 3y", f"--pace: {INVALID_PACE}"),
        ("replay --log-format xml", "--log-format: 'xml' is not one of text, json"),
        ("replay --after-last no", "--after-last: 'no' is not one of repeat, cycle, fail"),
        ("replay --max-body 0", "--max-body: '0' is not an integer of at least 1"),
        ("record --idle-timeout 0", "--idle-timeout: '0' is not a positive number of seconds"),
        ("record --idle-timeout inf", "--idle-timeout: 'inf' is not a positive number of seconds"),
        (
            "record --upstream x",
            "--upstream: 'x': expected NAME=URL, such as openai=http://127.0.0.1:8000",
        ),
        ("record --upstream a=b", "--upstream: a: 'b' is not an http:// or https:// URL"),
        ("record --upstream-proxy b", "--upstream-proxy: 'b' is not an http:// or https:// URL"),
        ("replay --pace", "--pace requires an argument; see llm-proxy replay --help"),
        ("replay --strict=1", "--strict does not take a value; see llm-proxy replay --help"),
        ("replay --pase", "llm-proxy replay has no option --pase; did you mean --pace?"),
        ("show --ful x", "llm-proxy show has no option --ful; did you mean --full?"),
        ("all --upstrem", "llm-proxy record has no option --upstrem; did you mean --upstream?"),
        (
            "ls --port 1",
            (
                "llm-proxy ls has no option --port; --port is an option of record, replay, auto, "
                "simulate"
            ),
        ),
        (
            "replay --upstream openai=http://127.0.0.1:1",
            (
                "llm-proxy replay has no option --upstream; --upstream is an option of record, "
                "auto, chat, diff, export, rerecord"
            ),
        ),
        (
            "simulate --cassettes c",
            (
                "llm-proxy simulate has no option --cassettes; --cassettes is an option of record, "
                "replay, auto, ls, show, diff and 14 more"
            ),
        ),
        (
            "replay --on-miss record",
            ("--on-miss record: llm-proxy replay never connects to a provider; use llm-proxy auto"),
        ),
        ("--vers", "llm-proxy has no option --vers; did you mean --version?"),
        (
            "--port 1 ls",
            ("put --port after the command name: llm-proxy record --port"),
        ),
        ("recrod", "unknown command 'recrod'; did you mean 'record'?"),
        ("new_episode", "unknown command 'new_episode'; did you mean 'new_episodes'?"),
        (
            "xyzzy",
            "unknown command 'xyzzy'; for a list of commands, run llm-proxy --help",
        ),
        ("show", "missing argument CASSETTE; see llm-proxy show --help"),
        (
            "show a b c",
            "unexpected argument 'b c'; see llm-proxy show --help",
        ),
        ("ls b", "unexpected argument 'b'; see llm-proxy ls --help"),
        (
            "verify b",
            ("no such file or folder: b (omit PATHS to check the whole library)"),
        ),
    ],
)
def test_a_mistake_names_the_place_the_value_and_what_is_right(
    arguments: str, expected: str
) -> None:
    assert usage_error(*arguments.split()) == expected


@each_row(
    ("name", "value", "expected"),
    [
        ("PORT", "abc", f"'abc' {INVALID_PORT}"),
        ("STRICT", "maybe", "'maybe' is not true or false"),
        ("LOG_FORMAT", "xml", "'xml' is not one of text, json"),
        ("PACE", "3y", INVALID_PACE),
        ("UPSTREAM", "a=http://b c=d", "c: 'd' is not an http:// or https:// URL"),
        ("IDLE_TIMEOUT", "nan", "'nan' is not a positive number of seconds"),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(
    name: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(f"LLM_PROXY_{name}", value)
        assert usage_error("auto") == f"LLM_PROXY_{name}: {expected}"


def test_a_flag_that_wins_over_a_variable_is_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LLM_PROXY_PORT", "80")
    assert usage_error("record", "--port", "x") == f"--port: 'x' {INVALID_PORT}"


@each_row(
    ("text", "expected"),
    [
        ('port = "abc"', f"port: 'abc' {INVALID_PORT}"),
        ('pace = "3y"', f"pace: {INVALID_PACE}"),
        ('log-format = "xml"', "log_format: 'xml' is not one of text, json"),
        ('strict = "maybe"', "strict: 'maybe' is not true or false"),
        ("idle-timeout = nan", "idle_timeout: 'nan' is not a positive number of seconds"),
        ("upstream = 3", "upstream: '3': expected NAME=URL, such as openai=http://127.0.0.1:8000"),
        ('[upstream]\na = "b"', "upstream: a: 'b' is not an http:// or https:// URL"),
        ("prot = 1", "unknown setting 'prot'; did you mean 'port'?"),
    ],
    ids=["port", "pace", "choice", "flag", "seconds", "upstream", "URL", "name"],
)
def test_a_mistake_in_a_file_names_the_file_and_the_setting(
    text: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "llm-proxy.toml").write_text(text)
    assert usage_error("auto") == f"{tmp_path / 'llm-proxy.toml'}: {expected}"


def test_a_message_written_by_click_is_one_sentence_too() -> None:
    assert click_error_message(click.ClickException("Something\n  new.")) == (
        "Something new; see llm-proxy --help"
    )
