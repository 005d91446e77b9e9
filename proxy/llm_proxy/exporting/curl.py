"""A command for sh that asks a request again, with curl; the key stays in the environment."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from llm_proxy import providers
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import header
from llm_proxy.exporting.format import Exported, Format
from llm_proxy.reissue import open_query

_LARGEST: Final = 100_000
"""Bytes of a body that can be an argument: Linux allows some more."""
_UNFIT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that no argument has, or no terminal shows."""
_COLUMNS: Final = 76


def _write(exchanges: Sequence[Exported]) -> bytes:
    [it] = exchanges
    request = it.cassette.request
    words = ["curl", "-sS", "-N", "-g"]  # -g: brackets in a URL are no pattern
    words += ["--head"] if request.method == "HEAD" else ["-X", shlex.quote(request.method)]
    lines = [" ".join([*words, shlex.quote(_url(it))])]
    lines += [f"-H {each}" for each in _headers(it.cassette)]
    if not request.body:
        return _joined(lines)
    if (text := _argument(request.body)) is not None:
        return _joined([*lines, f"--data-raw {shlex.quote(text)}"])
    # A here-document would end with a line end that the body has not.
    encoded = "\n".join(wrap(base64.b64encode(request.body).decode(), _COLUMNS))
    command = _joined([*lines, "--data-binary @-"]).decode()
    return f"base64 -d <<'BODY' | {command}{encoded}\nBODY\n".encode()


def _joined(lines: Sequence[str]) -> bytes:
    return (" \\\n  ".join(lines) + "\n").encode()


def _url(it: Exported) -> str:
    """The URL without what was replaced in its query: the key goes along in a header."""
    target, mark, query = it.url.partition("?")
    left = open_query(query)[0]
    return target + mark * bool(left) + left


def _headers(it: Cassette) -> Iterator[str]:
    """Each quoted for sh."""
    for name, value in it.request.headers:
        yield shlex.quote(f"{name}: {value}")
    if it.request.body and header(it.request.headers, "content-type") is None:
        yield "'content-type:'"  # curl would say that it is a form
    if names := providers.key_names(it.meta.provider):
        name, value = providers.credential(it.meta.provider, f"${names[0]}")
        yield f'"{name}: {value}"'


def _argument(body: bytes) -> str | None:
    """A body as one argument of a command; None where it cannot be one."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if len(body) > _LARGEST or _UNFIT.search(text) else text


CURL: Final = Format("curl", _write, needs_address=True)
