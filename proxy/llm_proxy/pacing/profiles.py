"""Measured latency profiles of models.

Gaps are those between one read and the next (OpenAI, Anthropic: streams that Mastra's tests
recorded, with the time of each socket read), or between the times that the lines themselves bear
(Ollama: streams that the tests of LangChain for Go and of OpenLLMetry recorded).  The time to the
first token is that from the first read to the first words, for what came before was not recorded;
at Ollama it is what its last line tells, of answers whose model was loaded already.

All the requests were short, so none of these profiles has a time for each token of a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from llm_proxy.pacing.distributions import NONE, Distribution, FixedSpan, MeasuredSpan


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """How long a model takes."""

    ttft: Distribution = NONE
    """Time to the first token."""
    prefill: Distribution = NONE
    """More of it for each token of the request."""
    gap: Distribution = NONE
    """Between one piece of what is said and the next."""


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """The latency of a model, as it was measured."""

    name: str
    latency: LatencyModel
    source: str
    """What was measured."""


_ALL: Final = (
    LatencyProfile(
        "gpt-4o",
        LatencyModel(
            ttft=FixedSpan(464.0),
            gap=MeasuredSpan((0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 2.9, 11.8, 28.4, 85.0)),
        ),
        "OpenAI's Responses, 1 answer, 28 gaps",
    ),
    LatencyProfile(
        "claude-sonnet-4-6",
        LatencyModel(
            ttft=MeasuredSpan((70.0, 680.0)),
            gap=MeasuredSpan((41.0, 41.6, 42.2, 42.8, 43.0, 43.0, 46.0, 48.2, 48.8, 56.6, 68.0)),
        ),
        "Anthropic's Messages, 2 answers, 7 gaps",
    ),
    LatencyProfile(
        "gemma3:1b",
        LatencyModel(
            ttft=MeasuredSpan((42.5, 56.6, 67.8, 80.2, 83.5)),
            gap=MeasuredSpan((3.8, 4.9, 5.0, 5.0, 5.1, 5.1, 5.1, 5.2, 5.2, 5.3, 13.2)),
        ),
        "Ollama on a fast machine, 9 answers, 663 gaps",
    ),
    LatencyProfile(
        "llama3",
        LatencyModel(
            ttft=MeasuredSpan((34.8, 315.2)),
            gap=MeasuredSpan((31.4, 31.7, 31.8, 31.9, 32.0, 32.0, 32.2, 32.4, 32.6, 33.3, 37.7)),
        ),
        "Ollama, 4 answers, 234 gaps",
    ),
)

PROFILES: Final[Mapping[str, LatencyProfile]] = MappingProxyType(
    {latency_profile.name: latency_profile for latency_profile in _ALL}
)
"""The profiles by their names."""
