"""`html`: an HTML page of a gateway in place of the response.

    HTTP/1.1 502 Bad Gateway  content-type: text/html  <html>…
    ├─────────────────────────────────────────────────────────┤

What a load balancer sends when it does not reach the provider: neither JSON nor events.  With
`code=200` it is an unexpected page, such as a login form.  The real response is never fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, Mechanism, ReplaceResponse
from llm_proxy.faults.location import StreamLocation

_REASON_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_STATUS_CODES: Final = frozenset(range(200, 600)) - {204, 205, 304}
"""The status codes of responses that may have a body."""
_PAGE_TEMPLATE: Final = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class Html:
    """Sends an HTML page with this status."""

    code: int = 502

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces the response."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, _context: FaultContext) -> Burst:
        reason = _REASON_PHRASES.get(self.code, "")
        body = _PAGE_TEMPLATE.format(f"{self.code} {reason}".strip()).encode()
        head = ResponseHead(
            self.code, reason, (("Content-Type", "text/html"),), "length", len(body)
        )
        return (Begin(head), Send(body))


def parse_page_status(text: str) -> int:
    """Parses a status code that allows a body.  Raises `ValueError`."""
    if not text.isascii() or not text.isdecimal() or int(text) not in _STATUS_CODES:
        raise ValueError("the status of a page, from 200 to 599 and not 204, 205 or 304")
    return int(text)


KIND = FaultKind(
    "html", FaultEffect.REFUSED, "a gateway's page in place of the answer", Html,
    {"code": FaultArgument(parse_page_status, "the status, 200 too", "502")},
    example="html",
)  # fmt: skip
