"""Exports a request as a curl command; the key stays in the environment."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from llm_proxy import providers
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import header_value
from llm_proxy.exporting.format import ExportedExchange, ExportFormat
from llm_proxy.reissue import query_without_placeholders

_LARGEST: Final = 100_000
"""Bytes of a body that can be an argument: Linux allows some more."""
_UNFIT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that no argument has, or no terminal shows."""
_COLUMNS: Final = 76


def _write_curl(exchanges: Sequence[ExportedExchange]) -> bytes:
    [exported_exchange] = exchanges
    request = exported_exchange.cassette.request
    words = ["curl", "-sS", "-N", "-g"]  # -g: brackets in a URL are no pattern
    words += ["--head"] if request.method == "HEAD" else ["-X", shlex.quote(request.method)]
    lines = [" ".join([*words, shlex.quote(_exchange_url(exported_exchange))])]
    lines += [
        f"-H {header_argument}" for header_argument in _header_arguments(exported_exchange.cassette)
    ]
    if not request.body:
        return _join_arguments(lines)
    if (text := _body_argument(request.body)) is not None:
        return _join_arguments([*lines, f"--data-raw {shlex.quote(text)}"])
    # A here-document would end with a line end that the body has not.
    encoded = "\n".join(wrap(base64.b64encode(request.body).decode(), _COLUMNS))
    command = _join_arguments([*lines, "--data-binary @-"]).decode()
    return f"base64 -d <<'BODY' | {command}{encoded}\nBODY\n".encode()


def _join_arguments(lines: Sequence[str]) -> bytes:
    return (" \\\n  ".join(lines) + "\n").encode()


def _exchange_url(exported_exchange: ExportedExchange) -> str:
    """The URL without what was replaced in its query: the key goes along in a header."""
    target, mark, query = exported_exchange.url.partition("?")
    left = query_without_placeholders(query)[0]
    return target + mark * bool(left) + left


def _header_arguments(cassette: Cassette) -> Iterator[str]:
    for name, value in cassette.request.headers:
        yield shlex.quote(f"{name}: {value}")
    if cassette.request.body and header_value(cassette.request.headers, "content-type") is None:
        yield "'content-type:'"  # curl would say that it is a form
    if names := providers.key_variables(cassette.meta.provider):
        name, value = providers.credential_header(cassette.meta.provider, f"${names[0]}")
        yield f'"{name}: {value}"'


def _body_argument(body: bytes) -> str | None:
    """A body as one argument of a command; None where it cannot be one."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if len(body) > _LARGEST or _UNFIT.search(text) else text


CURL: Final = ExportFormat("curl", _write_curl, needs_url=True)
