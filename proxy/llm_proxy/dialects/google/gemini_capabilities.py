"""What an answer of `gemini` has words for, and in which manner it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Vocabulary, kept
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.google import errors, gemini_decoder, part_capabilities, source_encoder
from llm_proxy.dialects.google.content_decoder import GROUNDING
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
        finishes=gemini_decoder.FINISH,
        words=_WORDS,
        calls_stop=True,
        text=part_capabilities.text,
        reasoning=part_capabilities.reasoning,
        call=part_capabilities.call,
        provided=part_capabilities.provided,
        waits=part_capabilities.waits,
        result=part_capabilities.result,
        media=part_capabilities.media,
        joined=frozenset(),
        lasting=frozenset((Text,)),
        id_prefix="",
        call_prefix=None,
        counts=tuple(gemini_decoder.COUNTS),
        always=("input", "total"),
        keeps=(*gemini_decoder.OF_ANSWER, *gemini_decoder.OF_CANDIDATE, GROUNDING),
        shared=gemini_decoder.OF_ANSWER,
        choices=True,
        arranged=partial(_arranged, alone=alone),
        failure=errors.filled,
        failed=_failed,
    )


def is_blocked(turn: Turn) -> bool:
    """Whether the turn is a verdict on the prompt, which no candidate answers."""
    is_verdict = turn.finish is Finish.CONTENT_FILTER and not turn.parts
    return is_verdict and turn.finish_raw == gemini_decoder.block_reason(dict(turn.metadata))


def _arranged(turn: Turn, *, alone: bool) -> Turn:
    """Parts as they are read, and a finish that is one."""
    about = dict(turn.metadata)
    reason = gemini_decoder.block_reason(about) if alone else ""
    if reason and not turn.parts and turn.finish is Finish.CONTENT_FILTER:
        verdict = kept(turn.metadata, gemini_decoder.OF_ANSWER)
        return replace(turn, finish_raw=reason, metadata=verdict)
    about[GROUNDING] = gemini_decoder.grounded(about.get(GROUNDING))
    unfinished = turn.finish is not None and turn.finish_raw in gemini_decoder.UNFINISHED
    return replace(
        turn,
        parts=source_encoder.settled(_with_sounds(turn.parts), part_capabilities.is_sealed),
        finish_raw=_WORDS[Finish.OTHER] if unfinished else turn.finish_raw,
        metadata=lenient_json.metadata(about, about),
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
    return (part_capabilities.media(whole) or whole) if isinstance(whole, Media) else whole


def _failed(turn: Turn) -> Turn:
    """What a stream tells before its end: counts, but neither sources nor what a finish says."""
    names = tuple(name for name in gemini_decoder.OF_ANSWER if name != gemini_decoder.FEEDBACK)
    said = (replace(it, citations=()) if isinstance(it, Text) else it for it in turn.parts)
    return replace(turn, parts=tuple(said), metadata=kept(turn.metadata, names))
