"""Each request gets its own answer or a miss: never that of another which only looks like it.

The table is of requests that matching of other tools takes for one.  All of a row are recorded by
one proxy before one provider, whose every answer is another one; then the provider is gone.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from cli_process import run, serving
from in_process_proxy import cassettes, proxy
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import MatchingOptions
from raw_http import ask, post
from stored_cassettes import DONE, event
from stub_upstream import Connection, chunked, upstream
from waiting import until

INSTANT: Final = InstantPace()
CHAT: Final = "/v1/chat/completions"
LIKE: Final[dict[str, Any]] = {
    "model": "m",
    "stream": True,
    "temperature": 0,
    "messages": [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "what is this about"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find",
                "parameters": {"type": "object", "properties": {"user": {"type": "string"}}},
            },
        }
    ],
}


def body(path: str = CHAT, headers: tuple[str, ...] = (), **changes: Any) -> bytes:
    """A request like the others of its row, but for these members; None takes one out."""
    asked = {name: value for name, value in (LIKE | changes).items() if value is not None}
    return post(path, json.dumps(asked).encode(), "Content-Type: application/json", *headers)


def system(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}, LIKE["messages"][1]]


def user(*texts: str) -> list[dict[str, str]]:
    return [LIKE["messages"][0], *({"role": "user", "content": text} for text in texts)]


def image(data: str) -> list[dict[str, Any]]:
    url = {"url": "data:image/png;base64," + data * 100}
    return [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]


def tools(of_user: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The one tool, whose parameter called user is this."""
    parameters = {"type": "object", "properties": {"user": of_user}, **more}
    return [{"type": "function", "function": {"name": "find", "parameters": parameters}}]


def form(sound: bytes, prompt: str = "hi") -> bytes:
    """A request to have a sound written down."""
    parts = (
        b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1',
        b'Content-Disposition: form-data; name="prompt"\r\n\r\n' + prompt.encode(),
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + sound,
    )
    data = b"".join(b"--X\r\n" + part + b"\r\n" for part in parts) + b"--X--\r\n"
    return post("/v1/audio/transcriptions", data, "Content-Type: multipart/form-data; boundary=X")


TABLE: Final[dict[str, tuple[bytes, ...]]] = {
    "another system prompt": (
        body(),
        body(messages=system("You are a poet.")),
        body(messages=user("what is this about")[1:]),
    ),
    "another temperature": (
        body(),
        body(temperature=1),
        body(temperature=None),
        body(temperature="0"),
    ),
    "other tools": (body(), body(tools=None), body(tools=[]), body(tools=LIKE["tools"] * 2)),
    "one text that holds the other": (
        body(messages=user("hi")),
        body(messages=user("what is this about")),
    ),
    "texts that differ a little": (
        body(messages=user("hi")),
        body(messages=user("hi ")),
        body(messages=user("Hi")),
    ),
    "streamed or not": (body(), body(stream=False), body(stream=None)),
    "tool schemas that differ under properties.user alone": (
        body(),
        body(tools=tools({"type": "integer"})),
        body(tools=tools({"type": "string", "description": "who asks"})),
        body(tools=tools({"type": "string"}, required=["user"])),
    ),
    "another model": (body(), body(model="m-2024-08-06"), body(model="M"), body(model="m:latest")),
    "the end user": (body(), body(user="a"), body(user="b")),
    "a seed": (body(), body(seed=1), body(seed=2)),
    "messages in another order": (body(messages=user("a", "b")), body(messages=user("b", "a"))),
    "a conversation that went on": (body(), body(messages=user("what is this about", "go on"))),
    "who said it": (
        body(),
        body(messages=[{**message, "role": "assistant"} for message in LIKE["messages"]]),
    ),
    "another image": (body(messages=image("iVB0")), body(messages=image("iVB1"))),
    "the form of the answer": (
        body(),
        body(response_format={"type": "json_object"}),
        body(n=2),
        body(max_tokens=5),
    ),
    "another API": (
        body(),
        body("/v1/completions"),
        body("/~groq/v1/chat/completions"),
        body(CHAT + "?a=1"),
    ),
    "what is in beta": (
        body(),
        body(headers=("openai-beta: a",)),
        body(headers=("openai-beta: a,b",)),
    ),
    "another sound": (form(b"\xff\x00"), form(b"\xff\x01"), form(b"\xff\x00", "hello")),
}


