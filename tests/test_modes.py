"""Each mode with the simplest world that answers it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pytest

from cassette_builders import HEAD, cassette
from llm_proxy import misses
from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.errors import Miss
from llm_proxy.exchange import Ending, Read, Request, ResponseHead
from llm_proxy.modes import AutoMode, Mode, ModeResponse, RecordMode, ReplayMode
from llm_proxy.pacing import InstantPace, RecordedPace
from llm_proxy.pacing.cassette_player import play_cassette
from llm_proxy.pacing.timing import seeded_chance
from llm_proxy.ports import Recording, SimilarTakes
from llm_proxy.routing import RoutedRequest, route
from llm_proxy.take_numbers import AfterLast, OnMiss
from pacing_helpers import player


def call(path: str = "/v1/x", session: str = "s") -> RoutedRequest:
    return route(Request("POST", f"/@{session}{path}", "", (), b""), 0.0, lambda: 0.0)


KEY = call().key


@dataclass(frozen=True)
class Shelved:
    """A take that is there from the beginning."""

    file: str

    async def cassette(self) -> Cassette:
        return cassette(b"data: 1\n\n")


class Shelves:
    """Takes that are there from the beginning."""

    def __init__(self, **of_session: int) -> None:
        """How many takes of `KEY` each session has."""
        self._count = of_session

    async def takes_of(self, session: str, key: str) -> Sequence[Shelved]:
        count = self._count.get(session, 0) if key == KEY else 0
        return [Shelved(f"{session}-{number}") for number in range(1, count + 1)]

    async def nearest(self, call: RoutedRequest, share: float) -> SimilarTakes | None:
        return None

    async def miss(self, call: RoutedRequest, ordinal: int) -> Miss:
        return misses.miss_used_up(call, 0, ordinal)


class Ticket:
    """A recording that takes nothing down."""

    def redact_secrets(self, secrets: frozenset[bytes]) -> None: ...
    def record_head(self, at: float, record_head: ResponseHead) -> None: ...
    def record_read(self, record_read: Read) -> None: ...
    def finish(self, at: float, ending: Ending) -> None: ...
    async def wait_for_capacity(self) -> None: ...

    @property
    def has_capacity(self) -> bool:
        return True


class Tickets:
    """A recorder that remembers what was to be recorded."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int | None]] = []
        self.resets: list[str] = []

    def start(self, call: RoutedRequest, take: int | None = None) -> Recording:
        self.started.append((call.session, take))
        return Ticket()

    def reset(self, session: str) -> None:
        self.resets.append(session)


LIVE: tuple[Action, ...] = (Begin(HEAD), Send(b"live"))


class Provider:
    """An upstream that answers at once."""

    def __init__(self) -> None:
        self.asked = 0

    async def stream(
        self, call: RoutedRequest, record: Callable[[], Recording] | None
    ) -> AsyncGenerator[Burst, None]:
        self.asked += 1
        if record is not None:
            record()
        yield LIVE


async def performed(answer: ModeResponse) -> tuple[Action, ...]:
    if isinstance(answer.source, tuple):
        return answer.source
    async with aclosing(answer.source) as bursts:
        return tuple([action async for burst in bursts for action in burst])


async def origins(mode: Mode, *calls: RoutedRequest) -> list[str]:
    """Where the answers to these calls come from; `miss` where there is none."""
    found: list[str] = []
    for it in calls:
        try:
            answer = await mode.respond(it)
        except Miss:
            found.append("miss")
        else:
            found.append(answer.origin)
            assert await performed(answer)
    return found


async def test_a_cassette_is_played_in_one_burst() -> None:
    answer = await player(InstantPace()).play(Shelved("it"), call(), 1, InstantPace())
    expected = play_cassette(cassette(b"data: 1\n\n"), InstantPace(), seeded_chance(0))
    assert answer.source == expected


async def test_replay_plays_at_its_pace() -> None:
    mode = ReplayMode(Shelves(s=1), player(RecordedPace(2)), "repeat")
    assert await performed(await mode.respond(call())) == play_cassette(
        cassette(b"data: 1\n\n"), RecordedPace(2), seeded_chance(0)
    )


@pytest.mark.parametrize(
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
    mode = ReplayMode(Shelves(s=2), player(InstantPace()), after_last)
    assert await origins(mode, *[call()] * 4) == expected


async def test_replay_counts_sessions_and_keys_apart() -> None:
    mode = ReplayMode(Shelves(s=2, t=2), player(InstantPace()), "fail")
    asked = [call(), call(session="t"), call("/v1/other"), call(), call(session="t"), call()]
    assert await origins(mode, *asked) == ["s-1", "t-1", "miss", "s-2", "t-2", "miss"]


async def test_replay_begins_a_session_again() -> None:
    mode = ReplayMode(Shelves(s=2, t=2), player(InstantPace()), "fail")
    await origins(mode, call(), call(session="t"))
    mode.reset("s")
    assert await origins(mode, call(), call(session="t")) == ["s-1", "t-2"]


async def test_replay_says_why_it_has_no_answer() -> None:
    with pytest.raises(Miss, match="request 1 for POST /v1/x"):
        await ReplayMode(Shelves(), player(InstantPace()), "repeat").respond(call())


async def test_record_passes_everything_on_and_takes_it_down() -> None:
    upstream, recorder = Provider(), Tickets()
    mode = RecordMode(upstream, recorder)
    answer = await mode.respond(call())
    assert (upstream.asked, recorder.started) == (0, [])  # nothing before the source is consumed
    assert await performed(answer) == LIVE
    assert await origins(mode, call(), call(session="t")) == ["live", "live"]
    assert recorder.started == [("s", None), ("s", None), ("t", None)]
    mode.reset("s")
    assert recorder.resets == ["s"]


def auto(on_miss: OnMiss, **takes: int) -> tuple[AutoMode, Provider, Tickets]:
    upstream, recorder = Provider(), Tickets()
    mode = AutoMode(Shelves(**takes), upstream, recorder, player(InstantPace()), on_miss)
    return mode, upstream, recorder


async def test_auto_plays_what_is_there_and_records_the_rest_behind_it() -> None:
    mode, upstream, recorder = auto("record", s=2)
    assert await origins(mode, *[call()] * 4) == ["s-1", "s-2", "live", "live"]
    assert recorder.started == [("s", 3), ("s", 4)]
    assert upstream.asked == 2


async def test_auto_begins_a_session_again() -> None:
    mode, _, recorder = auto("record", s=1)
    await origins(mode, call(), call())
    mode.reset("s")
    assert await origins(mode, call(), call()) == ["s-1", "live"]
    assert recorder.started == [("s", 2), ("s", 2)]


async def test_auto_may_pass_on_without_recording() -> None:
    mode, upstream, recorder = auto("passthrough", s=1)
    assert await origins(mode, call(), call()) == ["s-1", "live, not recorded"]
    assert (upstream.asked, recorder.started) == (1, [])


async def test_auto_may_fail_where_nothing_is_recorded() -> None:
    mode, upstream, recorder = auto("fail", s=1)
    assert await origins(mode, call(), call()) == ["s-1", "miss"]
    assert (upstream.asked, recorder.started) == (0, [])


def test_a_mode_is_called_as_on_the_command_line() -> None:
    modes: list[Mode] = [
        RecordMode(Provider(), Tickets()),
        ReplayMode(Shelves(), player(InstantPace()), "repeat"),
        auto("record")[0],
    ]
    assert [mode.name for mode in modes] == ["record", "replay", "auto"]
