"""Converts a fixture's streaming and faults into a scenario's fields."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.importing.fields import nonnegative_number
from llm_proxy.importing.source import ImportLoss
from llm_proxy.pacing.distributions import (
    DurationDistribution,
    FixedDistribution,
    UniformDistribution,
    format_number,
)
from llm_proxy.pacing.pace import ModelledPace
from llm_proxy.turns import Json

Fields = dict[str, Json]

_DEFAULT_CHUNK_CHARS: Final = 20
"""Characters of a chunk without `chunkSize`."""
_FAULT_BY_RATE_FIELD: Final = {
    "dropRate": "status,code=500",
    "malformedRate": "malformed-json",
    "rateLimitRate": "rate-limit",
    "disconnectRate": "close",
}
_STREAM_FIELDS: Final = (
    "latency", "chunkSize", "streamingProfile", "recordedTimings", "truncateAfterChunks",
    "disconnectAfterMs",
)  # fmt: skip
_RECORDED_GAPS: Final = ImportLoss("gaps", "its recorded gaps become their mean")
_NONSTREAM_TIMES: Final = ImportLoss(
    "times of streams", "its times hold for answers that do not stream, too"
)
_CHUNK_COUNTS: Final = ImportLoss(
    "chunks", "its chunks are counted as the events of a stream here, which each dialect has others"
)


def convert_timing(fixture: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The chunks, pace and faults of a fixture as scenario fields, and the losses."""
    scenario_fields: Fields = {}
    losses: list[ImportLoss] = []
    latency_ms = _scaled_ms(nonnegative_number(fixture.get("latency")) or 0.0, fixture)
    if any(fixture.get(name) is not None for name in _STREAM_FIELDS):
        chunk_chars = nonnegative_number(fixture.get("chunkSize")) or _DEFAULT_CHUNK_CHARS
        chunks: Fields = {"by": "characters", "size": max(1, int(chunk_chars))}
        if latency_ms:
            chunks["delay_ms"] = latency_ms
        scenario_fields["chunks"] = chunks
    if pace := _profile_pace(fixture, latency_ms) or _recorded_pace(fixture, losses):
        scenario_fields["pace"] = str(pace)
        losses.append(_NONSTREAM_TIMES)
    if fixture.get("truncateAfterChunks") is not None:
        losses.append(_CHUNK_COUNTS)
    if faults := _faults(fixture):
        scenario_fields["faults"] = faults
    return scenario_fields, losses


def _scaled_ms(ms: float, fixture: Fields) -> float:
    return ms / (nonnegative_number(fixture.get("replaySpeed")) or 1.0)


def _profile_pace(fixture: Fields, latency_ms: float) -> ModelledPace | None:
    """The pace of a streaming profile; the gap defaults to the latency, `ttft` to the gap."""
    profile = lenient_json.object_fields(fixture.get("streamingProfile"))
    ttft, tps = nonnegative_number(profile.get("ttft")), nonnegative_number(profile.get("tps"))
    if ttft is None and not tps:
        return None
    jitter = min(nonnegative_number(profile.get("jitter")) or 0.0, 1.0)

    def jittered_span(unscaled_ms: float) -> DurationDistribution:
        ms = _scaled_ms(unscaled_ms, fixture)
        if not jitter:
            return FixedDistribution(ms)
        return UniformDistribution(ms * (1 - jitter), ms * (1 + jitter))

    gap = jittered_span(1000 / tps) if tps else FixedDistribution(latency_ms)
    return ModelledPace(ttft=gap if ttft is None else jittered_span(ttft), gap=gap)


def _recorded_pace(fixture: Fields, losses: list[ImportLoss]) -> ModelledPace | None:
    times = lenient_json.object_fields(fixture.get("recordedTimings"))
    if not times:
        return None
    delays = map(nonnegative_number, lenient_json.array_items(times.get("interChunkDelaysMs")))
    gaps = [number for number in delays if number is not None]
    losses += [_RECORDED_GAPS] if gaps else []
    mean_gap_ms = sum(gaps) / len(gaps) if gaps else 0.0
    ttft_ms = nonnegative_number(times.get("ttftMs")) or 0.0
    return ModelledPace(
        ttft=FixedDistribution(_scaled_ms(ttft_ms, fixture)),
        gap=FixedDistribution(_scaled_ms(mean_gap_ms, fixture)),
    )


def _faults(fixture: Fields) -> list[Json]:
    """Faults with a probability, in the order in which aimock draws them, and disconnections."""
    chaos = lenient_json.object_fields(fixture.get("chaos"))
    faults: list[Json] = []
    if latency_ms := nonnegative_number(chaos.get("latencyMs")):
        faults.append(f"latency,by={format_number(latency_ms)}ms")
    for name, fault in _FAULT_BY_RATE_FIELD.items():
        if rate := nonnegative_number(chaos.get(name)):
            faults.append(f"{fault},probability={format_number(rate)}")
    after_chunks = nonnegative_number(fixture.get("truncateAfterChunks"))
    if after_chunks is not None:
        faults.append(f"close,after={max(1, int(after_chunks))},stream=true")
    after_ms = nonnegative_number(fixture.get("disconnectAfterMs"))
    if after_ms is not None:
        faults.append(f"close,ms={format_number(after_ms)},stream=true")
    return faults
