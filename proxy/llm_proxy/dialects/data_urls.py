"""Media URLs, including inline data: `data:image/png;base64,...`."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.turns import Media

_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)


def decode_media_url(url: str, kind: str) -> Media:
    """What lies at this address; `kind` is its type where the address does not tell."""
    inline = _DATA_URL.fullmatch(url)
    return Media(inline[1] or kind, base64=inline[2]) if inline else Media(kind, url=url)
