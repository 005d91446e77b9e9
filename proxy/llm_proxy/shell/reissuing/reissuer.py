"""A stored request on its way to the provider once more; its answer becomes a cassette.

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
from llm_proxy.matching import PLAIN, Rules
from llm_proxy.reissue import request_of
from llm_proxy.routing import Call, Routing, route
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import Filed
from llm_proxy.shell.recording.recorder import Recorder, RecorderEvents
from llm_proxy.shell.running.settings import Sign
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

_FOLDER: Final = ".asked-again-"
"""What a folder of new answers is called that are not looked at yet; libraries pass over it."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How providers are asked."""

    upstream: UpstreamSettings
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The key of each provider that there is one for."""
    sign: Sign | None = None
    rules: Rules = PLAIN
    """What the keys of the new cassettes are loosened by."""


def keys_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The keys that an environment holds, by provider."""
    found = {
        it.name: next((key for name in it.keys if (key := environ.get(name, "").strip())), "")
        for it in providers.PROVIDERS
    }
    return {provider: key for provider, key in found.items() if key}


def check_keys(asking: Asking, names: set[str]) -> None:
    """Raise `UsageError` where a public provider of these would be asked without a key."""
    for name in sorted(names - asking.keys.keys()):
        if providers.needs_key(name, asking.upstream.addresses):
            variables = " or ".join(providers.key_names(name))
            raise UsageError(
                f"{name} is asked with a key: set {variables}, or give --upstream {name}=URL"
            )


class Again:
    """Asks stored requests again.  `asking_again` makes one."""

    def __init__(self, asking: Asking, upstream: LiveUpstream, folder: Path) -> None:
        self._asking = asking
        self._upstream = upstream
        self._folder = folder
        self._serial = itertools.count(1)

    async def ask(self, file: str, meta: Meta, stored: StoredRequest) -> Filed:
        """The new answer to a stored request, as a cassette that lies in no library.

        Raises `CassetteError` for a request that cannot be asked again, `UpstreamFailed` where no
        answer came, `RequestRefused` for what cannot be sent, and `SpoolError` where it could not
        be kept, or may be the answer to another request.
        """
        call = self._call(file, meta, stored)
        place = self._folder / str(next(self._serial))
        filed: list[Filed] = []
        lost: list[str] = []
        events = RecorderEvents(lambda _, it: filed.append(it), lambda _, why: lost.append(why))
        recorder = Recorder(Library(place / "cassettes"), place / "spool", events, renew=False)
        try:
            answer = self._upstream.stream(call, lambda: recorder.start(call))
            async with aclosing(answer) as bursts:
                async for _ in bursts:
                    pass  # the recorder has them
        finally:
            await recorder.close()
        lost += self._upstream.doubts
        if lost or not filed:
            raise SpoolError("; ".join(lost) or "no answer was kept")
        return filed[0]

    def _call(self, file: str, meta: Meta, stored: StoredRequest) -> Call:
        signed = meta.provider == BEDROCK and self._asking.sign is not None
        key = "" if signed else self._asking.keys.get(meta.provider, "")
        now = asyncio.get_running_loop().time
        request = request_of(file, meta, stored, key)
        call = route(request, now(), now, how=Routing(meta.session, self._asking.rules))
        return replace(call, provider=meta.provider, session=meta.session)


@asynccontextmanager
async def asking_again(asking: Asking, beside: Path | None = None) -> AsyncIterator[Again]:
    """Something that asks; on the way out the new answers are gone that nobody has moved.

    They lie in the folder `beside`, from which they can be renamed into a library there, or where
    temporary files do.  Raises `UsageError` where requests cannot be signed, or nothing be written.
    """
    async with AsyncExitStack() as stack:
        signer: AwsSigner | None = None
        if asking.sign is not None:
            bedrock = providers.address(BEDROCK, asking.upstream.addresses)
            signer = await asyncio.to_thread(AwsSigner, bedrock)
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=_FOLDER, dir=beside))
        except OSError as error:
            where = beside or "the folder of temporary files"
            raise UsageError(
                f"{where} cannot be written: {error.strerror}; nothing was asked"
            ) from None
        upstream = await stack.enter_async_context(LiveUpstream(asking.upstream, signer))
        yield Again(asking, upstream, Path(folder))


async def live_answer(asking: Asking, it: Cassette) -> Cassette:
    """What the provider answers today, as it would be recorded; nothing of it is kept.

    Raises as `Again.ask` does.
    """
    async with asking_again(asking) as again:
        return (await again.ask(it.file, it.meta, it.request)).cassette
