"""What an answer of `gemini` has words for, and in which manner it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from llm_proxy.dialects import reading
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.google import candidates, errors, parts, sources
from llm_proxy.dialects.google.content import GROUNDING
from llm_proxy.dialects.vocabulary import Vocabulary, kept
from llm_proxy.turns import Finish, Media, Part, Text, Turn

_WORDS: Final = {
    Finish.STOP: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.CONTENT_FILTER: "SAFETY",
    Finish.PAUSED: "CONTINUATION",
    Finish.ERROR: "MALFORMED_RESPONSE",
    Finish.OTHER: "OTHER",
}


Form = Literal["sse", "json-array", "whole"]
"""The codec that cuts an answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the manner of its answer."""

    form: Form
    wrapped: bool = False
    """Whether each document stands in another (Code Assist)."""
    recited: str = "citationSources"
    """Where texts that repeat another say so."""


def vocabulary(manner: Asked, *, alone: bool) -> Vocabulary:
    """The words of an answer; `alone` is one of a single turn, which a blocked prompt may be."""
    return Vocabulary(
        dialect="gemini",
        streams=manner.form != "whole",
        finishes=candidates.FINISH,
        words=_WORDS,
        calls_stop=True,
        text=parts.text,
        reasoning=parts.reasoning,
        call=parts.call,
        provided=parts.provided,
        waits=parts.waits,
        result=parts.result,
        media=parts.media,
        joined=frozenset(),
        lasting=frozenset((Text,)),
        id_prefix="",
        call_prefix=None,
        counts=tuple(candidates.COUNTS),
        always=("input", "total"),
        keeps=(*candidates.OF_ANSWER, *candidates.OF_CANDIDATE, GROUNDING),
        shared=candidates.OF_ANSWER,
        choices=True,
        arranged=partial(_arranged, alone=alone),
        failure=errors.filled,
        failed=_failed,
    )


def is_blocked(turn: Turn) -> bool:
    """Whether the turn is a verdict on the prompt, which no candidate answers."""
    is_verdict = turn.finish is Finish.CONTENT_FILTER and not turn.parts
    return is_verdict and turn.finish_raw == candidates.block_reason(dict(turn.metadata))


def _arranged(turn: Turn, *, alone: bool) -> Turn:
    """Parts as they are read, and a finish that is one."""
    about = dict(turn.metadata)
    reason = candidates.block_reason(about) if alone else ""
    if reason and not turn.parts and turn.finish is Finish.CONTENT_FILTER:
        verdict = kept(turn.metadata, candidates.OF_ANSWER)
        return replace(turn, finish_raw=reason, metadata=verdict)
    about[GROUNDING] = candidates.grounded(about.get(GROUNDING))
    unfinished = turn.finish is not None and turn.finish_raw in candidates.UNFINISHED
    return replace(
        turn,
        parts=sources.settled(_with_sounds(turn.parts), parts.is_sealed),
        finish_raw=_WORDS[Finish.OTHER] if unfinished else turn.finish_raw,
        metadata=reading.metadata(about, about),
    )


def _with_sounds(said: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, what follows of a sound joined to its beginning: sounds come in pieces."""
    sounds: dict[str, Fragments] = {}
    others: list[Part | Fragments] = []
    for part in said:
        if not isinstance(part, Media) or not part.media_type.startswith("audio/") or part.url:
            others.append(part)
            continue
        if part.media_type not in sounds:
            sounds[part.media_type] = Fragments()
            others.append(sounds[part.media_type])
        sounds[part.media_type].add(part)
    return tuple(_joined(it) if isinstance(it, Fragments) else it for it in others)


def _joined(sound: Fragments) -> Part:
    [whole] = sound.parts()
    return (parts.media(whole) or whole) if isinstance(whole, Media) else whole


def _failed(turn: Turn) -> Turn:
    """What a stream tells before its end: counts, but neither sources nor what a finish says."""
    names = tuple(name for name in candidates.OF_ANSWER if name != candidates.FEEDBACK)
    said = (replace(it, citations=()) if isinstance(it, Text) else it for it in turn.parts)
    return replace(turn, parts=tuple(said), metadata=kept(turn.metadata, names))
