"""Misses are told at the end of a run, on its pages, in its report, and on the page of a CI job."""

from __future__ import annotations

import json
from ast import literal_eval
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_process import run
from in_process_proxy import proxy
from llm_proxy.miss_report import MissDifference, MissedRequest, MissReport, NearestCassette
from llm_proxy.misses.grouping import MissGroup, group_misses, miss_log_lines
from llm_proxy.misses.step_summary import SummarySection, render_summary
from llm_proxy.pacing import InstantPace
from raw_http import ask, post
from stored_cassettes import chat, key_of, put, says

ASKED = MissedRequest(
    "POST", "/v1/chat/completions", "m", "openai", "openai-chat", "default", "00ff" * 4
)
SEED = MissDifference("$.seed", "1", "2", "", "ignore=$.seed")
MISSED = MissReport(
    ASKED,
    "differs",
    "no cassette",
    NearestCassette("cassettes/a.jsonl", "default", 0.9, (SEED,)),
    3,
    ("ignore=$.seed",),
)


def test_the_same_request_is_told_once_with_its_count() -> None:
    other = replace(MISSED, asked=replace(ASKED, key="ff00" * 4))
    assert group_misses([MISSED, other, MISSED]) == (MissGroup(MISSED, 2), MissGroup(other, 1))


def test_what_has_no_key_is_told_apart_by_its_text() -> None:
    texts = [MissReport(text=text) for text in ("a", "b", "a")]
    assert [(group_miss.missed.text, group_miss.times) for group_miss in group_misses(texts)] == [
        ("a", 2),
        ("b", 1),
    ]


def test_the_end_of_a_run_tells_each_request_in_a_few_lines() -> None:
    many = replace(MISSED, nearest=replace(MISSED.nearest, differences=(SEED,) * 5, more=2))  # type: ignore[type-var] # it is there
    assert list(miss_log_lines(group_misses([MISSED, MISSED]))) == [
        "missed: POST /v1/chat/completions (m), 2 times",
        "  nearest: cassettes/a.jsonl (90 % alike)",
        "    $.seed: 1, cassette has 2",
        "  it answers with: --normalise 'ignore=$.seed'",
    ]
    assert "    and 4 more" in list(miss_log_lines(group_misses([many])))


def test_the_end_of_a_run_does_not_tell_them_all() -> None:
    many = [replace(MISSED, asked=replace(ASKED, key=f"{n:016x}")) for n in range(30)]
    told = list(miss_log_lines(group_misses(many)))
    assert len(told) == 41
    assert told[-1] == "and 20 requests more: see --journal FILE and llm-proxy report FILE"


def test_a_run_without_misses_has_no_summary() -> None:
    empty = SummarySection("unused", ("file",), ())
    assert (list(miss_log_lines(())), render_summary("llm-proxy replay", (), [empty])) == ([], "")


def test_the_summary_has_a_table_and_folds_the_rest_away() -> None:
    text = unescape(render_summary("llm-proxy replay", group_misses([MISSED, MISSED])))
    assert text.splitlines()[:7] == [
        "### llm-proxy replay",
        "",
        "**2 requests without a cassette**",
        "",
        "| request | times | nearest cassette | differs at |",
        "| --- | --- | --- | --- |",
        "| POST /v1/chat/completions (m) | 2 | cassettes/a.jsonl (90 % alike) | $.seed |",
    ]
    assert "<details><summary>POST /v1/chat/completions (m)</summary>" in text
    assert "answers with: --normalise 'ignore=$.seed'" in text


def test_others_add_their_tables_to_the_summary() -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        "a|b", "</pre><script>alert(1)</script>", "[x](http://evil.example)", "![x](y)",
        "https://evil.example/?a=b", "www.evil.example", "`code`", "**bold**", "a\n\n# heading",
        "<img src=x>", "&amp;", "~~~", "\x1b[2J", "\u202e",
    ],
)  # fmt: skip
def test_what_came_from_outside_is_only_text(text: str) -> None:
    differing = MissDifference(text, text, text, text, text, text)
    nearest = NearestCassette(text, text, 0.5, (differing,))
    missed = MissReport(
        MissedRequest("POST", text, text, session=text), "differs", text, nearest, 1, (text,)
    )
    plain = render_summary(
        "t", [MissGroup(replace(missed, asked=ASKED, nearest=None, rules=(), text=""), 1)]
    )
    told = render_summary("t", [MissGroup(missed, 1)])
    for mark in ("<script", "<img", "](", "http:", "https:", "www.", "![", "~~~", "\x1b", "\u202e"):
        assert mark not in told
    assert told.count("\n") == plain.count("\n")
    assert sorted(set(told) & set("<>")) == ["<", ">"]
    assert told.count("<") == plain.count("<")


