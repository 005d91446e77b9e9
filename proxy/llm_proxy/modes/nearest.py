"""`--match nearest`: plays the most similar cassette where none is equal, and marks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import quote

from llm_proxy.actions import Action, Begin
from llm_proxy.modes.base import ModeResponse
from llm_proxy.modes.take_player import TakePlayer
from llm_proxy.ports import TakeSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import AfterLast, pick_take

NEAREST_HEADER: Final = "x-llm-proxy-nearest"
"""On such an answer: how alike its request is, and the cassette's file."""
_SAFE: Final = "/ !#$&'()*+,:;=?@[]~"


async def respond_nearest(
    takes: TakeSource,
    player: TakePlayer,
    routed: RoutedRequest,
    ordinal: int,
    after_last: AfterLast,
) -> ModeResponse | None:
    """The answer of the cassette that is most alike, if it is enough so.

    None where none is, or nobody wants that.  Raises `CassetteError` as `TakeSource` does.
    """
    if player.nearest is None:
        return None
    alike = await takes.nearest(routed, player.nearest)
    take = None if alike is None else pick_take(alike.takes, ordinal, after_last)
    if alike is None or take is None:
        return None
    answer = await player.play(take, routed, ordinal, player.pace_of(routed))
    return mark_as_nearest(answer, alike.similarity)


def mark_as_nearest(answer: ModeResponse, likeness: float) -> ModeResponse:
    """The answer, with a head and a note that say how alike its request is."""
    if not isinstance(answer.source, tuple):
        raise TypeError("a cassette is played in one burst")
    value = f"{int(likeness * 100) / 100:.2f} {quote(answer.origin, safe=_SAFE, errors='replace')}"
    source = tuple(_add_header(action, value) for action in answer.source)
    return replace(answer, source=source, similarity=likeness)


def _add_header(action: Action, value: str) -> Action:
    match action:
        case Begin(head):
            return Begin(replace(head, headers=(*head.headers, (NEAREST_HEADER, value))))
        case _:
            return action