async def _numbered(connection: Connection) -> None:
    """Each request of the provider gets an answer of its own."""
    await chunked(_answer(connection.number))(connection)


def _answer(number: int) -> list[bytes]:
    return [event(f"answer {number}"), DONE]


def _answers(numbers: Sequence[int]) -> list[bytes]:
    return [b"".join(_answer(number)) for number in numbers]


async def _each(url: str, requests: Sequence[bytes]) -> list[bytes]:
    return [(await ask(url, request)).body for request in requests]


@pytest.mark.parametrize("requests", TABLE.values(), ids=TABLE)
async def test_each_has_its_own_answer_and_before_it_was_recorded_none(
    tmp_path: Path, requests: tuple[bytes, ...]
) -> None:
    *before, last = requests
    async with upstream(_numbered) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            recorded = await _each(recording.url, before)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _each(replaying.url, before[::-1])
            missed = await ask(replaying.url, last)
        async with proxy("auto", tmp_path, live.url, pace=INSTANT) as auto:
            at_last = await _each(auto.url, requests)
    async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
        again = await _each(replaying.url, requests)

    assert recorded == _answers(range(1, len(requests)))
    assert replayed == recorded[::-1]
    assert missed.status == 424
    assert at_last == again == _answers(range(1, len(requests) + 1))
    assert len(live.requests) == len(requests)


def test_the_table_has_what_the_peers_get_wrong() -> None:
    assert all(len(set(row)) == len(row) > 1 for row in TABLE.values())


RULES: Final = parse_rules(["timestamps", "uuids", "regex=20[0-9]+", "ignore=$.metadata"])


@pytest.mark.parametrize("requests", TABLE.values(), ids=TABLE)
async def test_rules_overlook_what_they_name_and_nothing_else(
    tmp_path: Path, requests: tuple[bytes, ...]
) -> None:
    matching = MatchingOptions(rules=RULES)
    async with upstream(_numbered) as live:
        async with proxy("record", tmp_path, live.url, matching=matching) as recording:
            recorded = await _each(recording.url, requests)
    async with proxy("replay", tmp_path, pace=INSTANT, matching=matching) as replaying:
        replayed = await _each(replaying.url, requests)

    assert replayed == recorded == _answers(range(1, len(requests) + 1))


