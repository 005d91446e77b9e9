"""Each request gets its own response or a miss, never that of a similar request.

Each row of the table holds requests that the matching of other tools confuses.  One proxy records
all requests of a row from a provider whose responses all differ, and replays them without it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from cli_process import run_command, running_server
from in_process_proxy import load_cassettes, proxy
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from raw_http import build_http_request, send_request
from stored_cassettes import DONE_EVENT, chat_event
from stub_upstream import Connection, chunked, upstream
from waiting import wait_until

INSTANT: Final = InstantPace()
CHAT: Final = "/v1/chat/completions"
BASE_REQUEST: Final[dict[str, Any]] = {
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


def chat_request(path: str = CHAT, headers: tuple[str, ...] = (), **changes: Any) -> bytes:
    """The base request with these members changed; None removes a member."""
    members = {name: value for name, value in (BASE_REQUEST | changes).items() if value is not None}
    return build_http_request(
        path, json.dumps(members).encode(), "Content-Type: application/json", *headers
    )


def with_system_prompt(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}, BASE_REQUEST["messages"][1]]


def with_user_messages(*texts: str) -> list[dict[str, str]]:
    return [BASE_REQUEST["messages"][0], *({"role": "user", "content": text} for text in texts)]


def with_image(data: str) -> list[dict[str, Any]]:
    url = {"url": "data:image/png;base64," + data * 100}
    return [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]


def find_tool(user_schema: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The tool `find` with this schema for its parameter `user`."""
    parameters = {"type": "object", "properties": {"user": user_schema}, **more}
    return [{"type": "function", "function": {"name": "find", "parameters": parameters}}]


def transcription_request(audio: bytes, prompt: str = "hi") -> bytes:
    """A transcription request for this audio."""
    parts = (
        b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1',
        b'Content-Disposition: form-data; name="prompt"\r\n\r\n' + prompt.encode(),
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + audio,
    )
    data = b"".join(b"--X\r\n" + part + b"\r\n" for part in parts) + b"--X--\r\n"
    return build_http_request(
        "/v1/audio/transcriptions", data, "Content-Type: multipart/form-data; boundary=X"
    )


SIMILAR_REQUESTS: Final[dict[str, tuple[bytes, ...]]] = {
    "another system prompt": (
        chat_request(),
        chat_request(messages=with_system_prompt("You are a poet.")),
        chat_request(messages=with_user_messages("what is this about")[1:]),
    ),
    "another temperature": (
        chat_request(),
        chat_request(temperature=1),
        chat_request(temperature=None),
        chat_request(temperature="0"),
    ),
    "other tools": (
        chat_request(),
        chat_request(tools=None),
        chat_request(tools=[]),
        chat_request(tools=BASE_REQUEST["tools"] * 2),
    ),
    "one text that holds the other": (
        chat_request(messages=with_user_messages("hi")),
        chat_request(messages=with_user_messages("what is this about")),
    ),
    "texts that differ a little": (
        chat_request(messages=with_user_messages("hi")),
        chat_request(messages=with_user_messages("hi ")),
        chat_request(messages=with_user_messages("Hi")),
    ),
    "streamed or not": (chat_request(), chat_request(stream=False), chat_request(stream=None)),
    "tool schemas that differ under properties.user alone": (
        chat_request(),
        chat_request(tools=find_tool({"type": "integer"})),
        chat_request(tools=find_tool({"type": "string", "description": "who asks"})),
        chat_request(tools=find_tool({"type": "string"}, required=["user"])),
    ),
    "another model": (
        chat_request(),
        chat_request(model="m-2024-08-06"),
        chat_request(model="M"),
        chat_request(model="m:latest"),
    ),
    "the end user": (chat_request(), chat_request(user="a"), chat_request(user="b")),
    "a seed": (chat_request(), chat_request(seed=1), chat_request(seed=2)),
    "messages in another order": (
        chat_request(messages=with_user_messages("a", "b")),
        chat_request(messages=with_user_messages("b", "a")),
    ),
    "a conversation that went on": (
        chat_request(),
        chat_request(messages=with_user_messages("what is this about", "go on")),
    ),
    "who said it": (
        chat_request(),
        chat_request(
            messages=[{**message, "role": "assistant"} for message in BASE_REQUEST["messages"]]
        ),
    ),
    "another image": (
        chat_request(messages=with_image("iVB0")),
        chat_request(messages=with_image("iVB1")),
    ),
    "the form of the answer": (
        chat_request(),
        chat_request(response_format={"type": "json_object"}),
        chat_request(n=2),
        chat_request(max_tokens=5),
    ),
    "another API": (
        chat_request(),
        chat_request("/v1/completions"),
        chat_request("/~groq/v1/chat/completions"),
        chat_request(CHAT + "?a=1"),
    ),
    "what is in beta": (
        chat_request(),
        chat_request(headers=("openai-beta: a",)),
        chat_request(headers=("openai-beta: a,b",)),
    ),
    "another sound": (
        transcription_request(b"\xff\x00"),
        transcription_request(b"\xff\x01"),
        transcription_request(b"\xff\x00", "hello"),
    ),
}


