"""Loads a run from a journal file or from a running proxy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from llm_proxy.cli.options import PORT
from llm_proxy.display import escape_path
from llm_proxy.errors import UsageError, printable
from llm_proxy.shell.running.settings import checked_http_url, displayable_url
from llm_proxy.verdict.attempts import JournalRun, parse_run

_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a journal: ten thousand requests are some 10 MB."""
_TIMEOUT: Final = 30.0
"""Seconds that a proxy may be silent for."""
_PAGE: Final = "/_proxy/journal"
_SHOWN: Final = 200
"""Characters of a complaint that is not ours."""


class _JournalUsage(msgspec.Struct):
    played: list[str]
    recorded: list[str]


class _JournalDocument(msgspec.Struct):
    library: _JournalUsage


SOURCE: Final = click.argument("source", required=False, metavar="[SOURCE]")
"""A file that `--journal` wrote, or the URL of a running proxy."""


def load_run(source: str | None) -> JournalRun:
    """The run that a source tells; without one, that of the proxy that LLM_PROXY_URL names.

    Raises `UsageError` where there is none.
    """
    where = source or os.environ.get("LLM_PROXY_URL", "").strip() or f"http://127.0.0.1:{PORT}"
    if "://" in where:
        url = _journal_url(where)
        return parse_run(_fetch(url), url)
    return parse_run(_read_file(Path(where)), escape_path(where))


def journal_cassettes(path: Path) -> list[str]:
    """The cassettes that a journal's run played or recorded, by their names within the library.

    Raises `UsageError` for a file that is none of ours.
    """
    try:
        journal_usage = msgspec.json.decode(_read_file(path), type=_JournalDocument).library
    except msgspec.DecodeError:
        raise UsageError(
            f"{escape_path(path)} does not tell which cassettes its run used: give a file that "
            "--journal of this version wrote"
        ) from None
    return [*journal_usage.played, *journal_usage.recorded]


def _read_file(path: Path) -> bytes:
    """The bytes of a file.  Raises `UsageError` where they cannot be had."""
    try:
        with path.open("rb") as file:
            return _check_complete(file.read(_LARGEST + 1), escape_path(path))
    except OSError as error:
        raise UsageError(
            f"{escape_path(path)} cannot be read ({error.strerror}): give a file that --journal "
            f"wrote, or the URL of a running proxy, such as http://127.0.0.1:{PORT}"
        ) from None


def _journal_url(where: str) -> str:
    """The journal's address on the proxy of a URL; a path such as /v1 is that of clients."""
    parts = urlsplit(checked_http_url("SOURCE", where))
    return f"{parts.scheme}://{parts.netloc}{_PAGE}"


def _fetch(url: str) -> bytes:
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
            return _check_complete(response.read(_LARGEST + 1), displayable_url(url))
    except HTTPError as error:
        raise UsageError(
            f"{displayable_url(url)} answers with HTTP {error.code}: that is no llm-proxy; give "
            f"the URL "
            "that one printed when it started"
        ) from None
    except (OSError, HTTPException) as error:
        raise UsageError(
            f"{displayable_url(url)} does not answer ({_error_text(error)}): start llm-proxy "
            f"there, or give "
            "the file that --journal wrote"
        ) from None


def _error_text(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return printable(str(getattr(reason, "strerror", None) or reason), _SHOWN)


def _check_complete(content: bytes, place: str) -> bytes:
    if len(content) > _LARGEST:
        raise UsageError(f"{place} holds more than {_LARGEST // 1024**2} MiB: that is no journal")
    return content