class TestRepeats:
    async def test_the_same_request_twenty_times_has_twenty_answers(self, tmp_path: Path) -> None:
        async with upstream(_numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                recorded = await _each(recording.url, [body()] * 20)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _each(replaying.url, [body()] * 20)

        assert replayed == recorded == _answers(range(1, 21))

    async def test_two_at_once_are_each_recorded_in_the_order_in_which_they_came(
        self, tmp_path: Path
    ) -> None:
        second_ended = asyncio.Event()

        async def first(connection: Connection) -> None:
            await second_ended.wait()
            await _numbered(connection)

        async with upstream(first, _numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                one = asyncio.create_task(ask(recording.url, body()))
                await until(lambda: len(live.requests) == 1)
                two = await ask(recording.url, body())
                second_ended.set()
                recorded = [(await one).body, two.body]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _each(replaying.url, [body()] * 2)

        assert replayed == recorded == _answers([1, 2])

    async def test_many_at_once_are_all_recorded_and_each_is_played_once(
        self, tmp_path: Path
    ) -> None:
        async with upstream(_numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                got = await asyncio.gather(*(ask(recording.url, body()) for _ in range(8)))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            again = await asyncio.gather(*(ask(replaying.url, body()) for _ in range(8)))

        everything = sorted(_answers(range(1, 9)))
        assert sorted(item.body for item in got) == everything
        assert sorted(item.body for item in again) == everything


def _by_path(session: str) -> bytes:
    return body(f"/@{session}{CHAT}")


def _by_header(session: str) -> bytes:
    return body(headers=(f"x-llm-proxy-session: {session}",))


class TestSessions:
    """Tests that run side by side never take each other's turns."""

    @pytest.mark.parametrize("scoped", [_by_path, _by_header], ids=["path", "header"])
    async def test_two_that_are_interleaved_each_hear_their_own(
        self, tmp_path: Path, scoped: Callable[[str], bytes]
    ) -> None:
        order = ["a", "b", "b", "a", "a", "b"]
        async with upstream(_numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                recorded = await _each(recording.url, [scoped(name) for name in order])
        assert recorded == _answers([1, 2, 3, 4, 5, 6])

        otherwise = ["b", "a", "a", "b", "a", "b"]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _each(replaying.url, [scoped(name) for name in otherwise])
        assert replayed == _answers([2, 1, 4, 3, 5, 6])

    async def test_a_session_that_begins_again_hears_its_answers_again(
        self, tmp_path: Path
    ) -> None:
        async with upstream(_numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                await _each(recording.url, [_by_path("a"), _by_path("b")] * 2)
        async with proxy("replay", tmp_path, pace=INSTANT, after_last="fail") as replaying:
            before = await _each(replaying.url, [_by_path("a"), _by_path("b"), _by_path("a")])
            await ask(replaying.url, post("/_proxy/sessions/a/reset", b""))
            after = await _each(replaying.url, [_by_path("a"), _by_path("b")])

        assert before == _answers([1, 2, 3])
        assert after == _answers([1, 4])

    @pytest.mark.parametrize("place", ["flag", "variable", "file"])
    async def test_a_run_has_a_session_of_its_own(self, tmp_path: Path, place: str) -> None:
        async def asked(mode: str, session: str, *options: str) -> bytes:
            return await _at_the_command_line(
                tmp_path, mode, place, ("session", session), body(), *options
            )

        async with upstream(_numbered) as live:
            to = ("--upstream", f"default={live.url}")
            recorded = [await asked("record", name, *to) for name in ("a", "b")]
        replayed = [await asked("replay", name) for name in ("b", "a")]

        assert recorded == _answers([1, 2])
        assert replayed == recorded[::-1]
        assert {cassette.meta.session for cassette in cassettes(tmp_path)} == {"a", "b"}


class TestRules:
    @pytest.mark.parametrize("place", ["flag", "variable", "file"])
    async def test_rules_are_given_from_every_place(self, tmp_path: Path, place: str) -> None:
        one = body(seed=1, user="3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a")
        other = body(seed=2, user="00000000-1111-2222-3333-444444444444")
        given = ("normalise", "uuids", "ignore=$.seed")
        async with upstream(_numbered) as live:
            to = ("--upstream", f"default={live.url}")
            recorded = await _at_the_command_line(tmp_path, "record", place, given, one, *to)
        replayed = await _at_the_command_line(tmp_path, "replay", place, given, other)
        exactly = await _at_the_command_line(
            tmp_path, "replay", place, given, other, "--match", "exact"
        )

        assert [recorded] == [replayed] == _answers([1])
        assert json.loads(exactly)["error"]["type"] == "cassette_not_found"
        [cassette] = cassettes(tmp_path)
        assert cassette.meta.rules == ("uuids@1", "ignore@1=$.seed")

    async def test_a_rule_that_a_file_spells_wrongly_is_told_with_the_file(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "llm-proxy.toml").write_text("normalise = ['uuids', 'timestamp']\n")
        ran = await run("replay", "--", "true", folder=tmp_path)

        assert ran.code == 2
        assert ran.complaint == (
            f"llm-proxy: {tmp_path / 'llm-proxy.toml'}: normalise: timestamp is no rule: did you "
            "mean timestamps?"
        )

    async def test_what_was_recorded_exactly_is_found_by_a_rule_that_came_later(
        self, tmp_path: Path
    ) -> None:
        matching = MatchingOptions(rules=parse_rules(["ignore=$.seed"]))
        async with upstream(_numbered) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                await ask(recording.url, body(seed=1))
        async with proxy("replay", tmp_path, pace=INSTANT, matching=matching) as replaying:
            got = await _each(replaying.url, [body(seed=1), body(seed=2), body()])
            missed = await ask(replaying.url, body(seed=1, user="a"))

        assert got == _answers([1, 1, 1])
        assert missed.status == 424


async def _at_the_command_line(
    folder: Path, mode: str, place: str, setting: tuple[str, ...], request: bytes, *options: str
) -> bytes:
    """What is answered to a request where a setting is given in this place."""
    name, *values = setting
    env: dict[str, str] = {}
    match place:
        case "flag":
            options += tuple(word for value in values for word in (f"--{name}", value))
        case "variable":
            env = {f"LLM_PROXY_{name.upper()}": " ".join(values)}
        case _:
            spelled = values if name == "normalise" else values[0]
            (folder / "llm-proxy.toml").write_text(f"{name} = {json.dumps(spelled)}\n")
    async with serving(mode, *options, folder=folder, env=env) as running:
        got = await ask(running.url, request)
        running.send(signal.SIGTERM)
        await running.ended()
    return got.body
