"""Sends a stored request to its provider again and records the response.

The recorder is that of `record`, with a library of its own: what is in the operator's stays as it
is until somebody has looked at the new answer.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from llm_proxy import providers
from llm_proxy.cassette import Cassette, Meta, StoredRequest
from llm_proxy.errors import SpoolError, UsageError
from llm_proxy.matching import PLAIN, RuleSet
from llm_proxy.reissue import reissued_request
from llm_proxy.routing import RoutedRequest, RoutingSettings, route
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.running.settings import Sign
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

_FOLDER: Final = ".asked-again-"
"""What a folder of new answers is called that are not looked at yet; libraries pass over it."""


@dataclass(frozen=True, slots=True)
class ReissueSettings:
    """How providers are asked."""

    upstream: UpstreamSettings
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The key of each provider that there is one for."""
    sign: Sign | None = None
    rules: RuleSet = PLAIN
    """What the keys of the new cassettes are loosened by."""


def api_keys_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The keys that an environment holds, by provider."""
    found = {
        item.name: next(
            (key for name in item.key_variables if (key := environ.get(name, "").strip())), ""
        )
        for item in providers.PROVIDERS
    }
    return {provider: key for provider, key in found.items() if key}


def check_api_keys(asking: ReissueSettings, names: set[str]) -> None:
    """Raise `UsageError` where a public provider of these would be asked without a key."""
    for name in sorted(names - asking.api_keys.keys()):
        if providers.needs_api_key(name, asking.upstream.base_urls):
            variables = " or ".join(providers.key_variables(name))
            raise UsageError(
                f"{name} is asked with a key: set {variables}, or give --upstream {name}=URL"
            )


class Reissuer:
    """Asks stored requests again.  `asking_again` makes one."""

    def __init__(self, asking: ReissueSettings, upstream: LiveUpstream, folder: Path) -> None:
        self._settings = asking
        self._upstream = upstream
        self._folder = folder
        self._next_number = itertools.count(1)

    async def reissue(self, file: str, meta: Meta, stored: StoredRequest) -> FiledCassette:
        """The new answer to a stored request, as a cassette that lies in no library.

        Raises `CassetteError` for a request that cannot be asked again, `UpstreamFailed` where no
        answer came, `RequestRefused` for what cannot be sent, and `SpoolError` where it could not
        be kept, or may be the answer to another request.
        """
        routed = self._routed_request(file, meta, stored)
        place = self._folder / str(next(self._next_number))
        filed: list[FiledCassette] = []
        lost: list[str] = []
        events = RecorderEvents(
            lambda _, filed_cassette: filed.append(filed_cassette), lambda _, why: lost.append(why)
        )
        recorder = SpoolRecorder(Library(place / "cassettes"), place / "spool", events, renew=False)
        try:
            answer = self._upstream.stream(routed, lambda: recorder.start(routed))
            async with aclosing(answer) as bursts:
                async for _ in bursts:
                    pass  # the recorder has them
        finally:
            await recorder.close()
        lost += self._upstream.surplus_responses
        if lost or not filed:
            raise SpoolError("; ".join(lost) or "no answer was kept")
        return filed[0]

    def _routed_request(self, file: str, meta: Meta, stored: StoredRequest) -> RoutedRequest:
        signed = meta.provider == BEDROCK and self._settings.sign is not None
        key = "" if signed else self._settings.api_keys.get(meta.provider, "")
        now = asyncio.get_running_loop().time
        request = reissued_request(file, meta, stored, key)
        routed = route(
            request, now(), now, settings=RoutingSettings(meta.session, self._settings.rules)
        )
        return replace(routed, provider=meta.provider, session=meta.session)


@asynccontextmanager
async def reissuing(asking: ReissueSettings, path: Path | None = None) -> AsyncIterator[Reissuer]:
    """Something that asks; on the way out the new answers are gone that nobody has moved.

    They lie in the folder `beside`, from which they can be renamed into a library there, or where
    temporary files do.  Raises `UsageError` where requests cannot be signed, or nothing be written.
    """
    async with AsyncExitStack() as stack:
        signer: AwsSigner | None = None
        if asking.sign is not None:
            bedrock = providers.upstream_address(BEDROCK, asking.upstream.base_urls)
            signer = await asyncio.to_thread(AwsSigner, bedrock)
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=_FOLDER, dir=path))
        except OSError as error:
            where = path or "the folder of temporary files"
            raise UsageError(
                f"{where} cannot be written: {error.strerror}; nothing was asked"
            ) from None
        upstream = await stack.enter_async_context(LiveUpstream(asking.upstream, signer))
        yield Reissuer(asking, upstream, Path(folder))


async def live_response(asking: ReissueSettings, cassette: Cassette) -> Cassette:
    """What the provider answers today, as it would be recorded; nothing of it is kept.

    Raises as `Reissuer.ask` does.
    """
    async with reissuing(asking) as again:
        return (await again.reissue(cassette.file, cassette.meta, cassette.request)).cassette
