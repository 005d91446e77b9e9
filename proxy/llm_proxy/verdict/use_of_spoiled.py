"""Spoiled answers that stand in the history of a later request: proof that they were used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_proxy.verdict.attempts import Attempt
from llm_proxy.verdict.finding import Evidence
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.sentences import told


def taken(chain: Chain, is_spoiled: Callable[[Attempt], bool]) -> list[Attempt]:
    """The attempts that were spoiled so, and whose answers were used all the same."""
    return [it for it in chain.attempts if it.number in chain.continued and is_spoiled(it)]


def evidence_of_taking(chain: Chain, spoiled: Sequence[Attempt]) -> tuple[Evidence, ...]:
    """What was used, and where that is seen."""
    return tuple(
        Evidence(
            it.number,
            it.at_ms,
            told(it),
            f"sent as history with #{chain.continued[it.number].number}",
        )
        for it in spoiled
    )
