"""Media URLs, including inline data: `data:image/png;base64,...`."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.turns import Media

_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)


def decode_media_url(url: str, default_media_type: str) -> Media:
    """The media at this URL, inline for a data URL with base64."""
    data_url = _DATA_URL.fullmatch(url)
    return (
        Media(data_url[1] or default_media_type, base64=data_url[2])
        if data_url
        else Media(default_media_type, url=url)
    )
