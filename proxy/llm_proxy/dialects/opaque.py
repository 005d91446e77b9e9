"""HTTP that no dialect knows.  Nothing is understood, so nothing is claimed."""

from __future__ import annotations

from math import ceil

import orjson

from llm_proxy import framing
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.record_only import Unspoken
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.turns import Failure, Turn


class Opaque(Unspoken):
    """The dialect of last resort."""

    name = "opaque"
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

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
        return json_api.by_framing(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """None that we can read."""
        return ()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """A shape that the clients of several providers print in full."""
        error = {"type": kind, "message": message, "code": status, "param": None}
        return orjson.dumps({"type": "error", "error": error})

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In the shape of our own errors."""
        headers = () if retry_after is None else (("retry-after", str(ceil(retry_after))),)
        body = self.error(status, failure.type or failure.code, failure.message)
        return response_encoding.document(body, headers, status)

    def countdown(self, delivery: Delivery) -> Headers:
        """None: nobody knows how they are told."""
        return ()

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """None: nobody knows what is asked."""
        return None
