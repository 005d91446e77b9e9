"""`html`: an HTML page of a gateway in place of the response.

    HTTP/1.1 502 Bad Gateway  content-type: text/html  <html>…
    ├─────────────────────────────────────────────────────────┤

What a load balancer sends when it does not reach the provider: neither JSON nor events.  With
`code=200` it is an unexpected page, such as a login form.  The real response is never fetched.
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
        raise ValueError("the status of a page, from 200 to 599 and not 204, 205 or 304")
    return int(text)


KIND = FaultKind(
    "html",
    FaultEffect.REFUSED,
    "a gateway's page in place of the answer",
    _html,
    {"code": FaultArgument(_parse_status, "the status, 200 too", "502")},
    example="html",
)
