"""Converts a fixture's streaming and faults into a scenario's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.importing.aimock.losses import CHUNK_COUNTS, NONSTREAM_TIMES, RECORDED_GAPS
from llm_proxy.importing.fields import nonnegative_number
from llm_proxy.importing.source import ImportLoss
from llm_proxy.pacing.distributions import (
    DurationDistribution,
    FixedDistribution,
    UniformDistribution,
)
from llm_proxy.pacing.distributions import format_number as spelled
from llm_proxy.pacing.pace import ModelledPace
from llm_proxy.turns import Json

Fields = dict[str, Json]

_DEFAULT_CHUNK_CHARS: Final = 20
"""Characters of a chunk without `chunkSize`."""
_STREAM_FIELDS: Final = (
    "latency", "chunkSize", "streamingProfile", "recordedTimings", "truncateAfterChunks",
    "disconnectAfterMs",
)  # fmt: skip


def convert_timing(fixture: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The chunks, pace and faults of a fixture as scenario fields, and the losses."""
    scenario_fields: Fields = {}
    losses: list[ImportLoss] = []
    latency_ms = _scaled_ms(nonnegative_number(fixture.get("latency")) or 0.0, fixture)
    if any(fixture.get(item) is not None for item in _STREAM_FIELDS):
        chunk_chars = max(
            1, int(nonnegative_number(fixture.get("chunkSize")) or _DEFAULT_CHUNK_CHARS)
        )
        scenario_fields["chunks"] = {
            "by": "characters",
            "size": chunk_chars,
            **_delay_fields(latency_ms),
        }
    if pace := _profile_pace(fixture, latency_ms) or _recorded_pace(fixture, losses):
        scenario_fields["pace"] = str(pace)
        losses.append(NONSTREAM_TIMES)
    disconnects = _disconnect_faults(fixture)
    losses += [CHUNK_COUNTS] if fixture.get("truncateAfterChunks") is not None else []
    faults: list[Json] = [
        *_chaos_faults(lenient_json.object_fields(fixture.get("chaos"))),
        *disconnects,
    ]
    return scenario_fields | ({"faults": faults} if faults else {}), losses


def _delay_fields(latency_ms: float) -> Fields:
    return {"delay_ms": latency_ms} if latency_ms else {}


def _scaled_ms(ms: float, fixture: Fields) -> float:
    return ms / (nonnegative_number(fixture.get("replaySpeed")) or 1.0)


def _profile_pace(fixture: Fields, latency_ms: float) -> ModelledPace | None:
    """The pace of a streaming profile; the gap defaults to the latency, `ttft` to the gap."""
    profile = lenient_json.object_fields(fixture.get("streamingProfile"))
    ttft, tps = nonnegative_number(profile.get("ttft")), nonnegative_number(profile.get("tps"))
    if ttft is None and not tps:
        return None
    jitter = min(nonnegative_number(profile.get("jitter")) or 0.0, 1.0)
    gap = (
        _jittered_span(_scaled_ms(1000 / tps, fixture), jitter)
        if tps
        else FixedDistribution(latency_ms)
    )
    ttft_span = gap if ttft is None else _jittered_span(_scaled_ms(ttft, fixture), jitter)
    return ModelledPace(ttft=ttft_span, gap=gap)


def _jittered_span(ms: float, jitter: float) -> DurationDistribution:
    return (
        UniformDistribution(ms * (1 - jitter), ms * (1 + jitter))
        if jitter
        else FixedDistribution(ms)
    )


def _recorded_pace(fixture: Fields, losses: list[ImportLoss]) -> ModelledPace | None:
    times = lenient_json.object_fields(fixture.get("recordedTimings"))
    if not times:
        return None
    delays = map(nonnegative_number, lenient_json.array_items(times.get("interChunkDelaysMs")))
    gaps = [number for number in delays if number is not None]
    losses += [RECORDED_GAPS] if gaps else []
    mean_gap_ms = sum(gaps) / len(gaps) if gaps else 0.0
    ttft_ms = nonnegative_number(times.get("ttftMs")) or 0.0
    return ModelledPace(
        ttft=FixedDistribution(_scaled_ms(ttft_ms, fixture)),
        gap=FixedDistribution(_scaled_ms(mean_gap_ms, fixture)),
    )


def _chaos_faults(chaos: Mapping[str, Json]) -> list[str]:
    """Faults with a probability, in the order in which aimock draws them."""
    latency_ms = nonnegative_number(chaos.get("latencyMs"))
    rates = {
        "dropRate": "status,code=500",
        "malformedRate": "malformed-json",
        "rateLimitRate": "rate-limit",
        "disconnectRate": "close",
    }
    fault_rates = [(fault, nonnegative_number(chaos.get(name))) for name, fault in rates.items()]
    return [
        *([f"latency,by={spelled(latency_ms)}ms"] if latency_ms else []),
        *(f"{fault},probability={spelled(rate)}" for fault, rate in fault_rates if rate),
    ]


def _disconnect_faults(fixture: Fields) -> list[str]:
    after_chunks, after_ms = (
        nonnegative_number(fixture.get(item))
        for item in ("truncateAfterChunks", "disconnectAfterMs")
    )
    return [
        *([] if after_chunks is None else [f"close,after={max(1, int(after_chunks))},stream=true"]),
        *([] if after_ms is None else [f"close,ms={spelled(after_ms)},stream=true"]),
    ]
