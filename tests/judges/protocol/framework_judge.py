"""What the judges that are frameworks do alike: one client for each dialect, heard piece by piece.

A judge gives `main` one function for each dialect.  The function makes its client for an ask, and
gives what asks it and what hears its pieces.  `hearing` has the protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from judge_protocol import Ask, Heard, run, status_of

_FIELDS: Final = ("text", "reasoning", "refusal", "calls", "finish", "usage", "error")


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation with a client that is ready."""

    pieces: Callable[[], AsyncIterator[Any]]
    """Asks, and gives what the client gives: the pieces of a stream, or one whole answer."""
    hear: Callable[[Heard, Any], None]
    """Takes one piece in."""
    end: Callable[[Heard], None] = lambda _: None
    """Takes in what only the end tells, also after an error."""


def main(judge: str, talks: Mapping[str, Callable[[str, Ask], Talk]]) -> None:
    """Answer what stdin asks.

    `judge` is the judge's own file.  Each of `talks`, by dialect, is given the proxy's URL and an
    ask.  What `abilities.json` does not promise is not told.
    """
    abilities = json.loads(Path(judge).with_name("abilities.json").read_bytes())
    with asyncio.Runner() as runner:

        def answer(url: str, ask: Ask) -> Heard:
            heard = runner.run(_heard(talks[ask.dialect], url, ask))
            told = abilities[ask.dialect]["stream" if ask.stream else "whole"]
            for name in _FIELDS:
                if name not in told:
                    setattr(heard, name, None)
            return heard

        run(lambda url: lambda ask: answer(url, ask))


async def _heard(talks: Callable[[str, Ask], Talk], url: str, ask: Ask) -> Heard:
    talk, heard = talks(url, ask), Heard(reasoning="", refusal="")
    async for piece in _until_an_error(talk.pieces, heard):
        talk.hear(heard, piece)
    talk.end(heard)
    return heard


async def _until_an_error(
    pieces: Callable[[], AsyncIterator[Any]], heard: Heard
) -> AsyncIterator[Any]:
    """The pieces; the client's exception ends them.  One of the reader never passes here."""
    try:
        async for piece in pieces():
            yield piece
    except ImportError:  # a lame environment is no answer
        raise
    except Exception as error:  # whatever a client raises is what its users see
        heard.failed(type(error).__name__, _status(error), str(error))


def _status(error: BaseException | None) -> int | None:
    """The status that an exception carries, or the one that it was made of."""
    while isinstance(error, Exception):
        if status := status_of(error):
            return status
        error = error.__cause__
    return None
