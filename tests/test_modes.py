"""Each mode with the simplest world that answers it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pytest

from llm_proxy import misses
from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.errors import Miss
from llm_proxy.exchange import Ending, Head, Read, Request
from llm_proxy.modes import Answer, Auto, Mode, Record, Replay
from llm_proxy.pacing import Instant, Recorded
from llm_proxy.pacing.cassette_player import play
from llm_proxy.pacing.timing import chance
from llm_proxy.ports import Alike, Recording
from llm_proxy.routing import Call, route
from llm_proxy.take_numbers import AfterLast, OnMiss
from paced import player
from tapes import HEAD, cassette


def call(path: str = "/v1/x", session: str = "s") -> Call:
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

    async def of(self, session: str, key: str) -> Sequence[Shelved]:
        count = self._count.get(session, 0) if key == KEY else 0
        return [Shelved(f"{session}-{number}") for number in range(1, count + 1)]

    async def nearest(self, call: Call, share: float) -> Alike | None:
        return None

    async def miss(self, call: Call, ordinal: int) -> Miss:
        return misses.used_up(call, 0, ordinal)


class Ticket:
    """A recording that takes nothing down."""

    def conceal(self, secrets: frozenset[bytes]) -> None: ...
    def head(self, at: float, head: Head) -> None: ...
    def read(self, read: Read) -> None: ...
    def end(self, at: float, ending: Ending) -> None: ...
    async def catch_up(self) -> None: ...

    @property
    def keeps_up(self) -> bool:
        return True


class Tickets:
    """A recorder that remembers what was to be recorded."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int | None]] = []
        self.resets: list[str] = []

    def start(self, call: Call, take: int | None = None) -> Recording:
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
        self, call: Call, record: Callable[[], Recording] | None
    ) -> AsyncGenerator[Burst, None]:
        self.asked += 1
        if record is not None:
            record()
        yield LIVE


async def performed(answer: Answer) -> tuple[Action, ...]:
    if isinstance(answer.source, tuple):
        return answer.source
    async with aclosing(answer.source) as bursts:
        return tuple([action async for burst in bursts for action in burst])


async def origins(mode: Mode, *calls: Call) -> list[str]:
    """Where the answers to these calls come from; `miss` where there is none."""
    found: list[str] = []
    for it in calls:
        try:
            answer = await mode.answer(it)
        except Miss:
            found.append("miss")
        else:
            found.append(answer.origin)
            assert await performed(answer)
    return found


async def test_a_cassette_is_played_in_one_burst() -> None:
    answer = await player(Instant()).play(Shelved("it"), call(), 1, Instant())
    expected = play(cassette(b"data: 1\n\n"), Instant(), chance(0))
    assert answer.source == expected


async def test_replay_plays_at_its_pace() -> None:
    mode = Replay(Shelves(s=1), player(Recorded(2)), "repeat")
    assert await performed(await mode.answer(call())) == play(
        cassette(b"data: 1\n\n"), Recorded(2), chance(0)
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
    mode = Replay(Shelves(s=2), player(Instant()), after_last)
    assert await origins(mode, *[call()] * 4) == expected


async def test_replay_counts_sessions_and_keys_apart() -> None:
    mode = Replay(Shelves(s=2, t=2), player(Instant()), "fail")
    asked = [call(), call(session="t"), call("/v1/other"), call(), call(session="t"), call()]
    assert await origins(mode, *asked) == ["s-1", "t-1", "miss", "s-2", "t-2", "miss"]


async def test_replay_begins_a_session_again() -> None:
    mode = Replay(Shelves(s=2, t=2), player(Instant()), "fail")
    await origins(mode, call(), call(session="t"))
    mode.reset("s")
    assert await origins(mode, call(), call(session="t")) == ["s-1", "t-2"]


async def test_replay_says_why_it_has_no_answer() -> None:
    with pytest.raises(Miss, match="request 1 for POST /v1/x"):
        await Replay(Shelves(), player(Instant()), "repeat").answer(call())


async def test_record_passes_everything_on_and_takes_it_down() -> None:
    upstream, recorder = Provider(), Tickets()
    mode = Record(upstream, recorder)
    answer = await mode.answer(call())
    assert (upstream.asked, recorder.started) == (0, [])  # nothing before the source is consumed
    assert await performed(answer) == LIVE
    assert await origins(mode, call(), call(session="t")) == ["live", "live"]
    assert recorder.started == [("s", None), ("s", None), ("t", None)]
    mode.reset("s")
    assert recorder.resets == ["s"]


def auto(on_miss: OnMiss, **takes: int) -> tuple[Auto, Provider, Tickets]:
    upstream, recorder = Provider(), Tickets()
    mode = Auto(Shelves(**takes), upstream, recorder, player(Instant()), on_miss)
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
        Record(Provider(), Tickets()),
        Replay(Shelves(), player(Instant()), "repeat"),
        auto("record")[0],
    ]
    assert [mode.name for mode in modes] == ["record", "replay", "auto"]
