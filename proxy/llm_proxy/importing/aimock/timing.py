"""How the answer of a fixture streams, and what goes wrong with it, in a scenario's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.importing.aimock.losses import COUNTED, RECORDED, WHOLE
from llm_proxy.importing.fields import number
from llm_proxy.importing.source import Loss
from llm_proxy.pacing.distributions import Distribution, Fixed, Uniform
from llm_proxy.pacing.distributions import number as spelled
from llm_proxy.pacing.pace import Modelled
from llm_proxy.turns import Json

Fields = dict[str, Json]

_CHARACTERS: Final = 20
"""Characters of a piece, unless a fixture says another number."""
_STREAMED: Final = (
    "latency", "chunkSize", "streamingProfile", "recordedTimings", "truncateAfterChunks",
    "disconnectAfterMs",
)  # fmt: skip


def timing(fixture: Fields) -> tuple[Fields, list[Loss]]:
    """Pieces, pace and faults as far as a fixture has any, and what these do not say."""
    found: Fields = {}
    losses: list[Loss] = []
    latency = _per_piece(number(fixture.get("latency")) or 0.0, fixture)
    if any(fixture.get(it) is not None for it in _STREAMED):
        size = max(1, int(number(fixture.get("chunkSize")) or _CHARACTERS))
        found["chunks"] = {"by": "characters", "size": size, **_delay(latency)}
    if pace := _profile(fixture, latency) or _recorded(fixture, losses):
        found["pace"] = str(pace)
        losses.append(WHOLE)
    cuts = _cuts(fixture)
    losses += [COUNTED] if fixture.get("truncateAfterChunks") is not None else []
    faults: list[Json] = [*_chaos(lenient_json.fields(fixture.get("chaos"))), *cuts]
    return found | ({"faults": faults} if faults else {}), losses


def _delay(latency: float) -> Fields:
    return {"delay_ms": latency} if latency else {}


def _per_piece(ms: float, fixture: Fields) -> float:
    """A time at the speed of the fixture."""
    return ms / (number(fixture.get("replaySpeed")) or 1.0)


def _profile(fixture: Fields, latency: float) -> Modelled | None:
    """The pace of a streaming profile; what it does not say is the latency."""
    profile = lenient_json.fields(fixture.get("streamingProfile"))
    ttft, tps = number(profile.get("ttft")), number(profile.get("tps"))
    if ttft is None and not tps:
        return None
    jitter = min(number(profile.get("jitter")) or 0.0, 1.0)
    gap = _drawn(_per_piece(1000 / tps, fixture), jitter) if tps else Fixed(latency)
    first = gap if ttft is None else _drawn(_per_piece(ttft, fixture), jitter)
    return Modelled(ttft=first, gap=gap)


def _drawn(ms: float, jitter: float) -> Distribution:
    return Uniform(ms * (1 - jitter), ms * (1 + jitter)) if jitter else Fixed(ms)


def _recorded(fixture: Fields, losses: list[Loss]) -> Modelled | None:
    """The pace of recorded times."""
    times = lenient_json.fields(fixture.get("recordedTimings"))
    if not times:
        return None
    given = map(number, lenient_json.array(times.get("interChunkDelaysMs")))
    gaps = [it for it in given if it is not None]
    losses += [RECORDED] if gaps else []
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    first = number(times.get("ttftMs")) or 0.0
    return Modelled(ttft=Fixed(_per_piece(first, fixture)), gap=Fixed(_per_piece(mean, fixture)))


def _chaos(chaos: Mapping[str, Json]) -> list[str]:
    """Faults by chance, in the order in which they are rolled."""
    late = number(chaos.get("latencyMs"))
    rates = {
        "dropRate": "status,code=500",
        "malformedRate": "malformed-json",
        "rateLimitRate": "rate-limit",
        "disconnectRate": "close",
    }
    rolled = [(fault, number(chaos.get(name))) for name, fault in rates.items()]
    return [
        *([f"latency,by={spelled(late)}ms"] if late else []),
        *(f"{fault},probability={spelled(rate)}" for fault, rate in rolled if rate),
    ]


def _cuts(fixture: Fields) -> list[str]:
    """Where the connection is closed amid a stream."""
    after, ms = (number(fixture.get(it)) for it in ("truncateAfterChunks", "disconnectAfterMs"))
    return [
        *([] if after is None else [f"close,after={max(1, int(after))},stream=true"]),
        *([] if ms is None else [f"close,ms={spelled(ms)},stream=true"]),
    ]
