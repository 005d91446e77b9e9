"""Settings and event loop of the commands that send stored requests again without serving."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.options import all_upstreams

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing import ReissueSettings

T = TypeVar("T")


def run_interruptibly(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its result; SIGTERM and SIGHUP stop it as Ctrl-C does, with cleanup."""
    try:
        return run_until_signal(coroutine)
    except click.exceptions.Exit:
        raise KeyboardInterrupt from None


def build_reissue_settings(values: Mapping[str, Any]) -> ReissueSettings:
    """The settings for sending requests, from the options of providers and `--normalise`.

    Raises `UsageError` for invalid values.
    """
    from llm_proxy.shell.reissuing import ReissueSettings, api_keys_from_environ  # noqa: PLC0415 # only to send requests
    from llm_proxy.shell.upstream.live import UpstreamSettings  # noqa: PLC0415 # only to send requests

    base_urls, client_chosen_upstreams = all_upstreams(values["upstream"], adopts=True)
    return ReissueSettings(
        upstream=UpstreamSettings(
            base_urls=base_urls,
            replacing_v1=client_chosen_upstreams,
            idle_timeout_s=values["idle_timeout"],
            proxy_url=values["upstream_proxy"],
            signs_requests=values["sign"] is not None,
        ),
        api_keys=api_keys_from_environ(os.environ),
        rules=values["normalise"],
    )
