"""Exports a request as a curl command that takes the API key from an environment variable."""

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
from llm_proxy.reissue import drop_redacted_parameters

_MAX_ARGUMENT_BYTES: Final = 100_000
"""Limit of a body that is passed as an argument; Linux allows somewhat more."""
_UNPRINTABLE_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that an argument cannot hold or a terminal does not show."""
_BASE64_COLUMNS: Final = 76


def _serialize_curl(exchanges: Sequence[ExportedExchange]) -> bytes:
    [exported_exchange] = exchanges
    request = exported_exchange.cassette.request
    arguments = ["curl", "-sS", "-N", "-g"]  # -g: brackets in a URL are no pattern
    arguments += ["--head"] if request.method == "HEAD" else ["-X", shlex.quote(request.method)]
    lines = [" ".join([*arguments, shlex.quote(_url_without_credentials(exported_exchange))])]
    lines += [
        f"-H {header_argument}" for header_argument in _header_arguments(exported_exchange.cassette)
    ]
    if not request.body:
        return _join_lines(lines)
    if (text := _body_argument(request.body)) is not None:
        return _join_lines([*lines, f"--data-raw {shlex.quote(text)}"])
    # A plain here-document would add a line end to the body.
    encoded = "\n".join(wrap(base64.b64encode(request.body).decode(), _BASE64_COLUMNS))
    command = _join_lines([*lines, "--data-binary @-"]).decode()
    return f"base64 -d <<'BODY' | {command}{encoded}\nBODY\n".encode()


def _join_lines(lines: Sequence[str]) -> bytes:
    return (" \\\n  ".join(lines) + "\n").encode()


def _url_without_credentials(exported_exchange: ExportedExchange) -> str:
    """The URL without redacted query parameters: the key is sent in a header."""
    target, separator, query = exported_exchange.url.partition("?")
    remaining_query = drop_redacted_parameters(query)[0]
    return target + separator * bool(remaining_query) + remaining_query


def _header_arguments(cassette: Cassette) -> Iterator[str]:
    for name, value in cassette.request.headers:
        yield shlex.quote(f"{name}: {value}")
    if cassette.request.body and header_value(cassette.request.headers, "content-type") is None:
        yield "'content-type:'"  # curl would add that of a form
    if names := providers.key_env_vars(cassette.meta.provider):
        name, value = providers.credential_header(cassette.meta.provider, f"${names[0]}")
        yield f'"{name}: {value}"'


def _body_argument(body: bytes) -> str | None:
    """A body as one command argument; None where it is binary or too long."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if len(body) > _MAX_ARGUMENT_BYTES or _UNPRINTABLE_CHARS.search(text) else text


CURL: Final = ExportFormat("curl", _serialize_curl, needs_real_url=True)
