"""The actions that make up a response: `Begin`, `Send`, `SendRaw`, `Wait`, `Abort`.

Actions come in *bursts*: tuples of actions that are known at the same time.  A cassette is
one burst; a live upstream yields a burst whenever bytes arrive.  The server writes the actions
of a burst together, so no action waits for a later one that has not arrived.

A source that ends without `Abort` ends its body as the framing requires: the clean end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from llm_proxy.exchange import ResponseHead


@dataclass(frozen=True, slots=True)
class Begin:
    """Send the response head."""

    head: ResponseHead


@dataclass(frozen=True, slots=True)
class Send:
    """Send a piece of the body with the head's framing: one HTTP chunk if it is chunked."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SendRaw:
    """Write bytes to the socket without HTTP framing, such as a malformed chunk."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing more before `due`, in ms since the request was read in full."""

    due: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the connection: `fin` closes it after the bytes sent, `rst` sends a TCP reset."""

    kind: Literal["fin", "rst"]


Action = Begin | Send | SendRaw | Wait | Abort
Burst = tuple[Action, ...]
ActionSource = Burst | AsyncGenerator[Burst, None]
"""The actions of a response: one burst, or a generator of bursts.  Consume a generator under
`aclosing`: closing it releases the upstream connection."""
