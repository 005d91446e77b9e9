"""`--match nearest`: replays the most similar cassette where none is equal, and marks it."""

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
"""The header of such a response: the similarity of its request, and the cassette's file."""
_UNQUOTED_CHARS: Final = "/ !#$&'()*+,:;=?@[]~"


async def respond_nearest(
    takes: TakeSource,
    player: TakePlayer,
    routed: RoutedRequest,
    request_ordinal: int,
    after_last: AfterLast,
) -> ModeResponse | None:
    """Replays the most similar cassette, if it is similar enough.

    None where none is, or where the option is off.  Raises `CassetteError` as `TakeSource` does.
    """
    if player.min_similarity is None:
        return None
    similar_takes = await takes.nearest(routed, player.min_similarity)
    take = (
        None
        if similar_takes is None
        else pick_take(similar_takes.takes, request_ordinal, after_last)
    )
    if similar_takes is None or take is None:
        return None
    response = await player.replay_take(take, routed, request_ordinal, player.pace_of(routed))
    return mark_nearest_response(response, similar_takes.similarity)


def mark_nearest_response(response: ModeResponse, similarity: float) -> ModeResponse:
    """The response, with its similarity, and with a header that declares it."""
    if not isinstance(response.action_source, tuple):
        raise TypeError("a cassette is played in one burst")
    header_value = (
        f"{int(similarity * 100) / 100:.2f} "
        f"{quote(response.origin, safe=_UNQUOTED_CHARS, errors='replace')}"
    )
    source = tuple(_add_nearest_header(action, header_value) for action in response.action_source)
    return replace(response, action_source=source, similarity=similarity)


def _add_nearest_header(action: Action, header_value: str) -> Action:
    match action:
        case Begin(head):
            return Begin(replace(head, headers=(*head.headers, (NEAREST_HEADER, header_value))))
        case _:
            return action
