"""The grammar of paces, and the error messages for invalid ones."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.errors import UsageError
from llm_proxy.pacing import (
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
    parse_pace,
)
from llm_proxy.pacing.distributions import (
    FixedDistribution,
    LognormalDistribution,
    NormalDistribution,
    UniformDistribution,
)
from llm_proxy.pacing.pace import PROFILES
from pacing_helpers import DISTRIBUTIONS

GPT: Final = PROFILES["gpt-4o"]

VALID: Final[dict[str, Pace]] = {
    "recorded": RecordedPace(),
    " Recorded ": RecordedPace(),
    "instant": InstantPace(),
    "INSTANT": InstantPace(),
    "1x": RecordedPace(1.0),
    "4x": RecordedPace(4.0),
    "4 X": RecordedPace(4.0),
    "0.5x": RecordedPace(0.5),
    ".25x": RecordedPace(0.25),
    "1000.0x": RecordedPace(1000.0),
    "50tps": TokenRatePace(50.0),
    "0.5 tps": TokenRatePace(0.5),
    "50tps,ttft=300ms": TokenRatePace(50.0, FixedDistribution(300.0)),
    "50tps,ttft=1..2s,prefill=0.5ms": TokenRatePace(
        50.0, UniformDistribution(1000.0, 2000.0), FixedDistribution(0.5)
    ),
    "profile:gpt-4o": ModelledPace(profile=GPT),
    "Profile: GPT-4o": ModelledPace(profile=GPT),
    "profile:gemma3:1b": ModelledPace(profile=PROFILES["gemma3:1b"]),
    "profile:gpt-4o,ttft=2s": ModelledPace(FixedDistribution(2000.0), profile=GPT),
    "ttft=300ms": ModelledPace(FixedDistribution(300.0)),
    "ttft=0.3s": ModelledPace(FixedDistribution(300.0)),
    "ttft=1m": ModelledPace(FixedDistribution(60_000.0)),
    "ttft=0ms": ModelledPace(FixedDistribution(0.0)),
    "prefill=.5ms": ModelledPace(prefill=FixedDistribution(0.5)),
    "ttft=300ms,gap=30..80ms": ModelledPace(
        FixedDistribution(300.0), gap=UniformDistribution(30.0, 80.0)
    ),
    " TTFT = 300 ms , gap = 30 .. 80 ms ": ModelledPace(
        FixedDistribution(300.0), gap=UniformDistribution(30.0, 80.0)
    ),
    "gap=0.5s..800ms": ModelledPace(gap=UniformDistribution(500.0, 800.0)),
    "gap=30ms..0.08s": ModelledPace(gap=UniformDistribution(30.0, 80.0)),
    "gap=uniform(30ms,80ms)": ModelledPace(gap=UniformDistribution(30.0, 80.0)),
    "gap=normal(50ms, 10ms),ttft=1s": ModelledPace(
        FixedDistribution(1000.0), gap=NormalDistribution(50.0, 10.0)
    ),
    "gap=lognormal(40ms,0.5)": ModelledPace(gap=LognormalDistribution(40.0, 0.5)),
    "max-gap=2s": RecordedPace(max_gap=2000.0),
    "4x,max-gap=2s": RecordedPace(4.0, max_gap=2000.0),
    "max-gap=2s,4x": RecordedPace(4.0, max_gap=2000.0),
    "50tps,max-gap=100ms": TokenRatePace(50.0, max_gap=100.0),
    "chunks=1": RecordedPace(chunks=1),
    "chunks=7": RecordedPace(chunks=7),
    "recorded,chunks=event": RecordedPace(chunks="event"),
    "instant,chunks=7": InstantPace(chunks=7),
    "50tps,chunks=recorded": TokenRatePace(50.0, chunks="recorded"),
    "gap=1ms,chunks=token": ModelledPace(gap=FixedDistribution(1.0), chunks="token"),
    "recorded,chunks=coalesced": RecordedPace(chunks="coalesced"),
}

USE: Final = (
    "use recorded, instant, a speed such as 4x or 0.5x, a rate such as 50tps, profile:NAME, or "
    "ttft=300ms, prefill=0.5ms, gap=30..80ms, max-gap=2s, chunks=event"
)
TIMES: Final = (
    "not a valid duration; valid examples: 300ms, 0.3s, 30..80ms, uniform(30ms,80ms), "
    "normal(50ms,10ms), lognormal(40ms,0.5)"
)
SIGMA: Final = (
    "the sigma of lognormal must be a number from 0 to 5 without a unit, such as "
    "lognormal(40ms,0.5)"
)
CHUNKS: Final = "use recorded, event, token, coalesced or a number of bytes above 0"

INVALID: Final[dict[str, str]] = {
    "": USE,
    " ": USE,
    "50tps,": "empty term; remove the extra comma",
    ",gap=1ms": "empty term; remove the extra comma",
    **dict.fromkeys(("fast", "x", "4", "-1x", "1.x", "1e3x", "infx", "nanx", "x4"), USE),
    **dict.fromkeys(("٤x", "1 2x", "tps", "profile"), USE),
    "fast,gap=1ms": f"fast is not a valid term; {USE}",
    "0x": "0x: the speed must be above 0",
    "0.00000001x": "0.00000001x: the speed must be above 0",
    "0tps": "0tps: the rate must be above 0",
    "profile:gpt-9": (
        "unknown profile gpt-9; known: gpt-4o, claude-sonnet-4-6, gemma3:1b, llama3"
    ),
    "profile:": (
        "unknown profile ''; known: gpt-4o, claude-sonnet-4-6, gemma3:1b, llama3"
    ),
    "recorded,4x": "recorded and 4x cannot be combined; remove one of them",
    "50tps,instant": "50tps and instant cannot be combined; remove one of them",
    "gap=1ms,gap=2ms": "gap is set twice; remove one of them",
    "chunks=7,4x,chunks=8": "chunks is set twice; remove one of them",
    "gab=1ms": "unknown term gab; did you mean 'gap'?",
    "maxgap=1s": "unknown term maxgap; did you mean 'max-gap'?",
    "speed=4": "unknown term speed; known: ttft, prefill, gap, max-gap, chunks",
    "=4": "unknown term ''; known: ttft, prefill, gap, max-gap, chunks",
    "instant,gap=30ms": (
        "instant has no delays and cannot be combined with gap; remove one of them"
    ),
    "instant,max-gap=2s": (
        "instant has no delays and cannot be combined with max-gap; remove one of them"
    ),
    "4x,ttft=1s,gap=2ms": (
        "4x replays the recorded delays and cannot be combined with ttft, gap; "
        "remove one of them"
    ),
    "50tps,gap=30ms": "50tps and gap both set the token rate; remove one",
    "gap=": f"gap='': {TIMES}",
    "gap=soon": f"gap=soon: {TIMES}",
    "gap=-5ms": f"gap=-5ms: {TIMES}",
    "gap=1h": f"gap=1h: {TIMES}",
    "gap=30ms80ms": f"gap=30ms80ms: {TIMES}",
    "gap=..80ms": f"gap=..80ms: {TIMES}",
    "gap=30": "gap=30: the unit is missing; use 30ms or 30s",
    "gap=30..80": "gap=30..80: the unit is missing; use 30ms or 30s",
    "gap=80..30ms": "gap=80..30ms: the minimum is greater than the maximum; use 30ms..80ms",
    "gap=uniform(2s,1s)": "gap=uniform(2s,1s): the minimum is greater than the maximum; use 1s..2s",
    "ttft=1441m": "ttft=1441m: longer than the maximum of one day",
    "gap=pareto(1ms,2ms)": (
        "gap=pareto(1ms,2ms): unknown distribution; use uniform(30ms,80ms), "
        "normal(50ms,10ms), lognormal(40ms,0.5)"
    ),
    "gap=normal(1ms)": f"gap=normal(1ms): {TIMES}",
    "gap=normal(1ms,2)": "gap=normal(1ms,2): the unit is missing; use 2ms or 2s",
    "gap=lognormal(40ms,5ms)": f"gap=lognormal(40ms,5ms): {SIGMA}",
    "gap=lognormal(40ms,5.1)": f"gap=lognormal(40ms,5.1): {SIGMA}",
    "max-gap=1..2s": f"max-gap=1..2s: {TIMES}",
    "max-gap=0s": "max-gap=0s: must be above 0, such as 2s; to send without delays, use instant",
    "chunks=0": f"chunks=0: {CHUNKS}",
    "chunks=events": f"chunks=events: {CHUNKS}",
    "chunks=99999999999": f"chunks=99999999999: {CHUNKS}",
    "chunks=1.5": f"chunks=1.5: {CHUNKS}",
}  # fmt: skip


@each_row("text", VALID)
def test_a_valid_pace_is_parsed(text: str) -> None:
    assert parse_pace(text) == VALID[text]


@each_row("text", INVALID)
def test_an_invalid_pace_is_refused_with_a_correction(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_pace(text)

    assert str(refused.value) == f"{text!r} is not a valid pace: {INVALID[text]}"


def test_a_text_that_is_too_long_is_not_shown_in_full() -> None:
    with pytest.raises(UsageError) as refused:
        parse_pace("gap=1ms," * 200)

    assert len(str(refused.value)) < 200
    assert "longer than 1000 characters" in str(refused.value)


def test_unprintable_characters_are_escaped() -> None:
    with pytest.raises(UsageError, match=r"x1b\[31m"):
        parse_pace("\x1b[31m")


ABOVE_0: Final = st.integers(1, 999_999_999).map(lambda number: number / 1000)
COMMON_FIELDS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "max_gap": st.none() | ABOVE_0.map(lambda gap: min(gap, 86_400_000.0)),
    "chunks": st.sampled_from([None, "recorded", "event", "token", "coalesced", 1, 4096]),
}
OPTIONAL_SPANS: Final = st.none() | DISTRIBUTIONS
PACES: Final[st.SearchStrategy[Pace]] = st.one_of(
    st.builds(InstantPace, chunks=COMMON_FIELDS["chunks"]),
    st.builds(RecordedPace, ABOVE_0, **COMMON_FIELDS),
    st.builds(TokenRatePace, ABOVE_0, DISTRIBUTIONS, DISTRIBUTIONS, **COMMON_FIELDS),
    st.builds(ModelledPace, DISTRIBUTIONS, OPTIONAL_SPANS, OPTIONAL_SPANS, **COMMON_FIELDS),
    st.builds(
        ModelledPace,
        OPTIONAL_SPANS,
        OPTIONAL_SPANS,
        OPTIONAL_SPANS,
        profile=st.sampled_from([*PROFILES.values()]),
        **COMMON_FIELDS,
    ),
)


@given(PACES)
def test_the_text_of_a_pace_parses_to_the_same_pace(pace: Pace) -> None:
    assert parse_pace(str(pace)) == pace


@each_row(
    ("text", "spelled"),
    [
        ("Max-Gap = 2000 ms, 1x", "recorded,max-gap=2s"),
        ("0.50x", "0.5x"),
        ("gap=uniform(30ms,80ms),ttft=0.3s", "ttft=300ms,gap=30..80ms"),
        ("profile:gpt-4o,gap=lognormal(1m,.50)", "profile:gpt-4o,gap=lognormal(60s,0.5)"),
    ],
)
def test_a_pace_has_one_spelling(text: str, spelled: str) -> None:
    assert str(parse_pace(text)) == spelled


@each_row(
    ("text", "is_random"),
    [
        ("recorded", False),
        ("4x,max-gap=2s", False),
        ("instant", False),
        ("50tps", False),
        ("50tps,ttft=1..2s", True),
        ("ttft=1s,gap=2ms", False),
        ("gap=2..2ms", False),
        ("gap=normal(1ms,0ms)", False),
        ("gap=normal(1ms,1ms)", True),
        ("prefill=lognormal(1ms,1)", True),
        ("profile:gpt-4o", True),
        ("profile:gpt-4o,ttft=1s,gap=1ms", False),
    ],
)
def test_a_pace_knows_whether_it_is_random(text: str, is_random: bool) -> None:
    assert parse_pace(text).is_random is is_random
