"""Each mode with minimal fakes of the library, the recorder and the upstream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pytest

from case_tables import each_row
from cassette_builders import HEAD, make_cassette
from llm_proxy import misses
from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.errors import Miss
from llm_proxy.exchange import Ending, Read, Request, ResponseHead
from llm_proxy.modes import AutoMode, Mode, ModeResponse, RecordMode, ReplayMode
from llm_proxy.pacing import InstantPace, RecordedPace
from llm_proxy.pacing.cassette_player import replay_actions
from llm_proxy.pacing.timing import make_seeded_draw
from llm_proxy.ports import ActiveRecording, SimilarTakes, StartRecording
from llm_proxy.routing import RoutedRequest, route_request
from llm_proxy.take_numbers import AfterLast, Again, OnMiss
from pacing_helpers import make_player


def call(path: str = "/v1/x", session: str = "s") -> RoutedRequest:
    return route_request(Request("POST", f"/@{session}{path}", "", (), b""), 0.0, lambda: 0.0)


KEY = call().key


@dataclass(frozen=True)
class StoredTake:
    """A take that exists from the start."""

    file: str

    async def cassette(self) -> Cassette:
        return make_cassette(b"data: 1\n\n")


class StoredTakes:
    """Takes that exist from the start."""

    def __init__(self, **takes_per_session: int) -> None:
        """Set the number of takes of `KEY` in each session."""
        self._count = takes_per_session

    async def takes_of(self, session: str, key: str) -> Sequence[StoredTake]:
        count = self._count.get(session, 0) if key == KEY else 0
        return [StoredTake(f"{session}-{number}") for number in range(1, count + 1)]

    async def nearest(self, call: RoutedRequest, share: float) -> SimilarTakes | None:
        return None

    async def miss_for_request(self, call: RoutedRequest, ordinal: int) -> Miss:
        return misses.no_takes_left_miss(call, 0, ordinal)


class NullRecording:
    """A recording that stores nothing."""

    def record_head(self, at: float, record_head: ResponseHead) -> None: ...
    def record_read(self, record_read: Read) -> None: ...
    def finish(self, at: float, ending: Ending) -> None: ...
    async def wait_for_capacity(self) -> None: ...

    @property
    def has_capacity(self) -> bool:
        return True


class FakeRecorder:
    """A recorder that only lists the recordings that were started."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int | None]] = []
        self.resets: list[str] = []
        self.own_take_count = 0
        """The number of takes that the run has recorded for every request."""

    def start_recording(
        self,
        call: RoutedRequest,
        operator_secrets: frozenset[bytes] = frozenset(),
        take: int | None = None,
    ) -> ActiveRecording:
        self.started.append((call.session, take))
        return NullRecording()

    async def takes_of_run(self, session: str, key: str) -> Sequence[StoredTake]:
        return [StoredTake(f"own-{number}") for number in range(1, self.own_take_count + 1)]

    def reset_session(self, session: str) -> None:
        self.resets.append(session)


LIVE_ACTIONS: tuple[Action, ...] = (Begin(HEAD), Send(b"live"))


class FakeUpstream:
    """An upstream that answers immediately."""

    def __init__(self) -> None:
        self.request_count = 0

    async def stream(
        self, call: RoutedRequest, record: StartRecording | None
    ) -> AsyncGenerator[Burst, None]:
        self.request_count += 1
        if record is not None:
            record(frozenset())
        yield LIVE_ACTIONS


async def actions_of(response: ModeResponse) -> tuple[Action, ...]:
    if isinstance(response.action_source, tuple):
        return response.action_source
    async with aclosing(response.action_source) as bursts:
        return tuple([action async for burst in bursts for action in burst])


async def origins(mode: Mode, *calls: RoutedRequest) -> list[str]:
    """The origins of the responses to these calls; `miss` where there is none."""
    found: list[str] = []
    for routed in calls:
        try:
            response = await mode.respond(routed)
        except Miss:
            found.append("miss")
        else:
            found.append(response.origin)
            assert await actions_of(response)
    return found


async def test_a_cassette_is_played_in_one_burst() -> None:
    response = await make_player(InstantPace()).replay_take(
        StoredTake("it"), call(), 1, InstantPace()
    )
    expected = replay_actions(make_cassette(b"data: 1\n\n"), InstantPace(), make_seeded_draw(0))
    assert response.action_source == expected


async def test_replay_plays_at_its_pace() -> None:
    mode = ReplayMode(StoredTakes(s=1), make_player(RecordedPace(2)), "repeat")
    assert await actions_of(await mode.respond(call())) == replay_actions(
        make_cassette(b"data: 1\n\n"), RecordedPace(2), make_seeded_draw(0)
    )


