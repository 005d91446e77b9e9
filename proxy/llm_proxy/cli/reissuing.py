"""From options to how providers are asked, for commands that ask them without serving anybody."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from llm_proxy.matching.grammar import rules_of
from llm_proxy.providers import ANY
from llm_proxy.shell.running.settings import checked_url, parse_upstreams
from llm_proxy.shell.upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import Asking

T = TypeVar("T")

_STOPPING: Final = (signal.SIGTERM, signal.SIGHUP)


def until_done(work: Coroutine[Any, Any, T]) -> T:
    """What this work gives; any signal that stops it does so as Ctrl-C: nothing is left behind."""
    import asyncio  # noqa: PLC0415 # only to ask

    async def stoppable() -> T:
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                loop.add_signal_handler(number, signal.raise_signal, signal.SIGINT)
        return await work

    return asyncio.run(stoppable())


def asking_of(values: dict[str, Any], rules: Sequence[str]) -> Asking:
    """How providers are asked, by the options of `asking_options` and the environment.

    Raises `UsageError` for values that make no sense.
    """
    from llm_proxy.shell.reissuing.reissuer import Asking, keys_of  # noqa: PLC0415 # only to ask
    from llm_proxy.shell.running.environment import (  # noqa: PLC0415 # only to ask
        adopted_upstreams,
        with_our_v1,
    )

    given = parse_upstreams(values["upstream"])
    adopted = {} if ANY in given else adopted_upstreams(os.environ, given)
    proxy = (values["upstream_proxy"] or "").strip()
    return Asking(
        upstream=UpstreamSettings(
            addresses=adopted | given,
            in_place_of_v1=with_our_v1(adopted),
            idle=values["idle_timeout"],
            proxy=checked_url("--upstream-proxy", proxy) if proxy else None,
        ),
        keys=keys_of(os.environ),
        sign=values["sign"],
        rules=rules_of(rules),
    )
