"""Converts a fixture's streaming and faults into a scenario's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.importing.aimock.losses import COUNTED, RECORDED, WHOLE
from llm_proxy.importing.fields import parse_number
from llm_proxy.importing.source import ImportLoss
from llm_proxy.pacing.distributions import Distribution, FixedSpan, UniformSpan
from llm_proxy.pacing.distributions import format_number as spelled
from llm_proxy.pacing.pace import ModelledPace
from llm_proxy.turns import Json

Fields = dict[str, Json]

_CHARACTERS: Final = 20
"""Characters of a piece, unless a fixture says another number."""
_STREAMED: Final = (
    "latency", "chunkSize", "streamingProfile", "recordedTimings", "truncateAfterChunks",
    "disconnectAfterMs",
)  # fmt: skip


def timing_fields(fixture: Fields) -> tuple[Fields, list[ImportLoss]]:
    """Pieces, pace and faults as far as a fixture has any, and what these do not say."""
    found: Fields = {}
    losses: list[ImportLoss] = []
    latency = _scaled_ms(parse_number(fixture.get("latency")) or 0.0, fixture)
    if any(fixture.get(item) is not None for item in _STREAMED):
        size = max(1, int(parse_number(fixture.get("chunkSize")) or _CHARACTERS))
        found["chunks"] = {"by": "characters", "size": size, **_delay_ms(latency)}
    if pace := _profile_pace(fixture, latency) or _recorded_pace(fixture, losses):
        found["pace"] = str(pace)
        losses.append(WHOLE)
    cuts = _disconnect_faults(fixture)
    losses += [COUNTED] if fixture.get("truncateAfterChunks") is not None else []
    faults: list[Json] = [*_chaos_faults(lenient_json.object_fields(fixture.get("chaos"))), *cuts]
    return found | ({"faults": faults} if faults else {}), losses


def _delay_ms(latency: float) -> Fields:
    return {"delay_ms": latency} if latency else {}


def _scaled_ms(ms: float, fixture: Fields) -> float:
    return ms / (parse_number(fixture.get("replaySpeed")) or 1.0)


def _profile_pace(fixture: Fields, latency: float) -> ModelledPace | None:
    """The pace of a streaming profile; what it does not say is the latency."""
    profile = lenient_json.object_fields(fixture.get("streamingProfile"))
    ttft, tps = parse_number(profile.get("ttft")), parse_number(profile.get("tps"))
    if ttft is None and not tps:
        return None
    jitter = min(parse_number(profile.get("jitter")) or 0.0, 1.0)
    gap = _jittered_span(_scaled_ms(1000 / tps, fixture), jitter) if tps else FixedSpan(latency)
    first = gap if ttft is None else _jittered_span(_scaled_ms(ttft, fixture), jitter)
    return ModelledPace(ttft=first, gap=gap)


def _jittered_span(ms: float, jitter: float) -> Distribution:
    return UniformSpan(ms * (1 - jitter), ms * (1 + jitter)) if jitter else FixedSpan(ms)


def _recorded_pace(fixture: Fields, losses: list[ImportLoss]) -> ModelledPace | None:
    times = lenient_json.object_fields(fixture.get("recordedTimings"))
    if not times:
        return None
    given = map(parse_number, lenient_json.array_items(times.get("interChunkDelaysMs")))
    gaps = [number for number in given if number is not None]
    losses += [RECORDED] if gaps else []
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    first = parse_number(times.get("ttftMs")) or 0.0
    return ModelledPace(
        ttft=FixedSpan(_scaled_ms(first, fixture)), gap=FixedSpan(_scaled_ms(mean, fixture))
    )


def _chaos_faults(chaos: Mapping[str, Json]) -> list[str]:
    """Faults by chance, in the order in which they are rolled."""
    late = parse_number(chaos.get("latencyMs"))
    rates = {
        "dropRate": "status,code=500",
        "malformedRate": "malformed-json",
        "rateLimitRate": "rate-limit",
        "disconnectRate": "close",
    }
    rolled = [(fault, parse_number(chaos.get(name))) for name, fault in rates.items()]
    return [
        *([f"latency,by={spelled(late)}ms"] if late else []),
        *(f"{fault},probability={spelled(rate)}" for fault, rate in rolled if rate),
    ]


def _disconnect_faults(fixture: Fields) -> list[str]:
    after, ms = (
        parse_number(fixture.get(item)) for item in ("truncateAfterChunks", "disconnectAfterMs")
    )
    return [
        *([] if after is None else [f"close,after={max(1, int(after))},stream=true"]),
        *([] if ms is None else [f"close,ms={spelled(ms)},stream=true"]),
    ]
