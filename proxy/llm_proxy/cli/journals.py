"""Where a command reads a run from: a journal's file, or a proxy that runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from llm_proxy.cli.options import PORT
from llm_proxy.display import path_text
from llm_proxy.errors import UsageError, printable
from llm_proxy.shell.running.settings import checked_url, shown_url
from llm_proxy.verdict.attempts import Run, read_run

_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a journal: ten thousand requests are some 10 MB."""
_TIMEOUT: Final = 30.0
"""Seconds that a proxy may be silent for."""
_PAGE: Final = "/_proxy/journal"
_SHOWN: Final = 200
"""Characters of a complaint that is not ours."""


class _Used(msgspec.Struct):
    played: list[str]
    recorded: list[str]


class _Journal(msgspec.Struct):
    library: _Used


SOURCE: Final = click.argument("source", required=False, metavar="[SOURCE]")
"""A file that `--journal` wrote, or the URL of a running proxy."""


def run_of(source: str | None) -> Run:
    """The run that a source tells; without one, that of the proxy that LLM_PROXY_URL names.

    Raises `UsageError` where there is none.
    """
    where = source or os.environ.get("LLM_PROXY_URL", "").strip() or f"http://127.0.0.1:{PORT}"
    if "://" in where:
        url = _page(where)
        return read_run(_fetched(url), url)
    return read_run(_read(Path(where)), path_text(where))


def library_of(path: Path) -> list[str]:
    """The cassettes that a journal's run played or recorded, by their names within the library.

    Raises `UsageError` for a file that is none of ours.
    """
    try:
        it = msgspec.json.decode(_read(path), type=_Journal).library
    except msgspec.DecodeError:
        raise UsageError(
            f"{path_text(path)} does not tell which cassettes its run used: give a file that "
            "--journal of this version wrote"
        ) from None
    return [*it.played, *it.recorded]


def _read(path: Path) -> bytes:
    """The bytes of a file.  Raises `UsageError` where they cannot be had."""
    try:
        with path.open("rb") as file:
            return _whole(file.read(_LARGEST + 1), path_text(path))
    except OSError as error:
        raise UsageError(
            f"{path_text(path)} cannot be read ({error.strerror}): give a file that --journal "
            f"wrote, or the URL of a running proxy, such as http://127.0.0.1:{PORT}"
        ) from None


def _page(where: str) -> str:
    """The journal's address on the proxy of a URL; a path such as /v1 is that of clients."""
    parts = urlsplit(checked_url("SOURCE", where))
    return f"{parts.scheme}://{parts.netloc}{_PAGE}"


def _fetched(url: str) -> bytes:
    """What is at a URL: asked directly, whatever proxies the environment names."""
    from http.client import HTTPException  # noqa: PLC0415 # not where a file is read
    from urllib import request as urls  # noqa: PLC0415 # not where a file is read
    from urllib.error import HTTPError  # noqa: PLC0415 # not where a file is read

    class Straight(urls.HTTPRedirectHandler):
        """Goes nowhere else."""

        def redirect_request(self, *_: object) -> None:
            """A redirect is no journal."""

    opener = urls.build_opener(urls.ProxyHandler({}), Straight())
    try:
        with opener.open(url, timeout=_TIMEOUT) as response:
            return _whole(response.read(_LARGEST + 1), shown_url(url))
    except HTTPError as error:
        raise UsageError(
            f"{shown_url(url)} answers with HTTP {error.code}: that is no llm-proxy; give the URL "
            "that one printed when it started"
        ) from None
    except (OSError, HTTPException) as error:
        raise UsageError(
            f"{shown_url(url)} does not answer ({_why(error)}): start llm-proxy there, or give "
            "the file that --journal wrote"
        ) from None


def _why(error: Exception) -> str:
    """What went wrong, without numbers of the operating system."""
    reason = getattr(error, "reason", error)
    return printable(str(getattr(reason, "strerror", None) or reason), _SHOWN)


def _whole(content: bytes, place: str) -> bytes:
    if len(content) > _LARGEST:
        raise UsageError(f"{place} holds more than {_LARGEST // 1024**2} MiB: that is no journal")
    return content
