"""Looser on purpose: where no cassette is the same, the nearest one answers, and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import quote

from llm_proxy.actions import Action, Begin
from llm_proxy.modes.base import Answer
from llm_proxy.modes.take_player import Player
from llm_proxy.ports import Takes
from llm_proxy.routing import Call
from llm_proxy.take_numbers import AfterLast, pick

NEAREST_HEADER: Final = "x-llm-proxy-nearest"
"""On such an answer: how alike its request is, and the cassette's file."""
_SAFE: Final = "/ !#$&'()*+,:;=?@[]~"


async def nearest(
    takes: Takes, player: Player, call: Call, ordinal: int, after_last: AfterLast
) -> Answer | None:
    """The answer of the cassette that is most alike, if it is enough so.

    None where none is, or nobody wants that.  Raises `CassetteError` as `Takes` does.
    """
    if player.nearest is None:
        return None
    alike = await takes.nearest(call, player.nearest)
    take = None if alike is None else pick(alike.takes, ordinal, after_last)
    if alike is None or take is None:
        return None
    answer = await player.play(take, call, ordinal, player.pace(call))
    return marked(answer, alike.likeness)


def marked(answer: Answer, likeness: float) -> Answer:
    """The answer, with a head and a note that say how alike its request is."""
    if not isinstance(answer.source, tuple):
        raise TypeError("a cassette is played in one burst")
    value = f"{int(likeness * 100) / 100:.2f} {quote(answer.origin, safe=_SAFE, errors='replace')}"
    source = tuple(_with_header(it, value) for it in answer.source)
    return replace(answer, source=source, likeness=likeness)


def _with_header(action: Action, value: str) -> Action:
    match action:
        case Begin(head):
            return Begin(replace(head, headers=(*head.headers, (NEAREST_HEADER, value))))
        case _:
            return action
