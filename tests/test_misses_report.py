"""Misses are reported at the end of a run, on its pages, in its report, and in the CI summary."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cli_process import run_command
from in_process_proxy import proxy
from llm_proxy.miss_report import MissDifference, MissedRequest, MissReport, NearestCassette
from llm_proxy.misses.run_summary import (
    MissGroup,
    SummarySection,
    group_misses,
    miss_label,
    miss_lines,
    render_summary,
    repeat_lines,
)
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.server.journal import Journal
from raw_http import build_http_request, send_request
from stored_cassettes import key_of_request, raw_chat_request, text_response, write_cassettes

MISSED_REQUEST = MissedRequest(
    "POST", "/v1/chat/completions", "m", "openai", "openai-chat", "default", "00ff" * 4
)
SEED = MissDifference("$.seed", "1", "2", "", "ignore=$.seed")
MISS = MissReport(
    MISSED_REQUEST,
    "differs",
    "no cassette",
    NearestCassette("cassettes/a.jsonl", "default", 0.9, (SEED,)),
    3,
    ("ignore=$.seed",),
)


def test_the_same_request_is_reported_once_with_its_count() -> None:
    other = replace(MISS, request=replace(MISSED_REQUEST, key="ff00" * 4))
    assert group_misses([MISS, other, MISS]) == (MissGroup(MISS, 2), MissGroup(other, 1))


def test_misses_without_a_key_are_distinguished_by_their_text() -> None:
    texts = [MissReport(text=text) for text in ("a", "b", "a")]
    assert [(group_miss.missed.text, group_miss.times) for group_miss in group_misses(texts)] == [
        ("a", 2),
        ("b", 1),
    ]


def test_a_report_shows_each_missed_request_in_a_few_lines() -> None:
    many = replace(MISS, nearest=replace(MISS.nearest, differences=(SEED,) * 5, more=2))  # type: ignore[type-var] # it is there
    assert list(miss_lines(group_misses([MISS, MISS]))) == [
        "POST /v1/chat/completions (m), key 00ff00ff00ff00ff, 2 times",
        "  nearest: cassettes/a.jsonl (90 % similar)",
        "    $.seed: request has 1, cassette has 2",
        "  matches with: --normalise 'ignore=$.seed'",
    ]
    assert "    and 4 more" in list(miss_lines(group_misses([many])))


def test_a_report_shows_a_limited_number_of_missed_requests() -> None:
    many = [replace(MISS, request=replace(MISSED_REQUEST, key=f"{n:016x}")) for n in range(30)]
    lines = list(miss_lines(group_misses(many)))
    assert len(lines) == 41
    assert lines[-1] == "and 20 requests more"


def test_the_end_of_a_log_counts_the_repeated_misses() -> None:
    times_by_label = {f"POST /{n}": n for n in range(1, 14)}
    lines = list(repeat_lines(times_by_label))
    assert lines[0] == "POST /13: 13 times"
    assert lines[9] == "POST /4: 4 times"
    assert lines[10:] == ["and 2 requests more"]


def test_a_journal_counts_misses_that_it_no_longer_holds() -> None:
    journal = Journal()
    other_misses = (
        replace(MISS, request=replace(MISSED_REQUEST, key=f"{n:016x}")) for n in range(1_200)
    )
    assert [journal.add_miss(MISS) for _ in range(3)] == [True, False, False]
    assert all(journal.add_miss(other_miss) for other_miss in other_misses)
    assert len(journal.misses) == 1_000
    assert journal.repeated_misses.times_by_label == {miss_label(MISS): 3}
    assert not journal.add_miss(MISS)


def test_a_run_without_misses_has_no_summary() -> None:
    empty = SummarySection("unused", ("file",), ())
    assert (list(miss_lines(())), render_summary("llm-proxy replay", (), [empty])) == ([], "")


def test_the_summary_has_a_table_and_folds_the_rest_away() -> None:
    text = unescape(render_summary("llm-proxy replay", group_misses([MISS, MISS])))
    assert text.splitlines()[:7] == [
        "### llm-proxy replay",
        "",
        "**2 requests without a cassette**",
        "",
        "| request | times | nearest cassette | differs at |",
        "| --- | --- | --- | --- |",
        (
            "| POST /v1/chat/completions (m), key 00ff00ff00ff00ff | 2 | "
            "cassettes/a.jsonl (90 % similar) | $.seed |"
        ),
    ]
    assert "<details><summary>POST /v1/chat/completions (m)</summary>" in text
    assert "matches with: --normalise 'ignore=$.seed'" in text


def test_further_sections_add_their_tables_to_the_summary() -> None:
    unused = SummarySection(
        "2 unused", ("file",), [("a.jsonl",), ("b.jsonl",)], "Run `llm-proxy prune`."
    )
    assert unescape(render_summary("llm-proxy replay", (), [unused])).splitlines()[2:] == [
        "**2 unused**",
        "",
        "| file |",
        "| --- |",
        "| a.jsonl |",
        "| b.jsonl |",
        "",
        "Run `llm-proxy prune`.",
        "",
    ]


@each_row(
    "text",
    [
        "a|b", "</pre><script>alert(1)</script>", "[x](http://evil.example)", "![x](y)",
        "https://evil.example/?a=b", "www.evil.example", "`code`", "**bold**", "a\n\n# heading",
        "<img src=x>", "&amp;", "~~~", "\x1b[2J", "\u202e",
    ],
)  # fmt: skip
def test_external_values_are_escaped_in_the_summary(text: str) -> None:
    differing = MissDifference(text, text, text, text, text, text)
    nearest = NearestCassette(text, text, 0.5, (differing,))
    missed = MissReport(
        MissedRequest("POST", text, text, session=text), "differs", text, nearest, 1, (text,)
    )
    plain = render_summary(
        "t",
        [MissGroup(replace(missed, request=MISSED_REQUEST, nearest=None, rules=(), text=""), 1)],
    )
    rendered = render_summary("t", [MissGroup(missed, 1)])
    for unsafe in (
        "<script",
        "<img",
        "](",
        "http:",
        "https:",
        "www.",
        "![",
        "~~~",
        "\x1b",
        "\u202e",
    ):
        assert unsafe not in rendered
    assert rendered.count("\n") == plain.count("\n")
    assert sorted(set(rendered) & set("<>")) == ["<", ">"]
    assert rendered.count("<") == plain.count("<")


@given(st.text(max_size=30))
def test_a_cell_of_the_summary_stays_in_its_row(text: str) -> None:
    rendered = render_summary("t", (), [SummarySection("x", ("a", "b"), [(text, text)])])
    [row] = rendered.splitlines()[6:7]
    assert row.count("|") == 3


async def test_the_page_lists_each_miss_as_json(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request("recorded"), text_response("hello"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as replay_proxy:
        await send_request(replay_proxy.url, raw_chat_request("asked"))
        response = await send_request(
            replay_proxy.url, build_http_request("/_proxy/misses", b"", method="GET")
        )
    [miss] = json.loads(response.body)["misses"]
    assert "no cassette matches POST /v1/chat/completions" in miss.pop("text")
    assert miss == {
        "request": {
            "method": "POST",
            "path": "/v1/chat/completions",
            "model": "m",
            "provider": "openai",
            "dialect": "openai-chat",
            "session": "default",
            "key": key_of_request(raw_chat_request("asked"))[:16],
        },
        "reason": "differs",
        "nearest": {
            "file": str(path),
            "session": "default",
            "similarity": pytest.approx((7 + 2 / 13) / (9 - 2 / 13)),
            "differences": [
                {
                    "path": "$.messages[0].content",
                    "requested": '"asked"',
                    "stored": '"recorded"',
                    "diff": "",
                    "rule": "ignore=$.messages[0].content",
                    "caution": "this rule would ignore the prompt itself; record the request "
                    "instead",
                }
            ],
            "more": 0,
        },
        "compared": 1,
        "rules": [],
    }


async def test_an_unusable_cassette_is_reported_as_a_miss(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
    path.write_text(path.read_text().replace('"content":"x"', '"content":"y"'))
    async with proxy("replay", tmp_path) as replay_proxy:
        await send_request(replay_proxy.url, raw_chat_request())
        [missed] = replay_proxy.journal.misses
    assert (missed.reason, missed.request.key) == (
        "unusable",
        key_of_request(raw_chat_request())[:16],
    )
    assert missed.nearest is not None
    assert missed.nearest.file == str(path)


CLIENT_SCRIPT = """
import json, os, urllib.request as urls
for seed in (1, 1, 2):
    body = {"model":"m","stream":True,"messages":[{"role":"user","content":"hi"}],"seed":seed}
    url = os.environ["LLM_PROXY_URL"] + "/v1/chat/completions"
    try:
        urls.urlopen(urls.Request(url, json.dumps(body).encode()))
    except urls.HTTPError:
        pass
