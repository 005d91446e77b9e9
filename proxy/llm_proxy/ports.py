"""The protocols through which modes use the shell: upstream, library, recorder, scenarios."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.errors import Miss
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.choosing import ScenarioSet

T = TypeVar("T")


class ActiveRecording(Protocol):
    """Records one exchange while it runs.  No method raises."""

    def record_head(self, at: float, head: ResponseHead) -> None:
        """Record the head, which arrived at `at` ms since the request was read in full."""

    def record_read(self, read: Read) -> None:
        """Record bytes of the body."""

    @property
    def has_capacity(self) -> bool:
        """Whether more reads may follow at once; if not, call `wait_for_capacity` first."""

    async def wait_for_capacity(self) -> None:
        """Wait until the recording has caught up, within a time limit."""

    def finish(self, at: float, ending: Ending) -> None:
        """End the recording at `at` ms and write the cassette."""


StartRecording = Callable[[frozenset[bytes]], ActiveRecording]
"""Starts a recording, in which these secrets of the operator are redacted."""


class Upstream(Protocol):
    """The live provider."""

    def stream(
        self, routed: RoutedRequest, record: StartRecording | None
    ) -> AsyncGenerator[Burst, None]:
        """Send the request to the provider and yield its response as it arrives.

        `record` is called once the request has been sent, with the secrets of the operator that
        were sent with it.  Raises `UpstreamFailed` before the first burst if there is no response,
        and `RequestRefused` for a request that cannot be sent.
        """


class Take(Protocol):
    """A take on disk."""

    @property
    def file(self) -> str:
        """The path of its file."""

    async def cassette(self) -> Cassette:
        """Load the cassette.  Raises `CassetteError` if it is invalid."""


@dataclass(frozen=True, slots=True)
class SimilarTakes:
    """Takes of another request that is similar."""

    takes: Sequence[Take]
    similarity: float
    """The similarity of the two requests, from 0 to 1."""


class TakeSource(Protocol):
    """The takes on disk as a run sees them: those that were there when it started."""

    async def takes_of(self, session: str, key: str) -> Sequence[Take]:
        """The playable takes of a session for a key, in order.

        Raises `CassetteError` if one of them is invalid.
        """

    async def nearest(self, routed: RoutedRequest, share: float) -> SimilarTakes | None:
        """The playable takes of the most similar request; None below a similarity of `share`.

        Raises `CassetteError` if one of them is invalid.
        """

    async def miss_for_request(self, routed: RoutedRequest, ordinal: int) -> Miss:
        """The miss of the request with that ordinal: the nearest cassette, what differs."""


class Offload(Protocol):
    """Runs a function off the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Run the function; the awaitable gives its result."""


ScenarioSource = Callable[[], Awaitable[ScenarioSet]]
"""Returns the scenarios that apply now; they are reloaded when their files change."""


class Recorder(Protocol):
    """Starts recordings."""

    def start_recording(
        self,
        routed: RoutedRequest,
        operator_secrets: frozenset[bytes] = frozenset(),
        take: int | None = None,
    ) -> ActiveRecording:
        """Record this request as the next take of its key in this run, or as take `take`.

        These secrets of the operator, which were sent upstream, are redacted like the client's.
        """

    async def takes_of_run(self, session: str, key: str) -> Sequence[Take]:
        """The takes of this run that are complete and no error responses, in order.

        Waits, within a time limit, until a response that has ended is on disk.
        """

    def reset_session(self, session: str) -> None:
        """Restart the take numbers of this session at 1."""
