"""Reads form fields of uploads (`multipart/form-data`).

Only short fields are read: the model name, not the uploaded file.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.exchange import Request, header_value

_BOUNDARY: Final = re.compile(
    r'multipart/form-data\s*;.*?\bboundary=(?:"([^"]+)"|([^\s;,"]+))', re.IGNORECASE
)
_FIELD_NAME: Final = re.compile(
    rb'^content-disposition:[^\r\n]*[;\s]name=(?:"([^"\r\n]*)"|([^\s;"]+))',
    re.IGNORECASE | re.MULTILINE,
)
_MAX_PART_BYTES: Final = 4096
"""Larger parts, headers included, are files and skipped."""


def form_field_value(request: Request, name: str) -> str:
    """The value of the first field of that name; empty if there is none, or no form."""
    boundary = _BOUNDARY.match((header_value(request.headers, "content-type") or "").strip())
    if boundary is None:
        return ""
    delimiter = b"--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    for part in request.body.split(delimiter):
        if len(part) > _MAX_PART_BYTES:
            continue
        head, blank, value = part.partition(b"\r\n\r\n")
        name_match = _FIELD_NAME.search(head)
        if blank and name_match and (name_match[1] or name_match[2] or b"") == name.encode():
            return value.removesuffix(b"\r\n").decode("utf-8", "replace")
    return ""
