"""`--match nearest`: without an equal cassette the nearest one answers, and is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_process import run_command
from in_process_proxy import proxy
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from raw_http import RawResponse, build_http_request, send_request
from stored_cassettes import StoredResponse, response_bodies, text_response, write_cassettes
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
    return build_http_request(path, json.dumps(BODY | changes).encode(), *headers)


def nearest_options(share: float = 0.7, *rules: str) -> dict[str, Any]:
    return {"pace": INSTANT, "match_rules": parse_rules(rules), "nearest": share}


async def replay(folder: Path, *requests: bytes, share: float = 0.7) -> list[RawResponse]:
    async with proxy("replay", folder, **nearest_options(share)) as replay_proxy:
        return [await send_request(replay_proxy.url, item) for item in requests]


async def test_a_response_of_the_nearest_cassette_is_marked_everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = text_response("one")
    [path] = write_cassettes(tmp_path, request(), answer)
    async with proxy("replay", tmp_path, **nearest_options()) as replay_proxy:
        response = await send_request(replay_proxy.url, request(seed=2))
        same = await send_request(replay_proxy.url, request())
        [nearest_entry, exact_entry] = replay_proxy.journal.entries
        counts = replay_proxy.journal.counts

    assert (response.status, response.body) == (200, response_bodies([answer])[0])
    assert response.header("x-llm-proxy-nearest") == f"0.84 {path}"
    assert same.header("x-llm-proxy-nearest") is None
    assert (
        nearest_entry.origin,
        round(nearest_entry.similarity or 0, 2),
        exact_entry.similarity,
    ) == (
        str(path),
        0.85,
        None,
    )
    assert (counts.answered_by_nearest, counts.missed, counts.replayed) == (1, 0, 2)
    assert "no cassette matches; using the nearest one (similarity 84 %)" in caplog.text


async def test_takes_of_the_nearest_answer_in_the_order_of_the_new_request(tmp_path: Path) -> None:
    answers = [text_response("one"), text_response("two")]
    write_cassettes(tmp_path, request(), *answers)
    responses = await replay(tmp_path, *[request(seed=2)] * 3, request(seed=3))
    assert [raw.body for raw in responses] == response_bodies([*answers, answers[1], answers[0]])


@pytest.mark.parametrize(
    "requested",
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
async def test_the_nearest_never_answers_a_request_of_another_kind(
    tmp_path: Path, requested: bytes
) -> None:
    write_cassettes(tmp_path, request(), text_response("one"))
    [raw] = await replay(tmp_path, requested)
    assert raw.status == 424


async def test_another_sessions_cassette_is_never_the_nearest(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(path=f"/@mine{PATH}"), text_response("mine"))
    theirs, mine = await replay(
        tmp_path, request(path=f"/@theirs{PATH}", seed=2), request(path=f"/@mine{PATH}", seed=2)
    )
    assert (theirs.status, mine.status) == (424, 200)


async def test_an_incomplete_cassette_is_skipped(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(seed=2), StoredResponse(text_response("torn").reads[:-1]))
    write_cassettes(tmp_path, request(seed=2, temperature=1), text_response("whole"))
    [raw] = await replay(tmp_path, request(seed=3), share=0.5)
    assert raw.body == response_bodies([text_response("whole")])[0]


async def test_the_nearest_never_answers_for_another_model_of_a_form(tmp_path: Path) -> None:
    form = (
        '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n{}\r\n'
        '--b\r\nContent-Disposition: form-data; name="language"\r\n\r\n{}\r\n--b--\r\n'
    )
    path, content_type = "/v1/audio/transcriptions", "Content-Type: multipart/form-data; boundary=b"
    write_cassettes(
        tmp_path,
        build_http_request(path, form.format("m", "de").encode(), content_type),
        text_response("one"),
    )
    forms = [form.format("n", "de"), form.format("m", "en")]
    other, same = await replay(
        tmp_path,
        *(build_http_request(path, item.encode(), content_type) for item in forms),
        share=0.5,
    )
    assert (other.status, same.status) == (424, 200)


def request_with_tools(text: str, *further_texts: str) -> bytes:
    """A request with many tools, nearly all of which is the same whatever the prompt."""
    tools = [{"type": "function", "function": {"name": f"tool_{n}"}} for n in range(40)]
    messages = [{"role": "user", "content": item} for item in (text, *further_texts)]
    return request(messages=messages, tools=tools)


@pytest.mark.parametrize(
    ("requested", "status"),
    [
        (request_with_tools("Drop table users"), 424),
        (request_with_tools("Name three rivers.", "Drop table users"), 424),
        (request_with_tools("Name three rivers"), 200),
    ],
    ids=["another question", "one more message", "but for the full stop"],
)
async def test_the_prompt_must_be_similar_too(
    tmp_path: Path, requested: bytes, status: int
) -> None:
    write_cassettes(
        tmp_path, request_with_tools("Name three rivers."), text_response("Rhine, Main, Spree")
    )
    [raw] = await replay(tmp_path, requested, share=0.9)
    assert raw.status == status


async def test_of_two_cassettes_the_one_with_the_more_similar_prompt_answers(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, request_with_tools("Bring tea."), text_response("tea"))
    write_cassettes(tmp_path, request_with_tools("Name three rivers."), text_response("rivers"))
    raws = await replay(
        tmp_path,
        request_with_tools("Name three rivers"),
        request_with_tools("Bring me tea."),
        share=0.6,
    )
    assert [raw.body for raw in raws] == response_bodies(
        [text_response("rivers"), text_response("tea")]
    )


async def test_a_rule_allows_another_model(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(), text_response("one"))
    async with proxy("replay", tmp_path, **nearest_options(0.7, "ignore=$.model")) as replay_proxy:
        response = await send_request(replay_proxy.url, request(model="n", seed=2))
    assert response.status == 200


async def test_auto_goes_live_instead(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(), text_response("recorded"))
    async with upstream(chunked(response_bodies([text_response("live")]))) as live:
        async with proxy("auto", tmp_path, live.url, **nearest_options()) as auto_proxy:
            response = await send_request(auto_proxy.url, request(seed=2))
    assert response.body == response_bodies([text_response("live")])[0]


async def test_auto_that_fails_on_a_miss_uses_the_nearest(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(), text_response("recorded"))
    async with proxy("auto", tmp_path, on_miss="fail", **nearest_options()) as auto_proxy:
        response = await send_request(auto_proxy.url, request(seed=2))
    assert response.body == response_bodies([text_response("recorded")])[0]


async def test_the_end_of_a_run_and_its_report_say_how_many(tmp_path: Path) -> None:
    write_cassettes(tmp_path, request(), text_response("one"))
    (tmp_path / "ask.py").write_text(
        "import json, os, urllib.request as urls\n"
        f"body = json.dumps({BODY | {'seed': 2}!r}).encode()\n"
        "url = os.environ['LLM_PROXY_URL'] + '/v1/chat/completions'\n"
        "urls.urlopen(urls.Request(url, body)).read()\n"
    )
    options = ("--match", "nearest:0.7", "--strict", "--journal", "run.json")
    ran = await run_command(
        "replay", *options, "--", "python", "ask.py", folder=tmp_path,
        env={"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")},
    )  # fmt: skip
    reported = await run_command("report", "run.json", folder=tmp_path)

    assert ran.exit_code == 0
    assert "1 request replayed from the nearest cassette, because no cassette matched" in ran.stderr
    assert (
        "nearest   1 response replayed from the nearest cassette, because no cassette matched"
        in reported.stdout
    )
    summary = (tmp_path / "summary.md").read_text()
    assert "1 request replayed from the nearest cassette" in summary
    assert "84 %" in summary