async def _answer_by_number(connection: Connection) -> None:
    """Answer each request to the provider differently, by its number."""
    await chunked(_answer_chunks(connection.number))(connection)


def _answer_chunks(number: int) -> list[bytes]:
    return [chat_event(f"answer {number}"), DONE_EVENT]


def _answer_bodies(numbers: Sequence[int]) -> list[bytes]:
    return [b"".join(_answer_chunks(number)) for number in numbers]


async def _send_each(url: str, requests: Sequence[bytes]) -> list[bytes]:
    return [(await send_request(url, request)).body for request in requests]


def _rows_in_sessions() -> list[list[bytes]]:
    """The rows of the table, each in a session of its own."""
    return [
        [request.replace(b"POST /", b"POST /@row-%d/" % number, 1) for request in requests]
        for number, requests in enumerate(SIMILAR_REQUESTS.values())
    ]


async def test_each_request_has_its_own_answer_and_is_a_miss_until_recorded(
    tmp_path: Path,
) -> None:
    rows = _rows_in_sessions()
    before = [request for requests in rows for request in requests[:-1]]
    last = [requests[-1] for requests in rows]
    async with upstream(_answer_by_number) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            recorded = await _send_each(recording.url, before)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _send_each(replaying.url, before[::-1])
            missed = [await send_request(replaying.url, request) for request in last]
        async with proxy("auto", tmp_path, live.url, pace=INSTANT) as auto:
            auto_answers = await _send_each(auto.url, [*before, *last])
    async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
        replayed_at_last = await _send_each(replaying.url, [*before, *last])

    assert recorded == _answer_bodies(range(1, len(before) + 1))
    assert replayed == recorded[::-1]
    assert [response.status for response in missed] == [424] * len(rows)
    assert auto_answers == replayed_at_last
    assert auto_answers == _answer_bodies(range(1, len(before) + len(rows) + 1))
    assert len(live.requests) == len(before) + len(rows)


def test_the_requests_of_a_row_are_distinct() -> None:
    assert all(len(set(row)) == len(row) > 1 for row in SIMILAR_REQUESTS.values())


RULES: Final = parse_rules(["timestamps", "uuids", "regex=20[0-9]+", "ignore=$.metadata"])


async def test_rules_ignore_what_they_name_and_nothing_else(tmp_path: Path) -> None:
    requests = [request for requests in _rows_in_sessions() for request in requests]
    async with upstream(_answer_by_number) as live:
        async with proxy("record", tmp_path, live.url, match_rules=RULES) as recording:
            recorded = await _send_each(recording.url, requests)
    async with proxy("replay", tmp_path, pace=INSTANT, match_rules=RULES) as replaying:
        replayed = await _send_each(replaying.url, requests)

    assert replayed == recorded == _answer_bodies(range(1, len(requests) + 1))


