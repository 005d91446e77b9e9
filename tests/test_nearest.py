"""Looser on purpose: where none is the same the nearest cassette answers, and that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_process import run
from in_process_proxy import proxy
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import MatchingOptions
from raw_http import Raw, ask, post
from stored_cassettes import Answer, bodies, put, says
from stub_upstream import chunked, upstream

INSTANT = InstantPace()
BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "temperature": 0,
    "seed": 1,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
}
PATH = "/v1/chat/completions"


def request(*headers: str, path: str = PATH, **changes: Any) -> bytes:
    return post(path, json.dumps(BODY | changes).encode(), *headers)


def loosely(share: float = 0.7, *rules: str) -> dict[str, Any]:
    return {"pace": INSTANT, "matching": MatchingOptions(rules=parse_rules(rules), nearest=share)}


async def replayed(folder: Path, *asked: bytes, share: float = 0.7) -> list[Raw]:
    async with proxy("replay", folder, **loosely(share)) as it:
        return [await ask(it.url, item) for item in asked]


async def test_the_nearest_answers_and_is_marked_everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = says("one")
    [path] = put(tmp_path, request(), answer)
    async with proxy("replay", tmp_path, **loosely()) as it:
        raw = await ask(it.url, request(seed=2))
        same = await ask(it.url, request())
        [alike, exact] = it.journal.entries
        counts = it.journal.counts

    assert (raw.status, raw.body) == (200, bodies([answer])[0])
    assert raw.header("x-llm-proxy-nearest") == f"0.84 {path}"
    assert same.header("x-llm-proxy-nearest") is None
    assert (alike.origin, round(alike.likeness or 0, 2), exact.likeness) == (str(path), 0.85, None)
    assert (counts.nearest, counts.missed, counts.replayed) == (1, 0, 2)
    assert "the nearest answers, which is 84 % alike" in caplog.text


async def test_its_takes_answer_in_the_order_of_the_asked_request(tmp_path: Path) -> None:
    answers = [says("one"), says("two")]
    put(tmp_path, request(), *answers)
    got = await replayed(tmp_path, *[request(seed=2)] * 3, request(seed=3))
    assert [raw.body for raw in got] == bodies([*answers, answers[1], answers[0]])


@pytest.mark.parametrize(
    "asked",
    [
        request(stream=False),
        request(model="n"),
        request(path="/v2/chat/completions"),
        request(path="/~groq/v1/chat/completions"),
        request(messages=[]),
        request(path="/@other/v1/chat/completions", stream=False),
    ],
    ids=["no stream", "another model", "another path", "another provider", "too far", "session"],
)
async def test_it_never_answers_for_something_else(tmp_path: Path, asked: bytes) -> None:
    put(tmp_path, request(), says("one"))
    [raw] = await replayed(tmp_path, asked)
    assert raw.status == 424


async def test_another_sessions_cassette_is_never_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, request(path=f"/@mine{PATH}"), says("mine"))
    theirs, mine = await replayed(
        tmp_path, request(path=f"/@theirs{PATH}", seed=2), request(path=f"/@mine{PATH}", seed=2)
    )
    assert (theirs.status, mine.status) == (424, 200)


async def test_one_that_is_not_complete_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, request(seed=2), Answer(says("torn").reads[:-1]))
    put(tmp_path, request(seed=2, temperature=1), says("whole"))
    [raw] = await replayed(tmp_path, request(seed=3), share=0.5)
    assert raw.body == bodies([says("whole")])[0]


async def test_it_never_answers_for_another_model_that_a_form_names(tmp_path: Path) -> None:
    form = (
        '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n{}\r\n'
        '--b\r\nContent-Disposition: form-data; name="language"\r\n\r\n{}\r\n--b--\r\n'
    )
    path, kind = "/v1/audio/transcriptions", "Content-Type: multipart/form-data; boundary=b"
    put(tmp_path, post(path, form.format("m", "de").encode(), kind), says("one"))
    asked = [form.format("n", "de"), form.format("m", "en")]
    other, same = await replayed(
        tmp_path, *(post(path, item.encode(), kind) for item in asked), share=0.5
    )
    assert (other.status, same.status) == (424, 200)


def asking(text: str, *beside: str) -> bytes:
    """A request with many tools, so that nearly all of it is the same whatever is asked."""
    tools = [{"type": "function", "function": {"name": f"tool_{n}"}} for n in range(40)]
    messages = [{"role": "user", "content": item} for item in (text, *beside)]
    return request(messages=messages, tools=tools)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (asking("Drop table users"), 424),
        (asking("Name three rivers.", "Drop table users"), 424),
        (asking("Name three rivers"), 200),
    ],
    ids=["another question", "one more message", "but for the full stop"],
)
async def test_what_is_asked_must_be_alike_too(tmp_path: Path, asked: bytes, status: int) -> None:
    put(tmp_path, asking("Name three rivers."), says("Rhine, Main, Spree"))
    [raw] = await replayed(tmp_path, asked, share=0.9)
    assert raw.status == status


async def test_of_two_the_one_answers_that_reads_alike(tmp_path: Path) -> None:
    put(tmp_path, asking("Bring tea."), says("tea"))
    put(tmp_path, asking("Name three rivers."), says("rivers"))
    raws = await replayed(tmp_path, asking("Name three rivers"), asking("Bring me tea."), share=0.6)
    assert [raw.body for raw in raws] == bodies([says("rivers"), says("tea")])


async def test_a_rule_lets_another_model_be_alike(tmp_path: Path) -> None:
    put(tmp_path, request(), says("one"))
    async with proxy("replay", tmp_path, **loosely(0.7, "ignore=$.model")) as it:
        raw = await ask(it.url, request(model="n", seed=2))
    assert raw.status == 200


async def test_auto_goes_live_instead(tmp_path: Path) -> None:
    put(tmp_path, request(), says("recorded"))
    async with upstream(chunked(bodies([says("live")]))) as live:
        async with proxy("auto", tmp_path, live.url, **loosely()) as it:
            raw = await ask(it.url, request(seed=2))
    assert raw.body == bodies([says("live")])[0]


async def test_auto_that_goes_nowhere_is_answered_by_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, request(), says("recorded"))
    async with proxy("auto", tmp_path, on_miss="fail", **loosely()) as it:
        raw = await ask(it.url, request(seed=2))
    assert raw.body == bodies([says("recorded")])[0]


async def test_the_end_of_a_run_and_its_report_say_how_many(tmp_path: Path) -> None:
    put(tmp_path, request(), says("one"))
    (tmp_path / "ask.py").write_text(
        "import json, os, urllib.request as urls\n"
        f"body = json.dumps({BODY | {'seed': 2}!r}).encode()\n"
        "url = os.environ['LLM_PROXY_URL'] + '/v1/chat/completions'\n"
        "urls.urlopen(urls.Request(url, body)).read()\n"
    )
    options = ("--match", "nearest:0.7", "--strict", "--journal", "run.json")
    ran = await run(
        "replay", *options, "--", "python", "ask.py", folder=tmp_path,
        env={"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")},
    )  # fmt: skip
    reported = await run("report", "run.json", folder=tmp_path)

    assert ran.code == 0
    assert "answered by the nearest cassette, not the same: 1 request" in ran.err
    assert "nearest   1 answer of a cassette that is only alike" in reported.out
    summary = (tmp_path / "summary.md").read_text()
    assert "1 request answered by the nearest cassette" in summary
    assert "84 %" in summary
