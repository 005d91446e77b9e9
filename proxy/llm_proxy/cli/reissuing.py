"""Builds reissue settings from options, for commands that send requests without serving any."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from llm_proxy.matching.grammar import parse_rules
from llm_proxy.providers import ANY
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams
from llm_proxy.shell.upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings

T = TypeVar("T")

_STOPPING: Final = (signal.SIGTERM, signal.SIGHUP)


def run_until_done(work: Coroutine[Any, Any, T]) -> T:
    """What this work gives; any signal that stops it does so as Ctrl-C: nothing is left behind."""
    import asyncio  # noqa: PLC0415 # only to ask

    async def stoppable() -> T:
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                loop.add_signal_handler(number, signal.raise_signal, signal.SIGINT)
        return await work

    return asyncio.run(stoppable())


def reissue_settings_of(values: dict[str, Any], rules: Sequence[str]) -> ReissueSettings:
    """How providers are asked, by the options of `asking_options` and the environment.

    Raises `UsageError` for values that make no sense.
    """
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings, api_keys_of  # noqa: PLC0415 # only to ask
    from llm_proxy.shell.running.environment import (  # noqa: PLC0415 # only to ask
        adopted_upstreams,
        providers_with_v1,
    )

    fields = parse_upstreams(values["upstream"])
    adopted = {} if ANY in fields else adopted_upstreams(os.environ, fields)
    proxy = (values["upstream_proxy"] or "").strip()
    return ReissueSettings(
        upstream=UpstreamSettings(
            base_urls=adopted | fields,
            in_place_of_v1=providers_with_v1(adopted),
            idle_timeout=values["idle_timeout"],
            proxy=checked_http_url("--upstream-proxy", proxy) if proxy else None,
        ),
        api_keys=api_keys_of(os.environ),
        sign=values["sign"],
        rules=parse_rules(rules),
    )
