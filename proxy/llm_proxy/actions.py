"""The actions that make up a response: `Begin`, `Send`, `SendRaw`, `Wait`, `Abort`.

Actions come in *bursts*: tuples of actions that are known at the same time.  A cassette is
one burst; a live upstream yields a burst whenever something arrived.  The performer writes
what a burst holds together, so nothing waits for a neighbour that is not there yet.

A source that ends without `Abort` ends its body as the framing says: that is the clean end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from llm_proxy.exchange import ResponseHead


@dataclass(frozen=True, slots=True)
class Begin:
    """Send the head."""

    head: ResponseHead


@dataclass(frozen=True, slots=True)
class Send:
    """Send a piece of the body, framed as the head says: one HTTP chunk where it is chunked."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SendRaw:
    """Send bytes past the framing, such as a malformed chunk."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Let nothing out before `due`, in ms since the request was read in full."""

    due: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Break the connection off: `fin` after what was sent, `rst` with a real reset."""

    how: Literal["fin", "rst"]


Action = Begin | Send | SendRaw | Wait | Abort
Burst = tuple[Action, ...]
Source = Burst | AsyncGenerator[Burst, None]
"""What gives the actions of a response: all at once, or as they come.  Consume a generator under
`aclosing`: that is how an upstream is let go."""
