"""The protocols through which modes reach the shell."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.errors import Miss
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.pacing import Pace
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.engine.scenario_set import ScenarioSet

T = TypeVar("T")


class Recording(Protocol):
    """Takes down one exchange while it runs.  Nothing here raises."""

    def redact_secrets(self, secrets: frozenset[bytes]) -> None:
        """The request went out with these: they are stored neither of it nor of its answer.

        Called before the head arrives, if at all.
        """

    def record_head(self, at: float, head: ResponseHead) -> None:
        """The head arrived, at `at` ms."""

    def record_read(self, read: Read) -> None:
        """Bytes arrived."""

    @property
    def has_capacity(self) -> bool:
        """Whether more may come; where not, `catch_up` is called for."""

    async def wait_for_capacity(self) -> None:
        """Wait until it keeps up again, within a limit."""

    def finish(self, at: float, ending: Ending) -> None:
        """Nothing more will come: write the cassette."""


class Upstream(Protocol):
    """The live provider."""

    def stream(
        self, routed: RoutedRequest, record: Callable[[], Recording] | None
    ) -> AsyncGenerator[Burst, None]:
        """Ask the provider, and give its answer as it arrives.

        `record` is called once the request is on its way.  Raises `UpstreamFailed` before the
        first burst when there is no answer, and `RequestRefused` for what cannot be asked.
        """


class Take(Protocol):
    """A take that is on disk."""

    @property
    def file(self) -> str:
        """Its file."""

    async def cassette(self) -> Cassette:
        """What it holds.  Raises `CassetteError` when it cannot be trusted."""


@dataclass(frozen=True, slots=True)
class SimilarTakes:
    """Takes of a request that is not the same."""

    takes: Sequence[Take]
    similarity: float
    """How alike it is, from 0 to 1."""


class TakeSource(Protocol):
    """The takes that are on disk, as a run sees them: what was there when it started."""

    async def takes_of(self, session: str, key: str) -> Sequence[Take]:
        """The playable takes of a session for a key, in order.

        Raises `CassetteError` when one of them cannot be trusted.
        """

    async def nearest(self, routed: RoutedRequest, share: float) -> SimilarTakes | None:
        """The playable takes of the nearest cassette that may answer, if it is at least that alike.

        Raises `CassetteError` when one of them cannot be trusted.
        """

    async def miss(self, routed: RoutedRequest, ordinal: int) -> Miss:
        """Why the request of that ordinal is not answered: what is nearest, what differs."""


class PaceSource(Protocol):
    """The paces that are set, as they are by now."""

    @property
    def seed(self) -> int:
        """What every roll of chance is hashed from."""

    def pace_of(self, session: str) -> Pace:
        """The pace of a session's answers, where neither request nor scenario has its own."""


class Offload(Protocol):
    """Runs a function where it keeps nobody waiting."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """What the function gives."""


class ScenarioSource(Protocol):
    """The scenarios of a run, as their files stand."""

    async def current(self) -> ScenarioSet:
        """What to play by now."""


class Recorder(Protocol):
    """Starts recordings."""

    def start(self, routed: RoutedRequest, take: int | None = None) -> Recording:
        """Take down this call as its key's next take of this run, or as take number `take`."""

    def reset(self, session: str) -> None:
        """Number the takes of this session from 1 again."""
