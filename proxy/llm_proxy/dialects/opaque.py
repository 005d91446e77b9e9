"""The fallback dialect for HTTP that no other dialect matches; it decodes nothing."""

from __future__ import annotations

import orjson

from llm_proxy import framing
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse, RecordOnlyDialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.turns import Failure


class Opaque(RecordOnlyDialect):
    """The fallback dialect `opaque`."""

    name = "opaque"

    def matches(self, request: Request) -> bool:
        """True for any request."""
        return True

    def model(self, request: Request) -> str:
        """Empty: the model is unknown."""
        return ""

    def streams(self, request: Request) -> bool:
        """False: nothing is known of the request."""
        return False

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """By content type alone."""
        return framing.codec_name_for_content_type(header_value(head.headers, "content-type"))

    def completeness(self, response: DialectResponse) -> Completeness:
        """By HTTP framing, which proves nothing for a body delimited by close."""
        return json_api.completeness_by_framing(response)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A format that the clients of several providers print in full."""
        error = {"type": kind, "message": message, "code": status, "param": None}
        return orjson.dumps({"type": "error", "error": error})

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """In the format of our own errors."""
        headers = response_encoding.retry_headers(retry_after)
        body = self.error_body(status, failure.type or failure.code, failure.message)
        return response_encoding.json_response(body, headers, status)
