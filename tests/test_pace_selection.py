"""Which pace applies to which response, and that random times repeat in any order of requests."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import FILE_NAME, encode_cassette
from cli_process import run_command
from in_process_proxy import proxy
from llm_proxy.actions import Burst, Send, Wait
from llm_proxy.cassette import Cassette, parse_cassette
from llm_proxy.errors import Miss, RequestRefused
from llm_proxy.exchange import Read
from llm_proxy.modes import ReplayMode, TakePlayer
from llm_proxy.modes.base import requested_pace
from llm_proxy.pacing import InstantPace, PaceRegistry, RecordedPace, cassette_player, parse_pace
from llm_proxy.pacing.cassette_player import replay_actions
from llm_proxy.pacing.timing import PaceInput, make_seeded_draw
from llm_proxy.ports import SimilarTakes
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.documents.loading import parse_scenario_file
from llm_proxy.shell.running.active_modes import SequentialOffload
from pacing_helpers import make_player
from raw_http import RawResponse, build_http_request, send_request
from scenario_server import scenario_document, serve_scenarios
from scenario_server import text_turn as scripted
from stored_cassettes import (
    DONE_EVENT,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    route_raw_request,
    text_response,
    write_cassettes,
)
from stub_upstream import chunked, upstream

T = TypeVar("T")

JITTER: Final = "ttft=1..9ms,gap=lognormal(3ms,1),max-gap=20ms"
EVENTS: Final = (*map(chat_event, ("one", " two", " three")), DONE_EVENT)


# Random times


def request_of_session(name: str, session: str) -> bytes:
    return raw_chat_request(name, path=f"/@{session}/v1/chat/completions")


CASSETTE: Final = parse_cassette(
    FILE_NAME, encode_cassette([Read(0.0, item) for item in EVENTS], head_at=0.0)
)


class ConstantTakes:
    """A library with the same take for every key; the library is itself that take."""

    def __init__(self, cassette: Cassette = CASSETTE) -> None:
        self._cassette = cassette
        self.file = cassette.file

    async def takes_of(self, session: str, key: str) -> Sequence[ConstantTakes]:
        return [self]

    async def cassette(self) -> Cassette:
        return self._cassette

    async def nearest(self, call: RoutedRequest, share: float) -> SimilarTakes | None:
        return None

    async def miss_for_request(self, call: RoutedRequest, ordinal: int) -> Miss:
        raise NotImplementedError


async def bursts(
    order: Sequence[tuple[str, str]], *, is_concurrent: bool = False
) -> dict[Any, Burst]:
    """The actions of the responses to these (key, session) pairs, by pair and ordinal."""
    mode = ReplayMode(ConstantTakes(), make_player(parse_pace(JITTER)), "repeat")

    async def respond(number: int, name: str, session: str) -> tuple[Any, Burst]:
        response = await mode.respond(route_raw_request(request_of_session(name, session)))
        assert isinstance(response.action_source, tuple)
        return (name, session, number), response.action_source

    ordinals = [order[: at + 1].count(request) for at, request in enumerate(order)]
    numbered = [*zip(ordinals, order, strict=True)]
    if is_concurrent:
        return dict(
            await asyncio.gather(*(respond(number, *request) for number, request in numbered))
        )
    return dict([await respond(number, *request) for number, request in numbered])


REQUESTS: Final = [(name, session) for name in ("x", "y") for session in ("a", "b")] * 3


@given(st.permutations(REQUESTS), st.booleans())
def test_the_same_requests_in_any_order_have_the_same_bytes_and_times(
    order: list[tuple[str, str]], is_concurrent: bool
) -> None:
    one = asyncio.run(bursts(REQUESTS))
    other = asyncio.run(bursts(order, is_concurrent=is_concurrent))

    assert one == other
    assert len(set(one.values())) == len(REQUESTS)  # no two have the same times


def untimed_answer(*pieces: bytes) -> StoredResponse:
    """Pieces that arrive all at once, like those of a recording without times."""
    return StoredResponse(tuple((0.0, piece) for piece in pieces))


def planned_burst(request: bytes, ordinal: int, pace: str) -> Burst:
    """The actions of a replay for the request."""
    routed = route_raw_request(request)
    chance = make_seeded_draw(0, routed.session, key_of_request(request), ordinal)
    return replay_actions(CASSETTE, parse_pace(pace), chance)


def send_times(burst: Burst) -> list[float]:
    """The due time of each piece of a body."""
    due_times = accumulate((item.due if isinstance(item, Wait) else 0.0 for item in burst), max)
    return [at for at, action in zip(due_times, burst, strict=True) if isinstance(action, Send)]


@pytest.mark.parametrize("backwards", [False, True])
async def test_over_http_no_piece_is_early_in_any_order_of_requests(
    tmp_path: Path, backwards: bool
) -> None:
    requests = [request_of_session(name, session) for name in "xyz" for session in "ab"]
    for request in requests:
        write_cassettes(tmp_path, request, untimed_answer(*EVENTS))
    order = requests[::-1] if backwards else requests
    async with proxy("replay", tmp_path, pace=parse_pace(JITTER)) as replay_proxy:
        responses = await asyncio.gather(
            *(send_request(replay_proxy.url, request) for request in order)
        )
        entries = list(replay_proxy.journal.entries)

    for request, response in zip(order, responses, strict=True):
        due_times = send_times(planned_burst(request, 1, JITTER))
        assert response.chunks == [*EVENTS]
        assert all(at >= due - 0.5 for at, due in zip(response.times_ms, due_times, strict=True))
    assert {entry.pace for entry in entries} == {JITTER}
    assert all(entry.timed_writes == 3 for entry in entries)  # the head and two more


# Precedence


@each_row(
    ("header", "turn", "scenario", "session", "everybody", "expected"),
    [
        ("9tps", "8tps", "7tps", "6tps", "5tps", "9tps"),
        ("", "8tps", "7tps", "6tps", "5tps", "8tps"),
        ("", "", "7tps", "6tps", "5tps", "7tps"),
        ("", "", "", "6tps", "5tps", "6tps"),
        ("", "", "", "", "5tps", "5tps"),
        ("", "", "", "", "", "instant"),
    ],
    ids=["header", "turn", "scenario", "session", "everybody", "start"],
)
async def test_the_most_specific_pace_applies(
    tmp_path: Path,
    header: str,
    turn: str,
    scenario: str,
    session: str,
    everybody: str,
    expected: str,
) -> None:
    document = scenario_document(scripted("Hi.", pace=turn), pace=scenario)
    async with serve_scenarios(tmp_path, document, pace=InstantPace()) as stage:
        for name, pace in (("default", session), ("other", "4tps"), ("", everybody)):
            if pace:
                body = json.dumps({"pace": pace, "session": name}).encode()
                await stage.request_proxy_page("pace", body, "PUT")
        response = await stage.send(header=f"x-llm-proxy-pace: {header}")

    assert response.turn.text == "Hi."
    assert [entry.pace for entry in stage.entries] == [expected]


async def test_a_scenario_is_played_at_its_own_pace(tmp_path: Path) -> None:
    document = scenario_document(scripted("One two.", pace="ttft=30ms,chunks=token"))
    async with serve_scenarios(tmp_path, document, pace=RecordedPace()) as stage:
        response = await stage.send()
        assert response.raw_response.head_ms >= 30.0
        assert (
            stage.last_simulated.chunks == 6
        )  # the opening, two words, the finish, the usage, the end


async def test_a_request_can_ask_for_another_pace_of_a_recording(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), untimed_answer(*EVENTS))
    async with proxy("replay", tmp_path) as replay_proxy:
        slow = await send_request(
            replay_proxy.url, raw_chat_request("hi", "x-llm-proxy-pace: ttft=10ms,gap=10ms")
        )
        cut = await send_request(
            replay_proxy.url, raw_chat_request("hi", "x-llm-proxy-pace: instant,chunks=7")
        )
        paces = [entry.pace for entry in replay_proxy.journal.entries]

    body = b"".join(EVENTS)
    assert slow.chunks == [*EVENTS]
    assert [at >= due for at, due in zip(slow.times_ms, (10, 20, 30, 30), strict=True)] == [
        True
    ] * 4
    assert cut.chunks == [body[at : at + 7] for at in range(0, len(body), 7)]
    assert paces == ["ttft=10ms,gap=10ms", "instant,chunks=7"]


@each_row("mode", ["replay", "auto", "simulate"])
async def test_an_invalid_pace_header_is_refused_and_uses_no_take(
    tmp_path: Path, mode: Any
) -> None:
    folder = tmp_path / mode
    write_cassettes(folder, raw_chat_request(), text_response("first"), text_response("second"))
    async with proxy(mode, folder, pace=InstantPace()) as running_proxy:
        refused = await send_request(
            running_proxy.url, raw_chat_request("hi", "x-llm-proxy-pace: 50")
        )
        answer = await send_request(running_proxy.url, raw_chat_request())

    sentence = json.loads(refused.body)["error"]["message"]
    assert (refused.status, refused.header("x-should-retry")) == (400, "false")
    assert sentence.startswith("x-llm-proxy-pace: '50' is not a valid pace: use recorded, instant,")
    assert answer.status == 200
    if mode != "simulate":
        assert b"first" in answer.body


def test_a_request_without_the_header_asks_for_no_pace() -> None:
    assert requested_pace(route_raw_request(raw_chat_request())) is None
    assert requested_pace(
        route_raw_request(raw_chat_request("hi", "X-LLM-Proxy-Pace: 4X"))
    ) == RecordedPace(4.0)
    with pytest.raises(RequestRefused, match="empty term; remove the extra comma"):
        requested_pace(route_raw_request(raw_chat_request("hi", "x-llm-proxy-pace: 4x,")))


async def test_live_answers_have_no_pace(tmp_path: Path) -> None:
    slow = raw_chat_request("hi", "x-llm-proxy-pace: ttft=9s")
    async with (
        upstream(chunked([*EVENTS])) as live,
        proxy("auto", tmp_path, live.url) as auto_proxy,
    ):
        response = await send_request(auto_proxy.url, slow, timeout_s=5)
        entries = list(auto_proxy.journal.entries)

    assert response.body == b"".join(EVENTS)
    assert [entry.pace for entry in entries] == [""]


# The page


async def page(url: str, method: str = "GET", **fields: Any) -> tuple[int, Any]:
    raw: RawResponse = await send_request(
        url, build_http_request("/_proxy/pace", json.dumps(fields).encode(), method=method)
    )
    return raw.status, json.loads(raw.body)


async def test_the_pace_can_be_set_and_taken_back_while_the_proxy_runs(tmp_path: Path) -> None:
    start = {"pace": "4x", "started_with": "4x", "sessions": {}, "seed": 3}
    async with proxy("replay", tmp_path, pace=RecordedPace(4.0), seed=3) as replay_proxy:
        assert await page(replay_proxy.url) == (200, start)
        assert await page(replay_proxy.url, "PUT", pace=" 50 TPS ") == (
            200,
            start | {"pace": "50tps"},
        )
        own = {"pace": "50tps", "sessions": {"a": "instant"}}
        assert await page(replay_proxy.url, "PUT", pace="instant", session="a") == (
            200,
            start | own,
        )
        assert await page(replay_proxy.url, "DELETE") == (
            200,
            start | {"sessions": {"a": "instant"}},
        )
        assert await page(replay_proxy.url, "DELETE", session="a") == (200, start)


async def test_a_session_that_begins_again_has_no_pace_of_its_own(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path) as replay_proxy:
        for name in "ab":
            await page(replay_proxy.url, "PUT", pace="instant", session=name)
        await send_request(replay_proxy.url, build_http_request("/_proxy/sessions/a/reset", b""))
        _, document = await page(replay_proxy.url)

    assert document["sessions"] == {"b": "instant"}


@each_row(
    ("fields", "error"),
    [
        (
            {"pace": "50"},
            "'50' is not a valid pace: use recorded, instant, a speed such as 4x or 0.5x, ",
        ),
        ({}, 'expected JSON such as {"pace": "50tps"}; see docs/reference/pacing.md'),
        ({"pace": 4}, 'expected JSON such as {"pace": "50tps"}; see docs/reference/pacing.md'),
        ({"pace": "4x", "session": "a/b"}, "'a/b' is not a valid session name: use at most 100 "),
        ({"pace": "4x", "session": 5}, "'5' is not a valid session name: use at most 100 "),
    ],
    ids=["no pace", "nothing", "a number", "no session", "a number for a session"],
)
async def test_an_invalid_setting_is_refused_with_a_reason(
    tmp_path: Path, fields: dict[str, Any], error: str
) -> None:
    async with proxy("replay", tmp_path) as replay_proxy:
        status, document = await page(replay_proxy.url, "PUT", **fields)
        _, after = await page(replay_proxy.url)

    assert (status, document["error"][: len(error)]) == (400, error)
    assert (after["pace"], after["sessions"]) == ("recorded", {})


async def test_a_recording_run_has_no_pace_to_set(tmp_path: Path) -> None:
    async with proxy("record", tmp_path) as record_proxy:
        status, document = await page(record_proxy.url, "PUT", pace="instant")
        seen = await page(record_proxy.url)

    assert (status, document["error"]) == (
        409, "cannot set a pace: llm-proxy record forwards data as it arrives",
    )  # fmt: skip
    assert seen[0] == 200


def test_the_pace_of_a_session_comes_before_that_of_all() -> None:
    registry = PaceRegistry(RecordedPace(), seed=1)
    registry.set_pace(RecordedPace(2.0))
    registry.set_pace(InstantPace(), "a")

    assert (registry.pace_of("a"), registry.pace_of("b")) == (InstantPace(), RecordedPace(2.0))
    assert (registry.default_pace, registry.startup_pace) == (RecordedPace(2.0), RecordedPace())
    registry.set_pace(None)
    registry.set_pace(None, "a")
    assert (registry.pace_of("a"), registry.pace_of("b")) == (RecordedPace(), RecordedPace())


# Scenarios


@each_row(
    ("scenario", "turn", "place"),
    [
        ("4x,gap=1ms", "4x", "3:1: $.pace"),
        ("4x", "4x,gap=1ms", "6:5: $.turns[0].pace"),
    ],
    ids=["of a scenario", "of a turn"],
)
def test_a_pace_that_is_none_is_a_mistake_of_the_file_with_its_place(
    scenario: str, turn: str, place: str
) -> None:
    document = (
        f"id: a\ndescription: A.\npace: {scenario}\nturns:\n"
        f"  - turn: 1\n    pace: {turn}\n    response: {{kind: text, assistant_text: Hi.}}\n"
    )

    [found] = parse_scenario_file("a.yaml", document.encode()).mistakes

    assert str(found) == (
        f"a.yaml:{place}: '4x,gap=1ms' is not a valid pace: 4x replays the recorded delays and "
        "cannot "
        "be combined with gap; remove one of them"
    )


# The analysis of a recording for its pace


@pytest.mark.parametrize("is_new", [False, True])
async def test_the_analysis_of_a_recording_is_cached_while_the_cassette_is_the_same(
    is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[str] = []

    def record_and_analyse(cassette: Cassette, chunks: Any) -> PaceInput:
        analysed.append(str(chunks))
        return cassette_player.read_pace_input(cassette, chunks)

    monkeypatch.setattr("llm_proxy.modes.replay.read_pace_input", record_and_analyse)
    take_player, routed = make_player(InstantPace()), route_raw_request(raw_chat_request())
    for pace in ("50tps", "9tps", "gap=1ms,chunks=recorded", "gap=2ms", "recorded", "instant"):
        take = ConstantTakes(replace(CASSETTE) if is_new else CASSETTE)
        answer = await take_player.replay_take(take, routed, 1, parse_pace(pace))
        assert answer.action_source == replay_actions(
            CASSETTE, parse_pace(pace), make_seeded_draw(0, "default", routed.key, 1)
        )

    assert analysed == (["None", "None", "recorded", "None"] if is_new else ["None", "recorded"])


async def test_only_the_analysis_of_a_long_recording_is_offloaded() -> None:
    long = parse_cassette(FILE_NAME, encode_cassette([Read(20.0, b"".join(EVENTS[:3] * 100))]))
    offloaded: list[object] = []

    async def run_offloaded(function: Callable[[], T]) -> T:
        offloaded.append(function)
        return function()

    take_player, routed = (
        TakePlayer(PaceRegistry(InstantPace()), run_offloaded),
        route_raw_request(raw_chat_request()),
    )
    for cassette, pace in ((long, "50tps"), (long, "9tps"), (long, "4x"), (CASSETTE, "50tps")):
        await take_player.replay_take(ConstantTakes(cassette), routed, 1, parse_pace(pace))

    assert len(offloaded) == 1


async def test_the_analysis_cache_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = CASSETTE.response_end.size_bytes + len(CASSETTE.request.body)
    monkeypatch.setattr("llm_proxy.modes.replay._CACHE_BYTES", 3 * size)
    take_player, routed = make_player(parse_pace("gap=1ms")), route_raw_request(raw_chat_request())
    for number in (1, 2, 3, 1, 4, 5):
        take = ConstantTakes(replace(CASSETTE, file=f"{number}.jsonl"))
        await take_player.replay_take(take, routed, 1, take_player.pace_of(routed))

    assert list(take_player._prepared) == ["1.jsonl", "4.jsonl", "5.jsonl"]


async def test_offloaded_work_runs_sequentially() -> None:
    running: list[int] = []
    concurrent_counts: list[int] = []
    offload = SequentialOffload()

    def work(number: int) -> int:
        running.append(number)
        concurrent_counts.append(len(running))
        running.remove(number)
        return number

    done = await asyncio.gather(*(offload(partial(work, number)) for number in range(9)))

    assert done == [*range(9)]
    assert concurrent_counts == [1] * 9


# At the command line


@pytest.mark.parametrize(
    ("options", "pace_lines"),
    [
        (("--pace", "gap=30..80ms", "--seed", "7"), ["pace gap=30..80ms, with seed 7"]),
        (("--pace", "4x", "--seed", "7"), []),
    ],
    ids=["by chance", "without"],
)
async def test_the_seed_is_printed_if_the_pace_is_random(
    tmp_path: Path, options: tuple[str, ...], pace_lines: list[str]
) -> None:
    ran = await run_command("replay", *options, "--", sys.executable, "-c", "", folder=tmp_path)

    assert ran.exit_code == 0
    assert re.findall("pace .*", ran.stderr) == pace_lines


def test_the_number_of_sessions_with_their_own_pace_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_proxy.pacing.pace._MAX_SESSION_PACES", 2)
    paces = PaceRegistry(RecordedPace())
    for session in ("a", "b", "a", "c"):
        paces.set_pace(InstantPace(), session)
    assert list(paces.session_paces) == ["a", "c"]
