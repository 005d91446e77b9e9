"""Which pace holds for which answer, and that chance repeats whatever order requests come in."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_builders import FILE, written
from cli_process import run
from in_process_proxy import proxy
from llm_proxy.actions import Burst, Send, Wait
from llm_proxy.cassette import Cassette, read_cassette
from llm_proxy.errors import Miss, RequestRefused
from llm_proxy.exchange import Read
from llm_proxy.modes import ReplayMode, TakePlayer
from llm_proxy.pacing import InstantPace, RecordedPace, pace_input, parse_pace
from llm_proxy.pacing.cassette_player import play_cassette
from llm_proxy.pacing.requested_pace import requested_pace
from llm_proxy.pacing.timing import PacedResponse, seeded_chance
from llm_proxy.ports import SimilarTakes
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.documents.loading import load_file
from llm_proxy.shell.running.pace_registry import PaceRegistry
from llm_proxy.shell.running.simulation import SequentialOffload
from pacing_helpers import player
from raw_http import Raw, ask, post
from scenario_server import playing, script
from scenario_server import says as scripted
from stored_cassettes import DONE, Answer, call, chat, event, key_of, put, says
from stub_upstream import chunked, upstream

T = TypeVar("T")

JITTER: Final = "ttft=1..9ms,gap=lognormal(3ms,1),max-gap=20ms"
TOLD: Final = (*map(event, ("one", " two", " three")), DONE)


# Chance


def asked(name: str, session: str) -> bytes:
    return chat(name, path=f"/@{session}/v1/chat/completions")


CASSETTE: Final = read_cassette(FILE, written([Read(0.0, item) for item in TOLD], head_at=0.0))


class Always:
    """Takes of every key, all of them the same; it is one of them too."""

    def __init__(self, cassette: Cassette = CASSETTE) -> None:
        self._cassette = cassette
        self.file = cassette.file

    async def takes_of(self, session: str, key: str) -> Sequence[Always]:
        return [self]

    async def cassette(self) -> Cassette:
        return self._cassette

    async def nearest(self, call: RoutedRequest, share: float) -> SimilarTakes | None:
        return None

    async def miss(self, call: RoutedRequest, ordinal: int) -> Miss:
        raise NotImplementedError


async def bursts(order: Sequence[tuple[str, str]], *, at_once: bool = False) -> dict[Any, Burst]:
    """The actions that answer these requests of a key and a session, by those and the ordinal."""
    mode = ReplayMode(Always(), player(parse_pace(JITTER)), "repeat")

    async def answered(number: int, name: str, session: str) -> tuple[Any, Burst]:
        answer = await mode.respond(call(asked(name, session)))
        assert isinstance(answer.source, tuple)
        return (name, session, number), answer.source

    ordinals = [order[: at + 1].count(it) for at, it in enumerate(order)]
    numbered = [*zip(ordinals, order, strict=True)]
    if at_once:
        return dict(await asyncio.gather(*(answered(number, *it) for number, it in numbered)))
    return dict([await answered(number, *it) for number, it in numbered])


REQUESTS: Final = [(name, session) for name in ("x", "y") for session in ("a", "b")] * 3


@settings(max_examples=10)
@given(st.permutations(REQUESTS), st.booleans())
def test_the_same_requests_in_any_order_have_the_same_bytes_and_times(
    order: list[tuple[str, str]], at_once: bool
) -> None:
    one = asyncio.run(bursts(REQUESTS))
    other = asyncio.run(bursts(order, at_once=at_once))

    assert one == other
    assert len(set(one.values())) == len(REQUESTS)  # and no two have the same times


def imported(*pieces: bytes) -> Answer:
    """Pieces that came all at once, as those of a recording without times."""
    return Answer(tuple((0.0, piece) for piece in pieces))


def planned(request: bytes, ordinal: int, pace: str) -> Burst:
    """What replay does for the request, as values."""
    of = call(request)
    rolls = seeded_chance(0, of.session, key_of(request), ordinal)
    return play_cassette(CASSETTE, parse_pace(pace), rolls)


def due(burst: Burst) -> list[float]:
    """When each piece of a body is due."""
    moments = accumulate((item.due if isinstance(item, Wait) else 0.0 for item in burst), max)
    return [at for at, it in zip(moments, burst, strict=True) if isinstance(it, Send)]


@pytest.mark.parametrize("backwards", [False, True])
async def test_over_http_no_piece_is_early_in_whatever_order_they_are_asked(
    tmp_path: Path, backwards: bool
) -> None:
    requests = [asked(name, session) for name in "xyz" for session in "ab"]
    for request in requests:
        put(tmp_path, request, imported(*TOLD))
    order = requests[::-1] if backwards else requests
    async with proxy("replay", tmp_path, pace=parse_pace(JITTER)) as it:
        got = await asyncio.gather(*(ask(it.url, request) for request in order))
        entries = list(it.journal.entries)

    for request, raw in zip(order, got, strict=True):
        moments = due(planned(request, 1, JITTER))
        assert raw.chunks == [*TOLD]
        assert all(at >= when - 0.5 for at, when in zip(raw.times, moments, strict=True))
    assert {entry.pace for entry in entries} == {JITTER}
    assert all(entry.timed_writes == 3 for entry in entries)  # the head's, and two more


# Which one holds


@pytest.mark.parametrize(
    ("header", "turn", "scenario", "session", "everybody", "holds"),
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
async def test_the_nearest_pace_holds(
    tmp_path: Path,
    header: str,
    turn: str,
    scenario: str,
    session: str,
    everybody: str,
    holds: str,
) -> None:
    document = script(scripted("Hi.", pace=turn), pace=scenario)
    async with playing(tmp_path, document, pace=InstantPace()) as stage:
        for name, pace in (("default", session), ("other", "4tps"), ("", everybody)):
            if pace:
                said = json.dumps({"pace": pace, "session": name}).encode()
                await stage.page("pace", said, "PUT")
        heard = await stage.ask(header=f"x-llm-proxy-pace: {header}")

    assert heard.turn.text == "Hi."
    assert [entry.pace for entry in stage.entries] == [holds]


async def test_a_scenario_is_told_at_its_own_pace(tmp_path: Path) -> None:
    document = script(scripted("One two.", pace="ttft=30ms,chunks=token"))
    async with playing(tmp_path, document, pace=RecordedPace()) as stage:
        heard = await stage.ask()
        assert heard.raw.head_at >= 30.0
        assert stage.last.chunks == 6  # the opening, two words, the finish, the usage, the end


async def test_a_request_can_ask_for_another_pace_of_a_recording(tmp_path: Path) -> None:
    put(tmp_path, chat(), imported(*TOLD))
    async with proxy("replay", tmp_path) as it:
        slow = await ask(it.url, chat("hi", "x-llm-proxy-pace: ttft=10ms,gap=10ms"))
        cut = await ask(it.url, chat("hi", "x-llm-proxy-pace: instant,chunks=7"))
        paces = [entry.pace for entry in it.journal.entries]

    body = b"".join(TOLD)
    assert slow.chunks == [*TOLD]
    assert [at >= when for at, when in zip(slow.times, (10, 20, 30, 30), strict=True)] == [True] * 4
    assert cut.chunks == [body[at : at + 7] for at in range(0, len(body), 7)]
    assert paces == ["ttft=10ms,gap=10ms", "instant,chunks=7"]


@pytest.mark.parametrize("mode", ["replay", "auto", "simulate"])
async def test_a_header_that_is_no_pace_is_refused_and_counts_for_nothing(
    tmp_path: Path, mode: Any
) -> None:
    put(tmp_path, chat(), says("first"), says("second"))
    async with proxy(mode, tmp_path, pace=InstantPace()) as it:
        refused = await ask(it.url, chat("hi", "x-llm-proxy-pace: 50"))
        answered = await ask(it.url, chat())

    sentence = json.loads(refused.body)["error"]["message"]
    assert (refused.status, refused.header("x-should-retry")) == (400, "false")
    assert sentence.startswith("x-llm-proxy-pace: '50' is no pace: use recorded, instant,")
    assert answered.status == 200
    if mode != "simulate":
        assert b"first" in answered.body


def test_a_request_without_the_header_asks_for_no_pace() -> None:
    assert requested_pace(call(chat())) is None
    assert requested_pace(call(chat("hi", "X-LLM-Proxy-Pace: 4X"))) == RecordedPace(4.0)
    with pytest.raises(RequestRefused, match="it has a comma too many"):
        requested_pace(call(chat("hi", "x-llm-proxy-pace: 4x,")))


async def test_live_answers_have_no_pace(tmp_path: Path) -> None:
    slow = chat("hi", "x-llm-proxy-pace: ttft=9s")
    async with upstream(chunked([*TOLD])) as live, proxy("auto", tmp_path, live.url) as it:
        raw = await ask(it.url, slow, within=5)
        entries = list(it.journal.entries)

    assert raw.body == b"".join(TOLD)
    assert [entry.pace for entry in entries] == [""]


# The page


async def page(url: str, method: str = "GET", **said: Any) -> tuple[int, Any]:
    raw: Raw = await ask(url, post("/_proxy/pace", json.dumps(said).encode(), method=method))
    return raw.status, json.loads(raw.body)


async def test_the_pace_can_be_set_and_taken_back_while_the_proxy_runs(tmp_path: Path) -> None:
    start = {"pace": "4x", "started_with": "4x", "sessions": {}, "seed": 3}
    async with proxy("replay", tmp_path, pace=RecordedPace(4.0), seed=3) as it:
        assert await page(it.url) == (200, start)
        assert await page(it.url, "PUT", pace=" 50 TPS ") == (200, start | {"pace": "50tps"})
        own = {"pace": "50tps", "sessions": {"a": "instant"}}
        assert await page(it.url, "PUT", pace="instant", session="a") == (200, start | own)
        assert await page(it.url, "DELETE") == (200, start | {"sessions": {"a": "instant"}})
        assert await page(it.url, "DELETE", session="a") == (200, start)


async def test_a_session_that_begins_again_has_no_pace_of_its_own(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path) as it:
        for name in "ab":
            await page(it.url, "PUT", pace="instant", session=name)
        await ask(it.url, post("/_proxy/sessions/a/reset", b""))
        _, told = await page(it.url)

    assert told["sessions"] == {"b": "instant"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"pace": "50"}, "'50' is no pace: use recorded, instant, a speed such as 4x or 0.5x, "),
        ({}, 'say a pace: {"pace": "50tps"}; docs/pacing.md has them all'),
        ({"pace": 4}, 'say a pace: {"pace": "50tps"}; docs/pacing.md has them all'),
        ({"pace": "4x", "session": "a/b"}, "'a/b' is no session name: use letters, digits, dot, "),
        ({"pace": "4x", "session": 5}, "'5' is no session name: use letters, digits, dot, "),
    ],
    ids=["no pace", "nothing", "a number", "no session", "a number for a session"],
)
async def test_what_cannot_be_set_is_refused_in_words(
    tmp_path: Path, said: dict[str, Any], error: str
) -> None:
    async with proxy("replay", tmp_path) as it:
        status, told = await page(it.url, "PUT", **said)
        _, after = await page(it.url)

    assert (status, told["error"][: len(error)]) == (400, error)
    assert (after["pace"], after["sessions"]) == ("recorded", {})


async def test_a_recording_run_has_no_pace_to_set(tmp_path: Path) -> None:
    async with proxy("record", tmp_path) as it:
        status, told = await page(it.url, "PUT", pace="instant")
        seen = await page(it.url)

    assert (status, told["error"]) == (
        409, "record passes answers on as they come, at no pace of ours",
    )  # fmt: skip
    assert seen[0] == 200


def test_the_pace_of_a_session_comes_before_that_of_all() -> None:
    it = PaceRegistry(RecordedPace(), seed=1)
    it.set_pace(RecordedPace(2.0))
    it.set_pace(InstantPace(), "a")

    assert (it.pace_of("a"), it.pace_of("b"), it.pace, it.startup_pace) == (
        InstantPace(), RecordedPace(2.0), RecordedPace(2.0), RecordedPace(),
    )  # fmt: skip
    it.set_pace(None)
    it.set_pace(None, "a")
    assert (it.pace_of("a"), it.pace_of("b")) == (RecordedPace(), RecordedPace())


# Scenarios


@pytest.mark.parametrize(
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

    [found] = load_file("a.yaml", document.encode()).mistakes

    assert str(found) == (
        f"a.yaml:{place}: '4x,gap=1ms' is no pace: 4x keeps the recorded times, and gap gives "
        "others: leave one of them out"
    )


# What is read to pace a recording


@pytest.mark.parametrize("is_new", [False, True])
async def test_what_is_read_of_a_recording_is_kept_for_as_long_as_it_is_the_same(
    is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(cassette: Cassette, chunks: Any) -> PacedResponse:
        read.append(str(chunks))
        return pace_input.paced_response(cassette, chunks)

    monkeypatch.setattr("llm_proxy.modes.take_player.paced_response", reading)
    it, of = player(InstantPace()), call(chat())
    for pace in ("50tps", "9tps", "gap=1ms,chunks=recorded", "gap=2ms", "recorded", "instant"):
        take = Always(replace(CASSETTE) if is_new else CASSETTE)
        answer = await it.play(take, of, 1, parse_pace(pace))
        assert answer.source == play_cassette(
            CASSETTE, parse_pace(pace), seeded_chance(0, "default", of.key, 1)
        )

    assert read == (["None", "None", "recorded", "None"] if is_new else ["None", "recorded"])


async def test_a_long_recording_is_read_aside_and_a_short_one_is_not() -> None:
    long = read_cassette(FILE, written([Read(20.0, b"".join(TOLD[:3] * 100))]))
    aside: list[object] = []

    async def seen(function: Callable[[], T]) -> T:
        aside.append(function)
        return function()

    it, of = TakePlayer(PaceRegistry(InstantPace()), seen), call(chat())
    for cassette, pace in ((long, "50tps"), (long, "9tps"), (long, "4x"), (CASSETTE, "50tps")):
        await it.play(Always(cassette), of, 1, parse_pace(pace))

    assert len(aside) == 1


async def test_no_more_is_kept_than_of_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = CASSETTE.end.size + len(CASSETTE.request.body)
    monkeypatch.setattr("llm_proxy.modes.take_player._KEPT", 3 * size)
    it, of = player(parse_pace("gap=1ms")), call(chat())
    for number in (1, 2, 3, 1, 4, 5):
        take = Always(replace(CASSETTE, file=f"{number}.jsonl"))
        await it.play(take, of, 1, it.pace_of(of))

    assert [file for file, _ in it._cached_readings] == ["1.jsonl", "4.jsonl", "5.jsonl"]


async def test_what_takes_its_time_is_done_one_by_one() -> None:
    running: list[int] = []
    together: list[int] = []
    aside = SequentialOffload()

    def work(number: int) -> int:
        running.append(number)
        together.append(len(running))
        running.remove(number)
        return number

    done = await asyncio.gather(*(aside(partial(work, number)) for number in range(9)))

    assert done == [*range(9)]
    assert together == [1] * 9


# At the command line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pace", "gap=30..80ms", "--seed", "7"), ["pace gap=30..80ms, with seed 7"]),
        (("--pace", "4x", "--seed", "7"), []),
    ],
    ids=["by chance", "without"],
)
async def test_the_seed_is_told_where_chance_has_a_part_in_the_pace(
    tmp_path: Path, options: tuple[str, ...], said: list[str]
) -> None:
    ran = await run("replay", *options, "--", sys.executable, "-c", "", folder=tmp_path)

    assert ran.code == 0
    assert re.findall("pace .*", ran.err) == said


def test_sessions_with_a_pace_of_their_own_are_kept_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_proxy.shell.running.pace_registry._MOST", 2)
    paces = PaceRegistry(RecordedPace())
    for session in ("a", "b", "a", "c"):
        paces.set_pace(InstantPace(), session)
    assert list(paces.session_paces) == ["a", "c"]