@settings(max_examples=20)
@given(st.text(max_size=30))
def test_a_cell_of_the_summary_stays_in_its_row(text: str) -> None:
    told = render_summary("t", (), [SummarySection("x", ("a", "b"), [(text, text)])])
    [row] = told.splitlines()[6:7]
    assert row.count("|") == 3


async def test_the_page_tells_each_miss_as_values(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat("recorded"), says("hello"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as it:
        await ask(it.url, chat("asked"))
        raw = await ask(it.url, post("/_proxy/misses", b"", method="GET"))
    [miss] = json.loads(raw.body)["misses"]
    assert "no cassette for POST /v1/chat/completions" in miss.pop("text")
    assert miss == {
        "asked": {
            "method": "POST",
            "path": "/v1/chat/completions",
            "model": "m",
            "provider": "openai",
            "dialect": "openai-chat",
            "session": "default",
            "key": key_of(chat("asked"))[:16],
        },
        "why": "differs",
        "nearest": {
            "file": str(path),
            "session": "default",
            "likeness": pytest.approx((7 + 2 / 13) / (9 - 2 / 13)),
            "differences": [
                {
                    "path": "$.messages[0].content",
                    "asked": '"asked"',
                    "stored": '"recorded"',
                    "diff": "",
                    "rule": "ignore=$.messages[0].content",
                    "caution": "what is asked would not count: record it instead",
                }
            ],
            "more": 0,
        },
        "looked_at": 1,
        "rules": [],
    }


async def test_a_cassette_that_cannot_be_trusted_is_told_as_a_miss(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("x"))
    path.write_text(path.read_text().replace('"content":"x"', '"content":"y"'))
    async with proxy("replay", tmp_path) as it:
        await ask(it.url, chat())
        [missed] = it.journal.misses
    assert (missed.why, missed.asked.key) == ("unusable", key_of(chat())[:16])
    assert missed.nearest is not None
    assert missed.nearest.file == str(path)


ASK = """
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
    (tmp_path / "ask.py").write_text(ASK)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "CI": "true"}

    await run("auto", "--", "python", "ask.py", folder=tmp_path, env=env)

    summary = unescape((tmp_path / "summary.md").read_text())
    assert summary.startswith("### llm-proxy auto\n")


async def test_a_run_ends_with_its_misses_and_leaves_them_where_they_are_looked_for(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), says("x"))
    (tmp_path / "ask.py").write_text(ASK)
    (tmp_path / "summary.md").write_text("# before\n")
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    ran = await run(
        "replay", "--journal", "run.json", "--", "python", "ask.py", folder=tmp_path, env=env
    )
    reported = await run("report", "run.json", folder=tmp_path)

    told = [
        "missed: POST /v1/chat/completions (m), 2 times",
        "$.seed: 1, not in the cassette",
        "it answers with: --normalise 'ignore=$.seed'",
    ]
    end = ran.err.partition("not answered from a cassette: 3 requests")[2]
    assert [text for text in told if text not in end] == []
    assert "miss      POST /v1/chat/completions (m), 2 times" in reported.out
    assert told[2] in reported.out
    summary = unescape((tmp_path / "summary.md").read_text())
    assert summary.startswith("# before\n### llm-proxy replay\n")
    assert "**3 requests without a cassette**" in summary


async def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("x"))
    (tmp_path / "ask.py").write_text(ASK)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "none" / "summary.md")}
    ran = await run("replay", "--", "python", "ask.py", folder=tmp_path, env=env)
    assert ran.code == 0
    assert "GITHUB_STEP_SUMMARY" in ran.complaint


ASK_WITH_KEYS = """
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


async def test_no_miss_tells_the_value_of_a_field_that_is_called_like_a_secret(
    tmp_path: Path,
) -> None:
    """Neither the request's nor the cassette's, wherever misses are told; the paths are."""
    stored = chat().replace(b'{"model"', b'{"apiKey":"canary-5","model"')
    put(tmp_path, stored, says("x"))
    (tmp_path / "ask.py").write_text(ASK_WITH_KEYS)
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    ran = await run(
        "replay", "--journal", "run.json", "--", "python", "ask.py", folder=tmp_path, env=env
    )
    reported = await run("report", "run.json", folder=tmp_path)
    body = ASK_WITH_KEYS.partition("body = ")[2].partition("\nheaders")[0]
    (tmp_path / "request.json").write_text(json.dumps(literal_eval(body)))
    explained = [
        await run("explain", "request.json", *options, folder=tmp_path)
        for options in ((), ("--json",))
    ]

    journal, page = (tmp_path / "run.json").read_text(), (tmp_path / "summary.md").read_text()
    texts = [ran.out, ran.err, reported.out, journal, page, *(item.out for item in explained)]
    assert [text for text in texts if "canary" in text] == []
    assert [text for text in texts if "apiKey" not in text] == []
