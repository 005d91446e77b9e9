"""Which requests a rule applies to: triggers and selectors, the same in each run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from case_tables import each_row
from fault_injection import (
    DIALECTS_BY_FRAMING,
    encoded_response,
    response_burst,
    routed_request,
    turn_request,
)
from llm_proxy.actions import Begin, Burst
from llm_proxy.exchange import Request
from llm_proxy.faults.engine import FaultEngine, FaultEngineConfig
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.routing import RoutedRequest


def chat_request(
    content: str = "a", dialect: str = "openai-chat", *, stream: bool = True
) -> Request:
    """A request whose body differs by `content`."""
    base = turn_request(dialect, stream=stream)
    return Request(
        base.method, base.path, base.query, base.headers, base.body[:-1] + _content_field(content)
    )


def _content_field(content: str) -> bytes:
    return b',"about":"%b"}' % content.encode()


def routed_call(session: str = "default", content: str = "a") -> RoutedRequest:
    return routed_request(chat_request(content), session)


def affected_calls(
    rule: str, calls: Sequence[RoutedRequest], times: Sequence[float] = ()
) -> list[int]:
    """The numbers (from 1) of the calls that a rule applies to; `times` are in ms."""
    engine = FaultEngine([parse_rule(rule)])
    arrival_times = times or [0.0] * len(calls)
    return [
        number
        for number, (call, arrived_at) in enumerate(zip(calls, arrival_times, strict=True), 1)
        if engine.select_faults(call, (), arrived_at).rules
    ]


RESPONSE_BURST: Final = response_burst(encoded_response(chat_request()))
SAME_CALLS: Final = [routed_call() for _ in range(7)]
TWO_SESSIONS: Final = [routed_call(session) for session in "abababab"]
TWO_CONTENTS: Final = [routed_call(content=item) for item in "xyxyxx"]
SESSIONS_AND_CONTENTS: Final = [
    routed_call(session, content) for session, content in ("ax", "bx", "ay", "ax", "bx", "by", "by")
]


@each_row(
    ("trigger", "calls", "expected"),
    [
        ("", SAME_CALLS, [1, 2, 3, 4, 5, 6, 7]),
        ("nth=3", SAME_CALLS, [3]),
        ("first=2", SAME_CALLS, [1, 2]),
        ("every=3", SAME_CALLS, [3, 6]),
        ("times=2", SAME_CALLS, [1, 2]),
        ("every=2,times=2", SAME_CALLS, [2, 4]),
        ("nth=2", TWO_SESSIONS, [3, 4]),
        ("nth=2,per=session", TWO_SESSIONS, [3, 4]),
        ("nth=2,per=run", TWO_SESSIONS, [2]),
        ("first=3,per=run", TWO_SESSIONS, [1, 2, 3]),
        ("first=1", TWO_SESSIONS, [1, 2]),
        ("first=1,times=1", TWO_SESSIONS, [1]),
        ("nth=2,per=request", TWO_CONTENTS, [3, 4]),
        ("first=1,per=request", TWO_CONTENTS, [1, 2]),
        ("every=2,per=request", TWO_CONTENTS, [3, 4, 6]),
        ("nth=2,per=request", SESSIONS_AND_CONTENTS, [4, 5, 7]),
        ("nth=2,session=a", TWO_SESSIONS, [3]),
        ("nth=2,per=run,session=b", TWO_SESSIONS, [4]),
        ("probability=0", SAME_CALLS, []),
        ("probability=100%", SAME_CALLS, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_requests_are_counted(
    trigger: str, calls: Sequence[RoutedRequest], expected: list[int]
) -> None:
    assert affected_calls(f"reset,{trigger}".rstrip(","), calls) == expected


@each_row(
    ("window", "expected"),
    [("10s", [1, 2]), ("5s..20s", [2, 3]), ("0ms..1ms", [1]), ("1m..2m", [])],
)
def test_a_window_counts_from_the_moment_at_which_the_rule_was_given(
    window: str, expected: list[int]
) -> None:
    times = [0.0, 9_999.0, 10_000.0, 20_000.0]
    calls = [routed_call() for _ in times]

    assert affected_calls(f"reset,window={window}", calls, times) == expected

    engine = FaultEngine()
    engine.set_runtime_rules([parse_rule(f"reset,window={window}")], 1e6)
    are_affected = [
        bool(engine.select_faults(call, (), 1_000_000.0 + at).rules)
        for call, at in zip(calls, times, strict=True)
    ]
    assert [number for number, is_affected in enumerate(are_affected, 1) if is_affected] == expected


def test_requests_outside_of_the_window_are_not_counted() -> None:
    assert affected_calls(
        "reset,nth=1,window=5s..20s", SAME_CALLS[:3], [0.0, 6_000.0, 7_000.0]
    ) == [2]


SELECTOR_CASES: Final[list[tuple[str, Callable[[], RoutedRequest], bool]]] = [
    ("dialect=openai-*", routed_call, True),
    ("dialect=anthropic", routed_call, False),
    ("provider=openai", routed_call, True),
    ("provider=OpenAI", routed_call, False),
    ("model=m", routed_call, True),
    ("model=m?*", routed_call, False),
    ("model=[l-n]", routed_call, True),
    ("path=/v1/*", routed_call, True),
    ("path=/v1", routed_call, False),
    ("session=default", routed_call, True),
    ("session=test-*", lambda: routed_call("test-7"), True),
    ("session=test-*", routed_call, False),
    ("stream=true", routed_call, True),
    ("stream=no", routed_call, False),
    ("stream=no", lambda: routed_request(chat_request(stream=False)), True),
    ("model=m,session=default,stream=yes", routed_call, True),
    ("model=m,session=other", routed_call, False),
]


@each_row(
    ("selector", "make_call", "matches"),
    SELECTOR_CASES,
    ids=[f"{item[0]}-{item[2]}" for item in SELECTOR_CASES],
)
def test_rules_apply_to_the_requests_that_they_select(
    selector: str, make_call: Callable[[], RoutedRequest], matches: bool
) -> None:
    assert bool(affected_calls(f"reset,{selector}", [make_call()])) is matches


def test_a_reset_session_is_counted_from_1_and_others_are_not() -> None:
    rules = ("stall,for=1s,nth=1", "stall,for=2s,nth=1,per=request", "drop,times=1")
    engine = FaultEngine(map(parse_rule, rules))

    def fault_count(session: str) -> int:
        injection = engine.select_faults(routed_call(session), (), 0.0)
        injection.rewrite_response(RESPONSE_BURST)
        return len(injection.finalize_records())

    before = [fault_count("a"), fault_count("b"), fault_count("a"), fault_count("b")]
    engine.reset_session("a")
    after = [fault_count("a"), fault_count("b"), fault_count("a")]

    assert before == [3, 2, 0, 0]
    assert after == [2, 0, 0]
    assert [startup_rule.to_json_fields() for startup_rule in engine.startup_rules] == [
        {"rule": "stall,for=1s,nth=1", "matched": 7, "injected": 3},
        {"rule": "stall,for=2s,nth=1,per=request", "matched": 7, "injected": 3},
        {"rule": "drop,times=1", "matched": 7, "injected": 1},
    ]


def test_a_skipped_fault_is_not_counted_as_struck() -> None:
    engine = FaultEngine([parse_rule("reset,after=99,times=1"), parse_rule("drop,after=1,times=1")])

    skipped_flags = []
    for _ in range(3):
        injection = engine.select_faults(routed_call(), (), 0.0)
        injection.rewrite_response(RESPONSE_BURST)
        skipped_flags.append(
            [bool(final_record.skipped) for final_record in injection.finalize_records()]
        )

    assert skipped_flags == [[True, False], [True], [True]]
    assert [startup_rule.to_json_fields()["injected"] for startup_rule in engine.startup_rules] == [
        0,
        1,
    ]


def test_a_quota_is_not_used_up_by_responses_of_another_rule() -> None:
    engine = FaultEngine(
        [parse_rule("status,code=503,first=2"), parse_rule("quota,requests=1,window=9s")]
    )

    statuses = []
    for _ in range(4):
        injection = engine.select_faults(routed_call(), (), 0.0)
        replacement = injection.replacement_response()
        statuses.append(
            next(
                item.head.status
                for item in replacement or RESPONSE_BURST
                if isinstance(item, Begin)
            )
        )

    assert statuses == [503, 503, 200, 429]


def test_a_quota_that_admits_a_request_is_never_counted_as_struck() -> None:
    engine = FaultEngine([parse_rule("quota,requests=5,window=9s"), parse_rule("drop,after=1")])

    injection = engine.select_faults(routed_call(), (), 0.0)
    injection.rewrite_response(RESPONSE_BURST)
    injection.mark_skipped(
        "the fault rules change too many writes of the response, or add too many bytes"
    )

    assert [final_record.fault for final_record in injection.finalize_records()] == ["drop"]
    assert [startup_rule.to_json_fields()["injected"] for startup_rule in engine.startup_rules] == [
        0,
        0,
    ]


def test_scenario_rules_count_its_responses_and_turn_rules_those_of_the_turn() -> None:
    engine = FaultEngine()
    turn_rules = [
        ScenarioRule(parse_rule("reset,nth=2"), f"refund, turn {item}, fault 1") for item in (1, 2)
    ]
    scenario_rule = ScenarioRule(parse_rule("reset,nth=2"), "refund, fault 1")

    def fault_count(*rules: ScenarioRule, now: float = 0.0) -> int:
        return len(
            engine.select_scenario_faults(routed_call(), None, rules, now).finalize_records()
        )

    assert [fault_count(turn_rules[0]), fault_count(turn_rules[1]), fault_count(turn_rules[0])] == [
        0,
        0,
        1,
    ]
    assert [
        fault_count(turn_rules[0], scenario_rule),
        fault_count(turn_rules[1], scenario_rule),
        fault_count(scenario_rule),
    ] == [0, 2, 0]
    windowed_rule = ScenarioRule(parse_rule("reset,window=5s..6s"), "late, fault 1")
    assert [
        fault_count(windowed_rule),
        fault_count(windowed_rule, now=5_500),
        fault_count(windowed_rule, now=6_500),
    ] == [0, 1, 0]


RANDOM_RULES: Final = (
    "latency,by=10..500ms,probability=50%",
    "stall,after=2,for=30ms,probability=30%",
    "reset,after=3,probability=25%",
    "status,code=500,probability=10%",
)


def _outcomes(seed: int, calls: Sequence[RoutedRequest]) -> list[tuple[str, str, bytes, Burst]]:
    """The sent actions of each call, sorted by session, dialect and body."""
    engine = FaultEngine(map(parse_rule, RANDOM_RULES), FaultEngineConfig(seed=seed))
    results = []
    for call in calls:
        injection = engine.select_faults(call, (), 0.0)
        replacement = injection.replacement_response()
        burst = injection.rewrite_response(
            response_burst(encoded_response(call.request)) if replacement is None else replacement
        )
        results.append((call.session, call.dialect.name, call.decompressed_request.body, burst))
    return sorted(results, key=repr)


def test_the_same_requests_get_the_same_faults_in_any_order() -> None:
    contents = [f"{number % 40}" for number in range(200)]
    calls = [
        routed_request(chat_request(content, dialect), f"s{number % 3}")
        for number, content in enumerate(contents)
        for dialect in (list(DIALECTS_BY_FRAMING.values())[number % 4],)
    ]
    first = _outcomes(1, calls)
    shuffled = [*calls]
    random.Random(4).shuffle(shuffled)

    assert _outcomes(1, shuffled) == first
    assert _outcomes(2, calls) != first
    assert len({repr(item) for item in first}) > 150