class TestRepeats:
    async def test_the_same_request_twenty_times_has_twenty_answers(self, tmp_path: Path) -> None:
        async with upstream(_answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                recorded = await _send_each(recording.url, [chat_request()] * 20)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _send_each(replaying.url, [chat_request()] * 20)

        assert replayed == recorded == _answer_bodies(range(1, 21))

    async def test_two_at_once_are_each_recorded_in_the_order_in_which_they_came(
        self, tmp_path: Path
    ) -> None:
        second_ended = asyncio.Event()

        async def answer_after_second(connection: Connection) -> None:
            await second_ended.wait()
            await _answer_by_number(connection)

        async with upstream(answer_after_second, _answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                first_response = asyncio.create_task(send_request(recording.url, chat_request()))
                await wait_until(lambda: len(live.requests) == 1)
                second_response = await send_request(recording.url, chat_request())
                second_ended.set()
                recorded = [(await first_response).body, second_response.body]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _send_each(replaying.url, [chat_request()] * 2)

        assert replayed == recorded == _answer_bodies([1, 2])

    async def test_many_at_once_are_all_recorded_and_each_is_played_once(
        self, tmp_path: Path
    ) -> None:
        async with upstream(_answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                responses = await asyncio.gather(
                    *(send_request(recording.url, chat_request()) for _ in range(8))
                )
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await asyncio.gather(
                *(send_request(replaying.url, chat_request()) for _ in range(8))
            )

        everything = sorted(_answer_bodies(range(1, 9)))
        assert sorted(item.body for item in responses) == everything
        assert sorted(item.body for item in replayed) == everything


def _by_path(session: str) -> bytes:
    return chat_request(f"/@{session}{CHAT}")


def _by_header(session: str) -> bytes:
    return chat_request(headers=(f"x-llm-proxy-session: {session}",))


class TestSessions:
    """Concurrent sessions never take each other's turns."""

    @pytest.mark.parametrize("request_in_session", [_by_path, _by_header], ids=["path", "header"])
    async def test_interleaved_sessions_each_get_their_own_answers(
        self, tmp_path: Path, request_in_session: Callable[[str], bytes]
    ) -> None:
        recording_order = ["a", "b", "b", "a", "a", "b"]
        async with upstream(_answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                recorded = await _send_each(
                    recording.url, [request_in_session(name) for name in recording_order]
                )
        assert recorded == _answer_bodies([1, 2, 3, 4, 5, 6])

        replay_order = ["b", "a", "a", "b", "a", "b"]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            replayed = await _send_each(
                replaying.url, [request_in_session(name) for name in replay_order]
            )
        assert replayed == _answer_bodies([2, 1, 4, 3, 5, 6])

    async def test_a_reset_session_gets_its_answers_again(self, tmp_path: Path) -> None:
        async with upstream(_answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                await _send_each(recording.url, [_by_path("a"), _by_path("b")] * 2)
        async with proxy("replay", tmp_path, pace=INSTANT, after_last="fail") as replaying:
            before = await _send_each(replaying.url, [_by_path("a"), _by_path("b"), _by_path("a")])
            await send_request(replaying.url, build_http_request("/_proxy/sessions/a/reset", b""))
            after = await _send_each(replaying.url, [_by_path("a"), _by_path("b")])

        assert before == _answer_bodies([1, 2, 3])
        assert after == _answer_bodies([1, 4])

    async def test_a_run_has_a_session_of_its_own_from_every_place(self, tmp_path: Path) -> None:
        async def send(mode: str, place: str, session: str, *options: str) -> bytes:
            return await _send_through_cli(
                tmp_path, mode, place, ("session", session), chat_request(), *options
            )

        async with upstream(_answer_by_number) as live:
            upstream_option = ("--upstream", f"default={live.url}")
            recorded = [
                await send("record", "flag", "a", *upstream_option),
                await send("record", "variable", "b", *upstream_option),
            ]
        replayed = [await send("replay", "variable", "b"), await send("replay", "file", "a")]

        assert recorded == _answer_bodies([1, 2])
        assert replayed == recorded[::-1]
        assert {cassette.meta.session for cassette in load_cassettes(tmp_path)} == {"a", "b"}


class TestRules:
    async def test_rules_are_given_from_every_place(self, tmp_path: Path) -> None:
        async def send(mode: str, place: str, request: bytes, *options: str) -> bytes:
            rule_setting = ("normalise", "uuids", "ignore=$.seed")
            return await _send_through_cli(tmp_path, mode, place, rule_setting, request, *options)

        first = chat_request(seed=1, user="3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a")
        second = chat_request(seed=2, user="00000000-1111-2222-3333-444444444444")
        async with upstream(_answer_by_number) as live:
            recorded = await send("record", "flag", first, "--upstream", f"default={live.url}")
        replayed = [await send("replay", place, second) for place in ("variable", "file")]
        exact_replay = await send("replay", "file", second, "--match", "exact")

        assert [recorded, *replayed] == _answer_bodies([1, 1, 1])
        assert json.loads(exact_replay)["error"]["type"] == "cassette_not_found"
        [cassette] = load_cassettes(tmp_path)
        assert cassette.meta.match_rules == ("uuids@1", "ignore@1=$.seed")

    async def test_a_misspelled_rule_is_reported_with_its_file(self, tmp_path: Path) -> None:
        (tmp_path / "llm-proxy.toml").write_text("normalise = ['uuids', 'timestamp']\n")
        ran = await run_command("replay", "--", "true", folder=tmp_path)

        assert ran.exit_code == 2
        assert ran.last_error_line == (
            f"llm-proxy: error: {tmp_path / 'llm-proxy.toml'}: normalise: unknown rule "
            "'timestamp'; did you mean 'timestamps'?"
        )

    async def test_what_was_recorded_exactly_is_found_by_a_rule_that_came_later(
        self, tmp_path: Path
    ) -> None:
        rules = parse_rules(["ignore=$.seed"])
        async with upstream(_answer_by_number) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                await send_request(recording.url, chat_request(seed=1))
        async with proxy("replay", tmp_path, pace=INSTANT, match_rules=rules) as replaying:
            replayed = await _send_each(
                replaying.url, [chat_request(seed=1), chat_request(seed=2), chat_request()]
            )
            missed = await send_request(replaying.url, chat_request(seed=1, user="a"))

        assert replayed == _answer_bodies([1, 1, 1])
        assert missed.status == 424


async def _send_through_cli(
    folder: Path, mode: str, place: str, setting: tuple[str, ...], request: bytes, *options: str
) -> bytes:
    """Send a request to a CLI run with a setting from this place; return the response body."""
    name, *values = setting
    env: dict[str, str] = {}
    match place:
        case "flag":
            options += tuple(argument for value in values for argument in (f"--{name}", value))
        case "variable":
            env = {f"LLM_PROXY_{name.upper()}": " ".join(values)}
        case _:
            toml_value = values if name == "normalise" else values[0]
            (folder / "llm-proxy.toml").write_text(f"{name} = {json.dumps(toml_value)}\n")
    async with running_server(mode, *options, folder=folder, env=env) as running:
        response = await send_request(running.url, request)
        running.send(signal.SIGTERM)
        await running.wait_for_end()
    return response.body
