"""Which requests a rule strikes: counted, timed, rolled and named, the same in each run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from fault_injection import DIALECTS, answer_of, asked, burst_of, call_of
from llm_proxy.actions import Begin, Burst
from llm_proxy.exchange import Request
from llm_proxy.faults.engine import FaultConditions, FaultEngine
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.routing import RoutedRequest


def request(content: str = "a", dialect: str = "openai-chat", *, stream: bool = True) -> Request:
    """A request that says this."""
    it = asked(dialect, stream=stream)
    return Request(it.method, it.path, it.query, it.headers, it.body[:-1] + _about(content))


def _about(content: str) -> bytes:
    return b',"about":"%b"}' % content.encode()


def called(session: str = "default", content: str = "a") -> RoutedRequest:
    return call_of(request(content), session)


def struck(rule: str, calls: Sequence[RoutedRequest], times: Sequence[float] = ()) -> list[int]:
    """The numbers of the calls, from 1, that a rule strikes."""
    injector = FaultEngine([parse_rule(rule)])
    moments = times or [0.0] * len(calls)
    return [
        number
        for number, (call, now) in enumerate(zip(calls, moments, strict=True), 1)
        if injector.faults_for(call, (), now)
    ]


ANSWER: Final = burst_of(answer_of(request()))
ONE: Final = [called() for _ in range(7)]
TWO: Final = [called(session) for session in "abababab"]
SAID: Final = [called(content=item) for item in "xyxyxx"]
BOTH: Final = [called(session, it) for session, it in ("ax", "bx", "ay", "ax", "bx", "by", "by")]


@pytest.mark.parametrize(
    ("occasion", "calls", "wanted"),
    [
        ("", ONE, [1, 2, 3, 4, 5, 6, 7]),
        ("nth=3", ONE, [3]),
        ("first=2", ONE, [1, 2]),
        ("every=3", ONE, [3, 6]),
        ("times=2", ONE, [1, 2]),
        ("every=2,times=2", ONE, [2, 4]),
        ("nth=2", TWO, [3, 4]),
        ("nth=2,per=session", TWO, [3, 4]),
        ("nth=2,per=run", TWO, [2]),
        ("first=3,per=run", TWO, [1, 2, 3]),
        ("first=1", TWO, [1, 2]),
        ("first=1,times=1", TWO, [1]),
        ("nth=2,per=request", SAID, [3, 4]),
        ("first=1,per=request", SAID, [1, 2]),
        ("every=2,per=request", SAID, [3, 4, 6]),
        ("nth=2,per=request", BOTH, [4, 5, 7]),
        ("nth=2,session=a", TWO, [3]),
        ("nth=2,per=run,session=b", TWO, [4]),
        ("probability=0", ONE, []),
        ("probability=100%", ONE, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_requests_are_counted(
    occasion: str, calls: Sequence[RoutedRequest], wanted: list[int]
) -> None:
    assert struck(f"reset,{occasion}".rstrip(","), calls) == wanted


@pytest.mark.parametrize(
    ("window", "wanted"),
    [("10s", [1, 2]), ("5s..20s", [2, 3]), ("0ms..1ms", [1]), ("1m..2m", [])],
)
def test_a_window_counts_from_the_moment_at_which_the_rule_was_given(
    window: str, wanted: list[int]
) -> None:
    times = [0.0, 9_999.0, 10_000.0, 20_000.0]
    calls = [called() for _ in times]

    assert struck(f"reset,window={window}", calls, times) == wanted

    injector = FaultEngine()
    injector.set_rules([parse_rule(f"reset,window={window}")], 1e6)
    met = [
        bool(injector.faults_for(it, (), 1_000_000.0 + at))
        for it, at in zip(calls, times, strict=True)
    ]
    assert [number for number, it in enumerate(met, 1) if it] == wanted


def test_what_comes_outside_of_the_window_is_not_counted() -> None:
    assert struck("reset,nth=1,window=5s..20s", ONE[:3], [0.0, 6_000.0, 7_000.0]) == [2]


AUDIENCES: Final[list[tuple[str, Callable[[], RoutedRequest], bool]]] = [
    ("dialect=openai-*", called, True),
    ("dialect=anthropic", called, False),
    ("provider=openai", called, True),
    ("provider=OpenAI", called, False),
    ("model=m", called, True),
    ("model=m?*", called, False),
    ("model=[l-n]", called, True),
    ("path=/v1/*", called, True),
    ("path=/v1", called, False),
    ("session=default", called, True),
    ("session=test-*", lambda: called("test-7"), True),
    ("session=test-*", called, False),
    ("stream=true", called, True),
    ("stream=no", called, False),
    ("stream=no", lambda: call_of(request(stream=False)), True),
    ("model=m,session=default,stream=yes", called, True),
    ("model=m,session=other", called, False),
]


@pytest.mark.parametrize(
    ("audience", "call", "meant"), AUDIENCES, ids=[f"{item[0]}-{item[2]}" for item in AUDIENCES]
)
def test_rules_are_meant_for_those_that_they_name(
    audience: str, call: Callable[[], RoutedRequest], meant: bool
) -> None:
    assert bool(struck(f"reset,{audience}", [call()])) is meant


def test_a_session_that_begins_again_is_counted_from_1_and_others_are_not() -> None:
    rules = ("stall,for=1s,nth=1", "stall,for=2s,nth=1,per=request", "drop,times=1")
    injector = FaultEngine(map(parse_rule, rules))

    def meets(session: str) -> int:
        injection = injector.faults_for(called(session), (), 0.0)
        injection.rewrite_burst(ANSWER)
        return len(injection.final_records())

    before = [meets("a"), meets("b"), meets("a"), meets("b")]
    injector.reset_session("a")
    after = [meets("a"), meets("b"), meets("a")]

    assert before == [3, 2, 0, 0]
    assert after == [2, 0, 0]
    assert [startup_rule.to_document() for startup_rule in injector.startup_rules] == [
        {"rule": "stall,for=1s,nth=1", "seen": 7, "struck": 3},
        {"rule": "stall,for=2s,nth=1,per=request", "seen": 7, "struck": 3},
        {"rule": "drop,times=1", "seen": 7, "struck": 1},
    ]


def test_what_comes_to_nothing_is_not_counted_as_struck() -> None:
    injector = FaultEngine(
        [parse_rule("reset,after=99,times=1"), parse_rule("drop,after=1,times=1")]
    )

    noted = []
    for _ in range(3):
        injection = injector.faults_for(called(), (), 0.0)
        injection.rewrite_burst(ANSWER)
        noted.append([bool(final_record.skipped) for final_record in injection.final_records()])

    assert noted == [[True, False], [True], [True]]
    assert [startup_rule.to_document()["struck"] for startup_rule in injector.startup_rules] == [
        0,
        1,
    ]


def test_a_quota_is_not_used_up_by_what_another_rule_answers() -> None:
    injector = FaultEngine(
        [parse_rule("status,code=503,first=2"), parse_rule("quota,requests=1,window=9s")]
    )

    statuses = []
    for _ in range(4):
        injection = injector.faults_for(called(), (), 0.0)
        instead = injection.replacement_response()
        statuses.append(
            next(item.head.status for item in instead or ANSWER if isinstance(item, Begin))
        )

    assert statuses == [503, 503, 200, 429]


def test_a_quota_that_lets_pass_is_never_counted_whatever_becomes_of_the_answer() -> None:
    injector = FaultEngine([parse_rule("quota,requests=5,window=9s"), parse_rule("drop,after=1")])

    injection = injector.faults_for(called(), (), 0.0)
    injection.rewrite_burst(ANSWER)
    injection.abandon("the rules of this answer make too much work together")

    assert [final_record.fault for final_record in injection.final_records()] == ["drop"]
    assert [startup_rule.to_document()["struck"] for startup_rule in injector.startup_rules] == [
        0,
        0,
    ]


def test_the_rules_of_a_scenario_count_what_it_answers_and_those_of_a_turn_the_turn() -> None:
    injector = FaultEngine()
    turn = [
        ScenarioRule(parse_rule("reset,nth=2"), f"refund, turn {item}, fault 1") for item in (1, 2)
    ]
    whole = ScenarioRule(parse_rule("reset,nth=2"), "refund, fault 1")

    def meets(*rules: ScenarioRule, now: float = 0.0) -> int:
        return len(injector.add_scenario_rules(called(), None, rules, now).final_records())

    assert [meets(turn[0]), meets(turn[1]), meets(turn[0])] == [0, 0, 1]
    assert [meets(turn[0], whole), meets(turn[1], whole), meets(whole)] == [0, 2, 0]
    late = ScenarioRule(parse_rule("reset,window=5s..6s"), "late, fault 1")
    assert [meets(late), meets(late, now=5_500), meets(late, now=6_500)] == [0, 1, 0]


JITTERY: Final = (
    "latency,by=10..500ms,probability=50%",
    "stall,after=2,for=30ms,probability=30%",
    "reset,after=3,probability=25%",
    "status,code=500,probability=10%",
)


def _outcomes(seed: int, calls: Sequence[RoutedRequest]) -> list[tuple[str, str, bytes, Burst]]:
    """What becomes of each call, by session and key; the same ones are not told apart."""
    injector = FaultEngine(map(parse_rule, JITTERY), FaultConditions(seed=seed))
    gone = []
    for call in calls:
        injection = injector.faults_for(call, (), 0.0)
        instead = injection.replacement_response()
        burst = injection.rewrite_burst(
            burst_of(answer_of(call.request)) if instead is None else instead
        )
        gone.append((call.session, call.dialect.name, call.decompressed.body, burst))
    return sorted(gone, key=repr)


def test_the_same_requests_meet_the_same_faults_in_whatever_order_they_come() -> None:
    contents = [f"{number % 40}" for number in range(200)]
    calls = [
        call_of(request(it, dialect), f"s{number % 3}")
        for number, it in enumerate(contents)
        for dialect in (list(DIALECTS.values())[number % 4],)
    ]
    first = _outcomes(1, calls)
    shuffled = [*calls]
    random.Random(4).shuffle(shuffled)

    assert _outcomes(1, shuffled) == first
    assert _outcomes(2, calls) != first
    assert len({repr(item) for item in first}) > 150
