"""What an answer of Ollama's has words for, by what is asked and whether it streams."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Vocabulary, call_of_object, kept, thought
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors
from llm_proxy.dialects.ollama.line_decoder import DURATIONS, FINISH, METADATA
from llm_proxy.dialects.ollama.paths import CHAT, GENERATE
from llm_proxy.errors import CannotSay
from llm_proxy.turns import Json, Media, Reasoning, Text, ToolCall, Turn, Usage

_WORDS: Final = {finish: word for word, finish in reversed(FINISH.items())}
"""The first word of each meaning."""

_TOTAL: Final = "total_duration"
_READ: Final = 1_000_000
_WRITTEN: Final = 10_000_000
_LOAD: Final = 1_000_000
"""ns that a token takes to be read, one to be written, and the model to be there: a turn that
does not say how long it took, took as long as one of a middling machine."""


def vocabulary(path: str, *, stream: bool) -> Vocabulary:
    """The words on this path.  Raises `CannotSay` where no turn is told."""
    if path not in (CHAT, GENERATE):
        raise CannotSay(f"ollama tells no turn on {path}")
    return Vocabulary(
        dialect="ollama",
        streams=stream,
        finishes=FINISH,
        words=_WORDS,
        calls_stop=True,
        reasoning=thought,
        call=call_of_object,
        media=_image,
        order=() if stream else (Reasoning, Text, Media, ToolCall),
        always=("input", "output"),
        counts_always=True,
        keeps=METADATA,
        arranged=partial(_arranged, images=1 if path == GENERATE and not stream else None),
        failure=errors.amid if stream else errors.instead,
        failed=_failed,
    )


def _image(media: Media) -> Media | None:
    """An image that is there; of which kind, only its bytes say."""
    is_image = media.media_type.startswith("image/") and media.base64
    return Media("image/*", base64=media.base64) if is_image else None


def _arranged(turn: Turn, images: int | None) -> Turn:
    """With how long it took, and no more images than the answer has places for."""
    if images is not None and sum(isinstance(it, Media) for it in turn.parts) > images:
        raise CannotSay("ollama says one image in a completion that does not stream")
    if turn.failure is not None:
        return turn
    said = dict(turn.metadata)
    took = {**_durations(turn.usage or Usage(), said), **said}
    return replace(turn, metadata=kept(tuple(took.items()), METADATA))


def _durations(usage: Usage, said: Fields) -> dict[str, Json]:
    """How long it would have taken, but for what it says itself."""
    made = {
        "load_duration": _LOAD,
        "prompt_eval_duration": max(usage.input or 0, 1) * _READ,
        "eval_duration": max(usage.output or 0, 1) * _WRITTEN,
    }
    counted = (
        lenient_json.count(said.get(name), made[name]) for name in DURATIONS if name != _TOTAL
    )
    return {_TOTAL: sum(it or 0 for it in counted), **made}


def _failed(turn: Turn) -> Turn:
    """What a stream tells before an error: not even a model, where it has not begun."""
    return replace(turn, usage=None, metadata=(), model=turn.model if turn.parts else "")
