"""Exports a request as a curl command that takes the API key from an environment variable."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from llm_proxy import providers
from llm_proxy.exchange import header_value
from llm_proxy.exporting.format import ExportedExchange, ExportFormat
from llm_proxy.reissue import drop_redacted_parameters

_MAX_ARGUMENT_BYTES: Final = 100_000
"""Limit of a body that is passed as an argument; Linux allows somewhat more."""
_UNPRINTABLE_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that an argument cannot hold or a terminal does not show."""
_BASE64_COLUMNS: Final = 76


def _serialize_curl(exchanges: Sequence[ExportedExchange]) -> bytes:
    [exchange] = exchanges
    request, provider = exchange.cassette.request, exchange.cassette.meta.provider
    # The URL without redacted parameters: the key is sent in a header.
    target, separator, query = exchange.url.partition("?")
    kept_query = drop_redacted_parameters(query)[0]
    url = target + separator * bool(kept_query) + kept_query
    method = "--head" if request.method == "HEAD" else f"-X {shlex.quote(request.method)}"
    lines = [f"curl -sS -N -g {method} {shlex.quote(url)}"]  # -g: brackets in a URL are no pattern
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers]
    if request.body and header_value(request.headers, "content-type") is None:
        lines.append("-H 'content-type:'")  # curl would add that of a form
    if names := providers.key_env_vars(provider):
        name, value = providers.credential_header(provider, f"${names[0]}")
        lines.append(f'-H "{name}: {value}"')
    here_document = ""
    if (text := _body_argument(request.body)) is None:
        # A plain here-document would add a line end to the body.
        encoded = "\n".join(wrap(base64.b64encode(request.body).decode(), _BASE64_COLUMNS))
        lines = [f"base64 -d <<'BODY' | {lines[0]}", *lines[1:], "--data-binary @-"]
        here_document = f"{encoded}\nBODY\n"
    elif text:
        lines.append(f"--data-raw {shlex.quote(text)}")
    return (" \\\n  ".join(lines) + "\n" + here_document).encode()


def _body_argument(body: bytes) -> str | None:
    """A body as one command argument; None where it is binary or too long."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if len(body) > _MAX_ARGUMENT_BYTES or _UNPRINTABLE_CHARS.search(text) else text


CURL: Final = ExportFormat("curl", _serialize_curl, needs_real_url=True)
