"""`html`: a gateway's page in place of the answer.

    HTTP/1.1 502 Bad Gateway  content-type: text/html  <html>…
    ├─────────────────────────────────────────────────────────┤

What a load balancer writes when it does not reach the provider: no JSON, and no event.  With
`code=200` it is a page where nobody expects one, such as that of a login.  Nobody is asked for the
real answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, ReplaceResponse, Work
from llm_proxy.faults.location import Place

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_CODES: Final = frozenset(range(200, 600)) - {204, 205, 304}
"""Of answers that may have a body."""
_PAGE: Final = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class Html:
    """A page with this status."""

    code: int = 502

    def mechanism(self, _place: Place | None, /) -> Work:
        """The page."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, _context: FaultContext) -> Burst:
        reason = _PHRASES.get(self.code, "")
        body = _PAGE.format(f"{self.code} {reason}".strip()).encode()
        head = ResponseHead(
            self.code, reason, (("Content-Type", "text/html"),), "length", len(body)
        )
        return (Begin(head), Send(body))


def parse_code(text: str) -> int:
    """The status of a page."""
    if not text.isascii() or not text.isdecimal() or int(text) not in _CODES:
        raise ValueError("the status of a page, from 200 to 599 and not 204, 205 or 304")
    return int(text)


KIND = FaultKind(
    "html", FaultEffect.REFUSED, "a gateway's page in place of the answer", Html,
    {"code": FaultArgument(parse_code, "the status, 200 too", "502")},
    example="html",
)  # fmt: skip