"""


async def test_the_summary_is_headed_by_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(CLIENT_SCRIPT)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "CI": "true"}

    await run_command("auto", "--", "python", "ask.py", folder=tmp_path, env=env)

    summary = unescape((tmp_path / "summary.md").read_text())
    assert summary.startswith("### llm-proxy auto\n")


async def test_a_run_logs_each_miss_once_and_reports_it_in_the_journal_and_in_the_summary(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
    (tmp_path / "ask.py").write_text(CLIENT_SCRIPT)
    (tmp_path / "summary.md").write_text("# before\n")
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    ran = await run_command(
        "replay", "--journal", "run.json", "--", "python", "ask.py", folder=tmp_path, env=env
    )
    reported = await run_command("report", "run.json", folder=tmp_path)

    assert ran.stderr.count("llm-proxy: miss: no cassette matches POST") == 2
    assert ran.stderr.count("$.seed: request has 1, cassette has no value") == 1
    end = ran.stderr.partition("llm-proxy: replayed 0 responses from 0 cassettes, 3 misses\n")[2]
    [repeated] = re.findall(r"^llm-proxy: miss: (POST .* key [0-9a-f]{16}): 2 times\n", end)
    assert f"miss      {repeated}, 2 times" in reported.stdout
    assert "matches with: --normalise 'ignore=$.seed'" in reported.stdout
    summary = unescape((tmp_path / "summary.md").read_text())
    assert summary.startswith("# before\n### llm-proxy replay\n")
    assert "**3 requests without a cassette**" in summary


async def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
    (tmp_path / "ask.py").write_text(CLIENT_SCRIPT)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "none" / "summary.md")}
    ran = await run_command("replay", "--", "python", "ask.py", folder=tmp_path, env=env)
    assert ran.exit_code == 0
    assert "GITHUB_STEP_SUMMARY" in ran.last_error_line


SCRIPT_WITH_SECRETS = """
import json, os, urllib.error, urllib.request
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "mcp", "authorization": "canary-1"}], "apiKey": "canary-2",
        "mcp_servers": [{"authorization_token": "canary-3"}], "auth": {"user_password": "canary-4"}}
