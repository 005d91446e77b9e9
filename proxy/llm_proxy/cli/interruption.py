"""Event loops that signals stop, with cleanup."""

from __future__ import annotations

import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

T = TypeVar("T")

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its result.

    SIGINT, SIGTERM and SIGHUP cancel it; then raises `click.exceptions.Exit` with 128 and the
    number of the signal.
    """
    import asyncio  # noqa: PLC0415 # only the commands with a loop need it

    received: list[int] = []

    async def with_signal_handlers() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(coroutine)

        def stop(signal_number: int) -> None:
            received.append(signal_number)
            task.cancel()

        for signal_number in _STOP_SIGNALS:
            if signal_number == signal.SIGHUP and signal.getsignal(signal_number) is signal.SIG_IGN:
                continue  # ignored under nohup
            loop.add_signal_handler(signal_number, stop, signal_number)
        return await task

    try:
        return asyncio.run(with_signal_handlers())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + received[-1] if received else 1) from None


def run_interruptibly(coroutine: Coroutine[Any, Any, T]) -> T:
    """As `run_until_signal`, but every signal stops it as Ctrl-C does: with `KeyboardInterrupt`."""
    try:
        return run_until_signal(coroutine)
    except click.exceptions.Exit:
        raise KeyboardInterrupt from None
