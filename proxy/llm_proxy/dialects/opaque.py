"""HTTP that no dialect knows.  Nothing is understood, so nothing is claimed."""

from __future__ import annotations

import orjson

from llm_proxy import framing
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.exchange import Head, Request, header
from llm_proxy.turns import Turn


class Opaque:
    """The dialect of last resort."""

    name = "opaque"

    def claims(self, request: Request) -> bool:
        """Any request at all."""
        return True

    def model(self, request: Request) -> str:
        """None is known."""
        return ""

    def streams(self, request: Request) -> bool:
        """Nothing is known of the request."""
        return False

    def codec(self, request: Request, head: Head) -> str:
        """By content type alone."""
        return framing.by_content_type(header(head.headers, "content-type"))

    def judge(self, response: Response) -> Judgement:
        """Whole as far as HTTP can say, which for a body delimited by close is nothing."""
        if response.head.framing == "close":
            return Judgement(whole=True, reason="delimited by close", proven=False)
        return Judgement(whole=True, reason="HTTP framing ended")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """None that we can read."""
        return ()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """A shape that the clients of several providers print in full."""
        error = {"type": kind, "message": message, "code": status, "param": None}
        return orjson.dumps({"type": "error", "error": error})
