"""Finds a running proxy, and loads a run from it or from a journal file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.options import DEFAULT_PORT, URL_VARIABLE
from llm_proxy.cli.output import print_note
from llm_proxy.display import folder_name, path_as_unicode_text
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.journal_document import JournalDocument, parse_journal
from llm_proxy.shell.running.settings import checked_http_url, displayable_url

_MAX_JOURNAL_BYTES: Final = 256 * 1024 * 1024
"""The size limit of a journal: ten thousand requests take some 10 MB."""
_NOT_A_PROXY: Final = (
    "from a server that is not llm-proxy; use the URL that llm-proxy printed when it started"
)
_FIND_ADVICE: Final = f"start llm-proxy, or set {URL_VARIABLE} to the URL of a running llm-proxy"
_SOURCE_ADVICE: Final = "start llm-proxy, or pass a journal file written by --journal"
_TIMEOUT_S: Final = 30.0
"""The socket timeout of a request to a proxy."""


@dataclass(frozen=True, slots=True)
class FoundProxy:
    """A running proxy."""

    url: str
    """Its URL, without a path."""
    default_session: str
    """The session of requests that name none."""
    description: str
    """Its URL, mode and cassettes, for people."""


class _Health(msgspec.Struct):
    mode: str
    cassettes: str | None = None
    session: str = DEFAULT_SESSION


class _JournalLibrary(msgspec.Struct):
    played: list[str]
    recorded: list[str]


class _JournalDocument(msgspec.Struct):
    library: _JournalLibrary


SOURCE_ARGUMENT: Final = click.argument("source", required=False, metavar="[SOURCE]")
"""A file that `--journal` wrote, or the URL of a running proxy."""


def load_run(source: str | None) -> JournalDocument:
    """The run in a journal file or of a running proxy; `source` is a path or a URL.

    Without one, the proxy of `find_proxy` is used, and named on stderr.  Raises `UsageError` where
    there is no journal.
    """
    if not source:
        proxy = find_proxy()
        print_note(f"reading the journal of {proxy.description}")
        source = proxy.url
    if "://" in source:
        url = f"{_without_path('SOURCE', source)}/_proxy/journal"
        return parse_journal(_fetch_page(url, _SOURCE_ADVICE), url)
    return parse_journal(_read_journal_file(Path(source)), path_as_unicode_text(source))


def find_proxy() -> FoundProxy:
    """The proxy that runs at LLM_PROXY_URL, else on the default port.

    Raises `UsageError` if there is none.
    """
    url = _without_path(
        URL_VARIABLE,
        os.environ.get(URL_VARIABLE, "").strip() or f"http://127.0.0.1:{DEFAULT_PORT}",
    )
    health_url = f"{url}/_proxy/health"
    try:
        health = msgspec.json.decode(_fetch_page(health_url, _FIND_ADVICE), type=_Health)
    except msgspec.DecodeError:
        raise UsageError(f"{displayable_url(health_url)}: a page {_NOT_A_PROXY}") from None
    cassettes = f", cassettes in {folder_name(health.cassettes)}" if health.cassettes else ""
    description = f"llm-proxy {health.mode} on {url}{cassettes}"
    return FoundProxy(url, health.session, description)


def reset_session(proxy: FoundProxy, session: str) -> None:
    """Restart a session of a running proxy.  Raises `UsageError` if that fails."""
    _fetch_page(f"{proxy.url}/_proxy/sessions/{session}/reset", _FIND_ADVICE, posted=b"")


def _without_path(label: str, url: str) -> str:
    """A URL without its path: one such as /v1 is for clients.  Raises `UsageError`."""
    parts = urlsplit(checked_http_url(label, url))
    return f"{parts.scheme}://{parts.netloc}"


def journal_cassette_names(path: Path) -> list[str]:
    """The cassettes that a journal's run played or recorded: their paths within the library.

    Raises `UsageError` for a file that is not a journal.
    """
    try:
        library = msgspec.json.decode(_read_journal_file(path), type=_JournalDocument).library
    except msgspec.DecodeError:
        raise UsageError(
            f"{path_as_unicode_text(path)}: the journal contains no list of cassettes; use a "
            "journal written by this version of llm-proxy"
        ) from None
    return [*library.played, *library.recorded]


def _read_journal_file(path: Path) -> bytes:
    """The bytes of a journal file.  Raises `UsageError` where it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            return _check_journal_size(
                file.read(_MAX_JOURNAL_BYTES + 1), path_as_unicode_text(path)
            )
    except OSError as error:
        raise UsageError(
            f"cannot read {path_as_unicode_text(path)}: {error.strerror}; pass a file that "
            f"--journal wrote, or the URL of a running proxy, such as http://127.0.0.1:{DEFAULT_PORT}"
        ) from None


def _fetch_page(url: str, advice: str, posted: bytes | None = None) -> bytes:
    """The body at a URL, without proxies and redirects; raises `UsageError` for any failure.

    `advice` is what to do if there is no server.  With `posted`, the request is a POST of it.
    """
    from http.client import HTTPException  # noqa: PLC0415 # not where a file is read
    from urllib import request as urls  # noqa: PLC0415 # not where a file is read
    from urllib.error import HTTPError  # noqa: PLC0415 # not where a file is read

    class NoRedirectHandler(urls.HTTPRedirectHandler):
        """Follows no redirect."""

        def redirect_request(self, *_: object) -> None:
            """Return None, so that a redirect is an HTTP error."""

    opener = urls.build_opener(urls.ProxyHandler({}), NoRedirectHandler())
    try:
        with opener.open(url, posted, timeout=_TIMEOUT_S) as response:
            return _check_journal_size(response.read(_MAX_JOURNAL_BYTES + 1), displayable_url(url))
    except HTTPError as error:
        raise UsageError(f"{displayable_url(url)}: HTTP {error.code} {_NOT_A_PROXY}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        reason = str(getattr(reason, "strerror", None) or reason)
        raise UsageError(
            f"{displayable_url(url)}: no response ({printable_excerpt(reason, 200)}); {advice}"
        ) from None


def _check_journal_size(content: bytes, source_name: str) -> bytes:
    if len(content) > _MAX_JOURNAL_BYTES:
        raise UsageError(
            f"{source_name}: the journal is larger than the limit of "
            f"{_MAX_JOURNAL_BYTES // 1024**2} MiB"
        )
    return content
