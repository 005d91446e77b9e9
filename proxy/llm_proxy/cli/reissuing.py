"""Settings and event loop of the commands that send stored requests again without serving."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.providers import DEFAULT_PROVIDER
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams
from llm_proxy.shell.upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings

T = TypeVar("T")

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def run_interruptibly(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its result; SIGTERM and SIGHUP stop it as Ctrl-C does, with cleanup."""
    import asyncio  # noqa: PLC0415 # only to send requests

    async def with_stop_signals() -> T:
        loop = asyncio.get_running_loop()
        for signal_number in _STOP_SIGNALS:
            if signal.getsignal(signal_number) is not signal.SIG_IGN:  # ignored under nohup
                loop.add_signal_handler(signal_number, signal.raise_signal, signal.SIGINT)
        return await coroutine

    return asyncio.run(with_stop_signals())


def build_reissue_settings(option_values: dict[str, Any], rules: Sequence[str]) -> ReissueSettings:
    """The settings for sending requests, from `upstream_options` and the environment.

    `rules` are matching rules as text.  Raises `UsageError` for invalid values.
    """
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings, api_keys_from_environ  # noqa: PLC0415 # only to send requests
    from llm_proxy.shell.running.environment import (  # noqa: PLC0415 # only to send requests
        adopted_upstreams,
        providers_with_v1,
    )

    explicit_upstreams = parse_upstreams(option_values["upstream"])
    adopted = (
        {}
        if DEFAULT_PROVIDER in explicit_upstreams
        else adopted_upstreams(os.environ, explicit_upstreams)
    )
    proxy = (option_values["upstream_proxy"] or "").strip()
    return ReissueSettings(
        upstream=UpstreamSettings(
            base_urls=adopted | explicit_upstreams,
            replacing_v1=providers_with_v1(adopted),
            idle_timeout_s=option_values["idle_timeout"],
            proxy_url=checked_http_url("--upstream-proxy", proxy) if proxy else None,
        ),
        api_keys=api_keys_from_environ(os.environ),
        signing_method=option_values["sign"],
        rules=parse_rules(rules),
    )
