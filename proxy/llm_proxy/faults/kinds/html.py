"""`html`: a gateway's HTML page replaces the response.

HTTP/1.1 502 Bad Gateway  content-type: text/html  <html>…
├─────────────────────────────────────────────────────────┤
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.actions import Begin, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, Mechanism, ReplaceResponse

_REASON_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_STATUS_CODES: Final = frozenset(range(200, 600)) - {204, 205, 304}
"""The status codes of responses that may have a body."""
_PAGE_TEMPLATE: Final = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


def _html(code: int) -> Mechanism:
    reason = _REASON_PHRASES.get(code, "")
    body = _PAGE_TEMPLATE.format(f"{code} {reason}".strip()).encode()
    head = ResponseHead(code, reason, (("Content-Type", "text/html"),), "length", len(body))
    return ReplaceResponse(lambda _: (Begin(head), Send(body)))


def _parse_status(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) not in _STATUS_CODES:
        raise ValueError("an HTTP status from 200 to 599, except 204, 205 and 304")
    return int(text)


KIND = FaultKind(
    "html",
    FaultEffect.REFUSED,
    "an HTML page instead of the response",
    _html,
    {"code": FaultArgument(_parse_status, "HTTP status, such as 200 for a login page", "502")},
    example="html",
)
