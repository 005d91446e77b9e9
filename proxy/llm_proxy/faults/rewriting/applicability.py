"""Whether a fault has a meaning in an answer, as its head tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.exchange import Framing, Head
from llm_proxy.faults import message_contents
from llm_proxy.faults.kind import Bend, CannotInject, Kind, Strike

_DELIMITED: Final[Mapping[Framing, str]] = {
    "chunked": "a body that comes in chunks",
    "close": "a body that ends with the connection",
    "length": "a body of a declared length",
    "none": "an answer without a body",
}


def codec(asked: Asked, head: Head) -> str:
    """The framing of the body's messages; `whole` where a content coding hides them."""
    return "whole" if message_contents.packed(head) else asked.dialect.codec(asked.request, head)


def check(kind: Kind, work: Strike | Bend, head: Head, framing: str) -> None:
    """Raises `CannotInject` where a fault has no meaning in a body of this framing."""
    works_on_messages = "whole" not in kind.bodies or (isinstance(work, Strike) and work.takes)
    if works_on_messages and (coding := message_contents.packed(head)):
        raise CannotInject(f"the body is packed with {coding}")
    what = ""
    if head.framing not in kind.delimited:
        what = _DELIMITED[head.framing]
    elif framing not in kind.bodies:
        what = "a whole body" if framing == "whole" else f"a body of {framing}"
    if what:
        raise CannotInject(f"{kind.name} has no meaning in {what}")
