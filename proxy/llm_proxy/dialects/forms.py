"""Reads form fields of uploads (`multipart/form-data`).

Only short fields are read: the name of a model, not the recording beside it.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.exchange import Request, header_value

_BOUNDARY: Final = re.compile(
    r'multipart/form-data\s*;.*?\bboundary=(?:"([^"]+)"|([^\s;,"]+))', re.IGNORECASE
)
_NAME: Final = re.compile(
    rb'^content-disposition:[^\r\n]*[;\s]name=(?:"([^"\r\n]*)"|([^\s;"]+))',
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST: Final = 4096
"""Bytes of a part that is read, its headers included; files are longer, and skipped."""


def form_field(request: Request, name: str) -> str:
    """The first field of that name in the form; empty where there is none, or no form."""
    boundary = _BOUNDARY.match((header_value(request.headers, "content-type") or "").strip())
    if boundary is None:
        return ""
    delimiter = b"--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    for part in request.body.split(delimiter):
        if len(part) > _LONGEST:
            continue
        head, blank, value = part.partition(b"\r\n\r\n")
        found = _NAME.search(head)
        if blank and found and (found[1] or found[2] or b"") == name.encode():
            return value.removesuffix(b"\r\n").decode("utf-8", "replace")
    return ""
