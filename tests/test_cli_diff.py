"""`llm-proxy diff`: two cassettes, or a cassette and a live answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import run
from raw_http import post
from stored_cassettes import Answer, bodies, chat, event, key_of, put, says
from stub_upstream import chunked, upstream, whole

KEY = key_of(chat())[:16]
QUERY = post("/v1beta/models/m:generateContent?key=AIzaSyExampleExample", b'{"contents":[]}')


async def test_two_takes_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("The red car is far away"), says("The green car is far away"))

    ran = await run("diff", f"{KEY}-1", f"{KEY}-2", folder=tmp_path)

    lines = ran.out.splitlines()
    assert ran.code == 1
    assert lines[:3] == [
        f"- cassettes/openai-chat/m/{KEY}-1.jsonl",
        f"+ cassettes/openai-chat/m/{KEY}-2.jsonl",
        "said      turns[0].parts[0].text  The red car is far away → The green car is far away",
    ]
    assert any("[-red-] {+green+} car" in line for line in lines)
    assert ran.err == "llm-proxy: 4 differences\n"


async def test_takes_that_say_the_same_at_other_times_are_the_same(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("Yes."), says("Yes.", gap=20))

    ran = await run("diff", f"{KEY}-1", f"{KEY}-2", folder=tmp_path)

    assert ran.code == 0
    assert "different, and no matter:\ntime      first byte  0.00 ms → 20 ms\n" in ran.out
    assert ran.err == "llm-proxy: the same, but for what is no matter\n"


async def test_rules_say_what_of_a_request_is_no_matter(tmp_path: Path) -> None:
    put(tmp_path, chat("one"), says("Yes."))
    put(tmp_path, chat("two"), says("Yes."))
    both = [key_of(chat(item))[:16] for item in ("one", "two")]

    plain = await run("diff", *both, folder=tmp_path)
    under = await run("diff", *both, "--normalise", "ignore=$.messages[0].content", folder=tmp_path)

    assert (plain.code, under.code) == (1, 0)
    assert 'asked     $.messages[0].content  "one" → "two"\n' in plain.out


async def test_json_is_one_document(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("One"), says("Two"))

    ran = await run("diff", f"{KEY}-1", f"{KEY}-2", "--json", folder=tmp_path)

    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert {name: document[name] for name in ("one", "manner", "same")} == {
        "one": f"cassettes/openai-chat/m/{KEY}-1.jsonl",
        "manner": "exact",
        "same": False,
    }
    assert document["differences"][0] == {
        "kind": "said",
        "where": "turns[0].parts[0].text",
        "one": "One",
        "other": "Two",
        "counts": True,
    }


@pytest.mark.parametrize("more", [(), ("dc8593", "--live")], ids=["none", "both"])
async def test_one_thing_too_many_or_too_few_is_refused(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    ran = await run("diff", KEY, *more, folder=tmp_path)

    assert (ran.code, ran.complaint) == (
        2,
        "llm-proxy: diff compares two cassettes, or one with --live: llm-proxy diff A B",
    )


async def live(folder: Path, *answers: Answer, shape: bool = False) -> tuple[int, str, str]:
    """What a diff with a provider that answers so gives."""
    async with upstream(*(chunked([body]) for body in bodies(answers))) as it:
        more = ["--shape"] if shape else []
        ran = await run(
            "diff", KEY, "--live", *more, "--upstream", f"openai={it.url}", folder=folder
        )
        assert len(it.requests) == 1
    return ran.code, ran.out, ran.err


class TestLive:
    async def test_another_text_of_the_same_shape_is_no_matter(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), says("Hello"))
        before = path.read_bytes()

        code, out, err = await live(tmp_path, says("Good day"))

        assert code == 0, err
        assert "different by nature, and no matter:\nsaid      turns[0]" in out
        assert "+ the live answer\n" in out
        assert path.read_bytes() == before
        assert [item.name for item in (tmp_path / "cassettes").rglob("*.jsonl")] == [path.name]

    async def test_a_new_field_is_drift(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("Hello"))
        odd = Answer(((1.0, event("Hello").replace(b'"index"', b'"place":1,"index"')),))

        code, out, _ = await live(tmp_path, odd, shape=True)

        assert code == 1
        assert "shape     body $.choices[*].place  + number\n" in out
        assert "turns" not in out

    async def test_the_request_goes_out_as_it_is_stored_with_the_key(self, tmp_path: Path) -> None:
        put(tmp_path, chat("hi", "OpenAI-Beta: a=b", "X-Other: c"), says("Hello"))
        async with upstream(chunked(bodies([says("Hello")]))) as it:
            await run(
                "diff", "openai-chat", "--live", folder=tmp_path,
                env={"OPENAI_API_KEY": "sk-of-test", "OPENAI_BASE_URL": f"{it.url}/v1"},
            )  # fmt: skip
            [(head, body)] = it.requests

        lines = head.decode().lower().split("\r\n")
        assert lines[0] == "post /v1/chat/completions http/1.1"
        assert {"authorization: bearer sk-of-test", "openai-beta: a=b"} <= set(lines)
        assert not any(line.startswith("x-other") for line in lines)
        assert body == chat().partition(b"\r\n\r\n")[2]

    async def test_a_key_of_the_query_goes_out_as_a_header(self, tmp_path: Path) -> None:
        put(tmp_path, QUERY, Answer(((1.0, b"{}"),)))
        async with upstream(whole(b"{}")) as it:
            await run(
                "diff", "gemini", "--live", "--upstream", f"gemini={it.url}",
                folder=tmp_path, env={"GOOGLE_API_KEY": "new-key"},
            )  # fmt: skip
            [(head, _)] = it.requests

        assert head.startswith(b"POST /v1beta/models/m:generateContent HTTP/1.1\r\n")
        assert b"x-goog-api-key: new-key\r\n" in head

    async def test_a_public_provider_is_not_asked_without_a_key(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("Hello"))

        ran = await run("diff", KEY, "--live", folder=tmp_path)

        why = "set OPENAI_API_KEY, or give --upstream openai=URL"
        assert ran.code == 2
        assert ran.complaint == f"llm-proxy: openai is asked with a key: {why}"

    async def test_a_request_of_which_something_is_missing_is_not_asked(
        self, tmp_path: Path
    ) -> None:
        secret = "sk-secret-secret"
        put(tmp_path, chat(f"my key is {secret}", f"Authorization: Bearer {secret}"), says("No"))

        ran = await run(
            "diff", "openai-chat", "--live", "--upstream", "default=http://127.0.0.1:9",
            folder=tmp_path,
        )  # fmt: skip

        assert ran.code == 1
        assert ".jsonl:2: a secret was replaced by [redacted] when it was recorded" in ran.err

    async def test_a_provider_that_is_gone_is_named(self, tmp_path: Path, nobody: str) -> None:
        put(tmp_path, chat(), says("Hello"))

        ran = await run("diff", KEY, "--live", "--upstream", f"default={nobody}", folder=tmp_path)

        assert ran.code == 1
        assert nobody in ran.complaint