headers = {"Content-Type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
try:
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""


async def test_no_miss_shows_the_value_of_a_field_named_like_a_secret(
    tmp_path: Path,
) -> None:
    """Neither the request's nor the cassette's value appears in any report; the paths do."""
    stored = raw_chat_request().replace(b'{"model"', b'{"apiKey":"canary-5","model"')
    write_cassettes(tmp_path, stored, text_response("x"))
    (tmp_path / "ask.py").write_text(SCRIPT_WITH_SECRETS)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    ran = await run_command(
        "replay", "--journal", "run.json", "--", "python", "ask.py", folder=tmp_path, env=env
    )
    reported = await run_command("report", "run.json", folder=tmp_path)
    body = SCRIPT_WITH_SECRETS.partition("body = ")[2].partition("\nheaders")[0]
    (tmp_path / "request.json").write_text(json.dumps(literal_eval(body)))
    explained = [
        await run_command("explain", "request.json", *options, folder=tmp_path)
        for options in ((), ("--json",))
    ]

    journal, page = (tmp_path / "run.json").read_text(), (tmp_path / "summary.md").read_text()
    texts = [
        ran.stdout,
        ran.stderr,
        reported.stdout,
        journal,
        page,
        *(item.stdout for item in explained),
    ]
    assert [text for text in texts if "canary" in text] == []
    assert [text for text in texts if "servers" not in text] == []
