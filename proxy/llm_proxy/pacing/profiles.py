"""Measured latency profiles of models.

Gaps are measured between two reads (OpenAI, Anthropic: streams recorded by Mastra's tests, with the
time of each socket read), or between the timestamps in the lines themselves (Ollama: streams
recorded by the tests of LangChain for Go and of OpenLLMetry).  The time to the first token is that
from the first read to the first output, since earlier times were not recorded; for Ollama it is the
value in the last line, of responses whose model was already loaded.

All requests were short, so none of these profiles has a time per token of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from llm_proxy.pacing.distributions import (
    ZERO_DURATION,
    DurationDistribution,
    FixedDistribution,
    MeasuredDistribution,
)


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """The latency distributions of a model."""

    ttft: DurationDistribution = ZERO_DURATION
    """Time to the first token."""
    prefill: DurationDistribution = ZERO_DURATION
    """Additional time to the first token, per token of the prompt."""
    gap: DurationDistribution = ZERO_DURATION
    """Time between two pieces with output."""


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """The measured latency of a model."""

    name: str
    latency_model: LatencyModel
    source: str
    """What was measured, for lists of profiles."""


_PROFILES: Final = (
    LatencyProfile(
        "gpt-4o",
        LatencyModel(
            ttft=FixedDistribution(464.0),
            gap=MeasuredDistribution((0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 2.9, 11.8, 28.4, 85.0)),
        ),
        "OpenAI's Responses, 1 answer, 28 gaps",
    ),
    LatencyProfile(
        "claude-sonnet-4-6",
        LatencyModel(
            ttft=MeasuredDistribution((70.0, 680.0)),
            gap=MeasuredDistribution(
                (41.0, 41.6, 42.2, 42.8, 43.0, 43.0, 46.0, 48.2, 48.8, 56.6, 68.0)
            ),
        ),
        "Anthropic's Messages, 2 answers, 7 gaps",
    ),
    LatencyProfile(
        "gemma3:1b",
        LatencyModel(
            ttft=MeasuredDistribution((42.5, 56.6, 67.8, 80.2, 83.5)),
            gap=MeasuredDistribution((3.8, 4.9, 5.0, 5.0, 5.1, 5.1, 5.1, 5.2, 5.2, 5.3, 13.2)),
        ),
        "Ollama on a fast machine, 9 answers, 663 gaps",
    ),
    LatencyProfile(
        "llama3",
        LatencyModel(
            ttft=MeasuredDistribution((34.8, 315.2)),
            gap=MeasuredDistribution(
                (31.4, 31.7, 31.8, 31.9, 32.0, 32.0, 32.2, 32.4, 32.6, 33.3, 37.7)
            ),
        ),
        "Ollama, 4 answers, 234 gaps",
    ),
)

PROFILES: Final[Mapping[str, LatencyProfile]] = MappingProxyType(
    {latency_profile.name: latency_profile for latency_profile in _PROFILES}
)
"""The profiles by name."""
