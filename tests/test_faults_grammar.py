"""The grammar of rules: what it accepts, what it refuses and why; no input breaks it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from fault_injection import apply_faults, encoded_response, turn_request
from llm_proxy.actions import Begin, Send
from llm_proxy.errors import UsageError
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.grammar import LOCATION_PARSERS as LOCATION_KEYS
from llm_proxy.faults.grammar import SELECTOR_NAMES as SELECTOR_KEYS
from llm_proxy.faults.grammar import TRIGGER_PARSERS as TRIGGER_KEYS
from llm_proxy.faults.grammar import parse_rule, parse_rules
from llm_proxy.faults.kind import (
    AfterBytes,
    AfterEvents,
    AtEvent,
    AtFraction,
    AtTime,
    Mechanism,
    StreamLocation,
)
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import Selector, Trigger, matches_pattern

SIZE_HINT: Final = "a number of bytes such as 7, 16kB or 1MiB"
DURATION_HINT: Final = "a duration such as 300ms, 0.5s or 2m"
DURATION_ARGUMENTS: Final = (
    ("hang", "for"),
    ("hang-body", "for"),
    ("latency", "by"),
    ("quota,requests=1", "window"),
    ("refuse", "window"),
    ("reset", "window"),
    ("slice,size=1", "delay"),
    ("slow-close", "by"),
    ("stall", "for"),
    ("stall-keepalive", "for"),
    ("stall-keepalive", "interval"),
)
"""The arguments that need a unit: all durations but `retry-after=` and `ms=`."""

LOCATIONS: Final[dict[str, StreamLocation]] = {
    "after=0": AfterEvents(0),
    "after=3": AfterEvents(3),
    "at=message_stop": AtEvent("message_stop"),
    "at=finish": AtEvent("finish"),
    "bytes=7": AfterBytes(7),
    "bytes=16kB": AfterBytes(16_000),
    "bytes=1KiB": AfterBytes(1024),
    "ms=500": AtTime(500),
    "ms=500ms": AtTime(500),
    "ms=1.5s": AtTime(1500),
    "ms=1.5": AtTime(1.5),
    "fraction=0.5": AtFraction(0.5),
    "fraction=25%": AtFraction(0.25),
}
TRIGGERS: Final[dict[str, Trigger]] = {
    "": Trigger(),
    "nth=2": Trigger(nth=2),
    "first=3": Trigger(first=3),
    "every=4,per=request": Trigger(every=4, per="request"),
    "nth=1,per=run": Trigger(nth=1, per="run"),
    "probability=20%": Trigger(probability=0.2),
    "probability=.5": Trigger(probability=0.5),
    "window=10s..20s": Trigger(window=(10_000, 20_000)),
    "window=500ms": Trigger(window=(0, 500)),
    "times=5,probability=1": Trigger(times=5, probability=1),
}
SELECTORS: Final[dict[str, Selector]] = {
    "dialect=openai-*": Selector(dialect="openai-*"),
    "provider=groq,model=llama*": Selector(provider="groq", model="llama*"),
    'path="/v1/a,b"': Selector(path="/v1/a,b"),
    "session=test-*": Selector(session="test-*"),
    "stream=true": Selector(streams=True),
    "stream=off": Selector(streams=False),
}


@each_row(("text", "location"), LOCATIONS.items())
def test_a_location_is_parsed(text: str, location: StreamLocation) -> None:
    rule = parse_rule(f"reset,{text}")
    assert (rule.kind, rule.location, rule.trigger) == (FAULT_KINDS["reset"], location, Trigger())


@each_row(("text", "trigger"), TRIGGERS.items())
def test_a_trigger_is_parsed(text: str, trigger: Trigger) -> None:
    assert parse_rule(f"reset,{text}".rstrip(",")).trigger == trigger


@each_row(("text", "selector"), SELECTORS.items())
def test_a_selector_is_parsed(text: str, selector: Selector) -> None:
    assert parse_rule(f"reset,{text}").selector == selector


EQUIVALENT_RULES: Final = [
    ("reset,after=3", "RESET, After = 3"),
    ("reset,after=3", '"reset",after=3'.replace('"', "")),
    ("stall,for=2s", 'stall,for="2s"'),
    ("status,code=503,retry-after=2s", "status,code=503,retry_after=2s"),
    ("rate-limit,retry-after=2s", "rate-limit,retry-after=2"),
    ("overloaded,retry-after=500ms", "overloaded,retry-after=.5"),
    ("status,code=503,retry-after=0s", "status,code=503,retry-after= 0 "),
    ("rate-limit", "rate_limit"),
    ('status,code=503,message="a, b"', 'status , code=503 , message="a, b"'),
    ('status,code=503,message="a \\"b\\""', 'status,code=503,message="a \\"b\\""'),
]


@each_row(("text", "other_text"), EQUIVALENT_RULES)
def test_equivalent_spellings_parse_to_the_same_rule(text: str, other_text: str) -> None:
    first, second = parse_rule(text), parse_rule(other_text)
    assert (first.kind, first.arguments, first.location) == (
        second.kind,
        second.arguments,
        second.location,
    )


MAPPINGS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"fault": "reset", "after": 3}, "reset,after=3"),
    ({"after": 3, "fault": "reset"}, "reset,after=3"),
    ({"fault": "stall", "for": "2s", "probability": 0.5}, "stall,for=2s,probability=0.5"),
    ({"fault": "status", "code": 503, "should_retry": True}, "status,code=503,should_retry=true"),
    ({"fault": "reset", "stream": False, "bytes": 1}, "reset,stream=false,bytes=1"),
    ({"fault": "rate-limit", "retry_after": 2}, "rate-limit,retry_after=2"),
    ({"fault": "status", "code": 500, "message": "a, b"}, 'status,code=500,message="a, b"'),
    ({"fault": "status", "code": 500, "message": ' "x" '}, 'status,code=500,message=" \\"x\\" "'),
    ({"fault": "status", "code": 500, "message": ""}, 'status,code=500,message=""'),
]


@each_row(("mapping", "text"), MAPPINGS)
def test_a_mapping_parses_to_the_rule_of_the_text(mapping: dict[str, Any], text: str) -> None:
    assert parse_rule(mapping) == parse_rule(text)


_NAMES: Final = ", ".join(sorted(FAULT_KINDS))
_TERM_HINT: Final = "write name=value, and put a value that contains a comma in double quotes"
ERRORS_BY_TEXT: Final[dict[str, str]] = {
    # names
    "": "fault '': the fault name is missing; begin the rule with a name, as in reset,after=3",
    ",after=3": (
        "fault ',after=3': the fault name is missing; "
        "begin the rule with a name, as in reset,after=3"
    ),
    "rset": "fault 'rset': unknown fault 'rset'; did you mean 'reset'?",
    "xyzzy": f"fault 'xyzzy': unknown fault 'xyzzy'; known: {_NAMES}",
    "after=3": f"fault 'after=3': unknown fault 'after=3'; known: {_NAMES}",
    # terms
    "reset,3": f"fault 'reset,3': '3' is not a valid term; {_TERM_HINT}",
    "reset,": f"fault 'reset,': '' is not a valid term; {_TERM_HINT}",
    "reset,=3": f"fault 'reset,=3': '=3' is not a valid term; {_TERM_HINT}",
    "reset,a b=3": f"fault 'reset,a b=3': 'a b=3' is not a valid term; {_TERM_HINT}",
    "reset,afer=3": "fault 'reset,afer=3': unknown term 'afer'; did you mean 'after'?",
    "reset,zzz=3": "fault 'reset,zzz=3': unknown term 'zzz'",
    "stall,zzz=3": "fault 'stall,zzz=3': unknown term 'zzz'; stall takes for",
    "reset,after=1,after=2": "fault 'reset,after=1,after=2': after= is set twice",
    "overloaded,retry_after=1,RETRY-AFTER=2": (
        "fault 'overloaded,retry_after=1,RETRY-AFTER=2': retry-after= is set twice"
    ),
    "RSet": "fault 'RSet': unknown fault 'RSet'; did you mean 'reset'?",
    "reset,Afer=3": "fault 'reset,Afer=3': unknown term 'Afer'; did you mean 'after'?",
    'reset,session="a': "fault 'reset,session=\"a': a quote is not closed",
    "reset,session=(a": "fault 'reset,session=(a': a parenthesis is not closed",
    # locations
    "reset,after=x": "fault 'reset,after=x': after=x is not a non-negative integer",
    "reset,after=-1": "fault 'reset,after=-1': after=-1 is not a non-negative integer",
    "reset,after=": "fault 'reset,after=': after= is not a non-negative integer",
    "reset,after=1.5": "fault 'reset,after=1.5': after=1.5 is not a non-negative integer",
    "reset,at=": "fault 'reset,at=': at= is not an event type such as message_stop or done",
    "reset,bytes=x": f"fault 'reset,bytes=x': bytes=x is not {SIZE_HINT}",
    "reset,ms=x": f"fault 'reset,ms=x': ms=x is not {DURATION_HINT}",
    "reset,fraction=2": (
        "fault 'reset,fraction=2': fraction=2 is not a number from 0 to 1, or a percentage such as "
        "20%"
    ),
    "reset,after=1,bytes=2": (
        "fault 'reset,after=1,bytes=2': after= and bytes= both set the fault's location; remove one"
    ),
    "status,code=503,after=1": (
        "fault 'status,code=503,after=1': status does not support a location; remove after="
    ),
    "drop,bytes=7": "fault 'drop,bytes=7': drop does not support bytes=; use after= or at=",
    # arguments
    "status": "fault 'status': status requires code= (HTTP status from 400 to 599)",
    "status,code=200": (
        "fault 'status,code=200': code=200 is not an HTTP error status from 400 to 599"
    ),
    "status,code=5\u0660\u0663": (
        "fault 'status,code=5\u0660\u0663': code=5\u0660\u0663 is not an HTTP error status from "
        "400 to 599"
    ),
    'status,code=503,message="\udcff"': (
        "fault 'status,code=503,message=\"\\udcff\"': the rule contains bytes that are not valid "
        "UTF-8"
    ),
    "status,code=503,should-retry=maybe": (
        "fault 'status,code=503,should-retry=maybe': should-retry=maybe is not true or false"
    ),
    "slice": "fault 'slice': slice requires size= (bytes per write)",
    "slice,size=0": "fault 'slice,size=0': size= must be at least 1 byte",
    "drop,count=0": "fault 'drop,count=0': count=0 is not a positive integer",
    "stall,for=3x": f"fault 'stall,for=3x': for=3x is not {DURATION_HINT}",
    "rate-limit,retry-after=soon": (
        f"fault 'rate-limit,retry-after=soon': retry-after=soon is not {DURATION_HINT}"
    ),
    **{
        f"{fault},{term}": f"fault '{fault},{term}': {term} is not {expected}"
        for fault, term, expected in (
            *(
                (fault, f"{argument}=2", "a duration with a unit; write 2s or 2ms")
                for fault, argument in DURATION_ARGUMENTS
            ),
            ("refuse", "window=2..5", "a time window with two units, such as 10s..20s"),
            ("reset", "window=10..20s", "a time window with two units, such as 10s..20s"),
            (
                "latency",
                "by=100..300",
                "a duration such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)",
            ),
        )
    },
    # triggers
    "reset,nth=0": "fault 'reset,nth=0': nth=0 is not a positive integer",
    "reset,times=x": "fault 'reset,times=x': times=x is not a positive integer",
    "reset,nth=1,first=2": (
        "fault 'reset,nth=1,first=2': nth= and first= cannot be combined; remove one of them"
    ),
    "reset,per=run": ("fault 'reset,per=run': per= requires nth=, first= or every="),
    "reset,nth=1,per=hour": (
        "fault 'reset,nth=1,per=hour': per=hour is not one of run, session, request"
    ),
    "reset,probability=1.5": (
        "fault 'reset,probability=1.5': probability=1.5 is not a number from 0 to 1, or a "
        "percentage such as 20%"
    ),
    "reset,window=20s..10s": (
        "fault 'reset,window=20s..10s': window=20s..10s is not a time window that "
        "ends after its start, such as 10s..20s"
    ),
    "reset,window=0s": (
        "fault 'reset,window=0s': window=0s is not a time window that ends after its "
        "start, such as 10s..20s"
    ),
    "hang,for=8761h": (
        "fault 'hang,for=8761h': for=8761h is not a duration of at most 8760h (one year)"
    ),
    "reset,window=x": f"fault 'reset,window=x': window=x is not {DURATION_HINT}",
    "quota,requests=1,nth=2": (
        "fault 'quota,requests=1,nth=2': quota does not support nth=; remove it"
    ),
    # selectors
    "reset,dialect=opnai-chat": (
        "fault 'reset,dialect=opnai-chat': unknown dialect 'opnai-chat'; did you mean "
        "'openai-chat'?"
    ),
    "reset,model=*a*b*c*d*e*f*g*h*": (
        "fault 'reset,model=*a*b*c*d*e*f*g*h*': the value of model= contains more than 8 asterisks"
    ),
    "reset,model=": (
        "fault 'reset,model=': model= is empty; set a value or pattern, such as model=gpt-4*"
    ),
    "reset,stream=maybe": "fault 'reset,stream=maybe': stream=maybe is not true or false",
    "drop,after=1,stream=false": (
        "fault 'drop,after=1,stream=false': this drop rule applies only to streams; "
        "remove stream=false"
    ),
    "reset,after=1,stream=false": (
        "fault 'reset,after=1,stream=false': this reset rule applies only to streams; "
        "remove stream=false"
    ),
    "refuse,window=1s,model=m": (
        "fault 'refuse,window=1s,model=m': refuse affects all clients; remove model="
    ),
}


@each_row(
    ("text", "message"), ERRORS_BY_TEXT.items(), ids=[item or "empty" for item in ERRORS_BY_TEXT]
)
def test_an_invalid_rule_is_refused_with_a_message(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_rule(text)
    assert str(error.value) == message


def test_a_defect_of_a_fault_is_not_reported_as_an_invalid_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make_mechanism() -> Mechanism:
        raise ValueError("a defect")

    broken_fault = replace(FAULT_KINDS["reset"], make_mechanism=make_mechanism)
    monkeypatch.setattr("llm_proxy.faults.grammar.FAULT_KINDS", {"reset": broken_fault})
    with pytest.raises(ValueError, match="a defect"):
        parse_rule("reset")


MAPPING_ERRORS: Final[list[tuple[Any, str]]] = [
    ({}, "the fault name is missing; add the key fault, as in {fault: reset, after: 3}"),
    ({"after": 3}, "the fault name is missing; add the key fault, as in {fault: reset, after: 3}"),
    (
        {"fault": "reset,after=3"},
        "the fault name is missing; add the key fault, as in {fault: reset, after: 3}",
    ),
    ({"fault": None}, "the value of 'fault' must be a string, a number or a boolean"),
    (
        {"fault": "reset", "after": [3]},
        "the value of 'after' must be a string, a number or a boolean",
    ),
    ({"fault": "reset", "after=1,x": 3}, "'after=1,x' is not a valid term name"),
    ({"fault": "reset", "after": 10**5000}, "the value of 'after' is larger than 9007199254740992"),
    ({"fault": "reset", 3: 3}, "'3' is not a valid term name"),
]


@each_row(("mapping", "message"), MAPPING_ERRORS)
def test_an_invalid_mapping_is_refused_with_a_message(mapping: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_rules([mapping])
    assert str(error.value) == message


def test_long_text_and_control_characters_do_not_reach_a_terminal() -> None:
    with pytest.raises(UsageError) as error:
        parse_rule("reset\x1b[31m,after=3\u202e")
    assert re.fullmatch(r"[ -~]+", str(error.value))
    with pytest.raises(UsageError, match="longer than 2000 characters"):
        parse_rule("reset,session=" + "a" * 2000)
    with pytest.raises(UsageError, match="the value of session= is longer than 200 characters"):
        parse_rule("reset,session=" + "a" * 201)


@each_row("kind", FAULT_KINDS.values(), ids=FAULT_KINDS)
def test_the_example_of_every_fault_parses_and_only_its_locations_are_accepted(kind: Any) -> None:
    assert parse_rule(kind.example).kind is kind
    required_arguments = "".join(
        f",{item}" for item in kind.example.split(",")[1:] if _is_argument(kind, item)
    )
    example_values = {"after": "1", "at": "finish", "bytes": "1", "ms": "1", "fraction": "50%"}
    for key in LOCATION_KEYS:
        text = f"{kind.name}{required_arguments},{key}={example_values[key]}"
        if key in kind.allowed_locations:
            assert parse_rule(text).location is not None
        elif key not in kind.arguments:
            with pytest.raises(UsageError, match=rf"remove {key}=|does not support {key}="):
                parse_rule(text)


def _is_argument(kind: Any, term: str) -> bool:
    return term.partition("=")[0] in kind.arguments


# Arbitrary input

KEYS: Final = (
    *FAULT_KINDS,
    *LOCATION_KEYS,
    *TRIGGER_KEYS,
    *SELECTOR_KEYS,
    "for",
    "by",
    "size",
    "count",
    "code",
)
VALUES: Final = (
    "1", "3", "2.5", "1s", "10ms", "10s..20s", "..", "20%", "gpt-4*", "true", "no", '"a,b"', "(a)",
    "", "\\", '"', "٣", "½", "\ud800", "1e999", "[z-a]*", "request",
)  # fmt: skip
TERM: Final = st.tuples(
    st.sampled_from(KEYS), st.one_of(st.sampled_from(VALUES), st.text(max_size=6))
)
RANDOM_TEXTS: Final = st.lists(
    st.one_of(st.sampled_from((*KEYS, *VALUES, *',="()\\ ')), st.text(max_size=4)), max_size=12
).map("".join)
TEXTS: Final = st.one_of(
    RANDOM_TEXTS,
    st.text(),
    st.tuples(st.sampled_from(KEYS), st.lists(TERM, max_size=4)).map(
        lambda name_and_terms: ",".join(
            [name_and_terms[0], *(f"{name}={value}" for name, value in name_and_terms[1])]
        )
    ),
)
SCALARS: Final = st.one_of(
    st.sampled_from(VALUES), st.text(max_size=8), st.integers(), st.floats(), st.booleans(),
    st.none(), st.lists(st.integers(), max_size=1),
)  # fmt: skip


@given(TEXTS)
def test_any_text_is_refused_or_round_trips(text: str) -> None:
    try:
        rule = parse_rule(text)
    except UsageError:
        return
    assert parse_rule(rule.text) == rule


@given(
    st.sampled_from([*FAULT_KINDS]),
    st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), SCALARS, max_size=4),
)
def test_any_mapping_is_refused_or_round_trips(name: str, arguments: dict[str, Any]) -> None:
    try:
        rule = parse_rule({"fault": name} | arguments)
    except UsageError:
        return
    assert parse_rule(rule.text) == rule


PATTERNS: Final = st.text(alphabet="ab*?[]!^-&~|\\ü", max_size=30)


@given(PATTERNS, st.text(alphabet="ab-ü", max_size=20))
def test_any_text_is_a_pattern(pattern: str, name: str) -> None:
    assert matches_pattern(name, pattern) in {True, False}


# The cost of a rule


@each_row(
    ("pattern", "matches"),
    [
        ("*a" * 99 + "b", False),
        ("*" * 200, True),
        ("*?" * 100 + "b", False),
        ("[a-z]*" * 33 + "!", False),
    ],
)
def test_no_pattern_takes_exponential_time(pattern: str, matches: bool) -> None:
    """One that did would not end."""
    assert matches_pattern("a" * 20_000, pattern) == matches


@each_row(
    "text",
    ['"' * 1999, "(" * 1999, "reset," + "a=(" * 600, "\\" * 1999, '"\\' * 999, "," * 1999],
)
def test_no_text_takes_exponential_time(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(text)


@each_row(
    ("rule", "size"),
    [("slice,size=1,delay=0ms", 1_500), ("bandwidth,rate=1", 1_500), ("duplicate,count=99", 50)],
)
def test_no_rule_makes_an_action_per_byte(
    monkeypatch: pytest.MonkeyPatch, rule: str, size: int
) -> None:
    """Beyond a number of pieces, which is a hundredth of the real one here."""
    monkeypatch.setattr("llm_proxy.faults.kinds.slice_._MAX_WRITES", 1_000)
    monkeypatch.setattr("llm_proxy.faults.kinds.bandwidth._MAX_PIECES", 1_000)
    request = turn_request()
    head = encoded_response(request).head
    message = b'data: {"a":"%b"}\n\n' % (b"x" * size)
    burst = (
        Begin(ResponseHead(200, "OK", head.headers, "chunked")),
        Send(b"data: 1\n\n"),
        Send(message),
    )
    actions, _ = apply_faults(request, burst, rule)
    assert sum(len(item.data) for item in actions if isinstance(item, Send)) >= size
    assert len(actions) < 2_500