@each_row(
    ("after_last", "expected"),
    [
        ("repeat", ["s-1", "s-2", "s-2", "s-2"]),
        ("cycle", ["s-1", "s-2", "s-1", "s-2"]),
        ("fail", ["s-1", "s-2", "miss", "miss"]),
    ],
)
async def test_replay_plays_one_take_after_the_other(
    after_last: AfterLast, expected: list[str]
) -> None:
    mode = ReplayMode(StoredTakes(s=2), make_player(InstantPace()), after_last)
    assert await origins(mode, *[call()] * 4) == expected


async def test_replay_counts_sessions_and_keys_apart() -> None:
    mode = ReplayMode(StoredTakes(s=2, t=2), make_player(InstantPace()), "fail")
    calls = [call(), call(session="t"), call("/v1/other"), call(), call(session="t"), call()]
    assert await origins(mode, *calls) == ["s-1", "t-1", "miss", "s-2", "t-2", "miss"]


async def test_replay_begins_a_session_again() -> None:
    mode = ReplayMode(StoredTakes(s=2, t=2), make_player(InstantPace()), "fail")
    await origins(mode, call(), call(session="t"))
    mode.reset_session("s")
    assert await origins(mode, call(), call(session="t")) == ["s-1", "t-2"]


async def test_replay_says_why_it_has_no_answer() -> None:
    with pytest.raises(Miss, match="no take is left for POST /v1/x: this is request 1"):
        await ReplayMode(StoredTakes(), make_player(InstantPace()), "repeat").respond(call())


async def test_record_forwards_and_records_every_request() -> None:
    upstream, recorder = FakeUpstream(), FakeRecorder()
    mode = RecordMode(upstream, recorder)
    response = await mode.respond(call())
    assert (upstream.request_count, recorder.started) == (
        0,
        [],
    )  # nothing before the source is consumed
    assert await actions_of(response) == LIVE_ACTIONS
    assert await origins(mode, call(), call(session="t")) == ["live", "live"]
    assert recorder.started == [("s", None), ("s", None), ("t", None)]
    mode.reset_session("s")
    assert recorder.resets == ["s"]


def auto(
    on_miss: OnMiss, again: Again = "record", **takes: int
) -> tuple[AutoMode, FakeUpstream, FakeRecorder]:
    upstream, recorder = FakeUpstream(), FakeRecorder()
    player = make_player(InstantPace())
    mode = AutoMode(StoredTakes(**takes), upstream, recorder, player, on_miss, again)
    return mode, upstream, recorder


async def test_auto_replays_existing_takes_and_records_further_ones_after_them() -> None:
    mode, upstream, recorder = auto("record", s=2)
    assert await origins(mode, *[call()] * 4) == ["s-1", "s-2", "live", "live"]
    assert recorder.started == [("s", 3), ("s", 4)]
    assert upstream.request_count == 2


async def test_auto_begins_a_session_again() -> None:
    mode, _, recorder = auto("record", s=1)
    await origins(mode, call(), call())
    mode.reset_session("s")
    assert await origins(mode, call(), call()) == ["s-1", "live"]
    assert recorder.started == [("s", 2), ("s", 2)]


@each_row(
    ("own_take_count", "expected"),
    [
        (0, ["s-1", "live", "live", "live"]),
        (1, ["s-1", "own-1", "own-1", "own-1"]),
        (2, ["s-1", "own-1", "own-2", "own-2"]),
    ],
)
async def test_auto_may_replay_what_its_run_has_recorded_after_the_existing_takes(
    own_take_count: int, expected: list[str]
) -> None:
    mode, upstream, recorder = auto("record", "replay", s=1)
    recorder.own_take_count = own_take_count
    assert await origins(mode, *[call()] * 4) == expected
    mode.reset_session("s")
    assert await origins(mode, *[call()] * 4) == expected
    assert upstream.request_count == len(recorder.started) == 2 * expected.count("live")


async def test_auto_may_forward_without_recording() -> None:
    mode, upstream, recorder = auto("passthrough", s=1)
    assert await origins(mode, call(), call()) == ["s-1", "live, not recorded"]
    assert (upstream.request_count, recorder.started) == (1, [])


async def test_auto_may_fail_where_nothing_is_recorded() -> None:
    mode, upstream, recorder = auto("fail", s=1)
    assert await origins(mode, call(), call()) == ["s-1", "miss"]
    assert (upstream.request_count, recorder.started) == (0, [])


def test_a_mode_has_its_command_line_name() -> None:
    modes: list[Mode] = [
        RecordMode(FakeUpstream(), FakeRecorder()),
        ReplayMode(StoredTakes(), make_player(InstantPace()), "repeat"),
        auto("record")[0],
    ]
    assert [mode.name for mode in modes] == ["record", "replay", "auto"]
