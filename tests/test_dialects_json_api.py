from __future__ import annotations

import pytest

from case_tables import each_row
from llm_proxy.dialects import DialectResponse, json_api
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Failure, Json


def json_response(status: int, *pieces: bytes) -> DialectResponse:
    return DialectResponse(ResponseHead(status, "", (), "length"), "whole", pieces)


@each_row(
    ("status", "succeeded"), [(199, False), (200, True), (299, True), (300, False), (404, False)]
)
def test_the_statuses_of_success_are_the_two_hundreds(status: int, succeeded: bool) -> None:
    assert json_api.succeeded(json_response(status).head) is succeeded


def test_a_document_in_pieces_is_one_document() -> None:
    completeness = json_api.completeness(json_response(200, b'{"a":"', b'b"}'))
    assert (completeness.is_complete, completeness.reason) == (True, "JSON body")


@each_row(
    ("response", "is_complete", "reason"),
    [
        (json_response(200, b"<html>"), False, "body is not JSON"),
        (json_response(200, b" \n"), False, "empty body"),
        (json_response(200), False, "empty body"),
        (json_response(503, b"<html>"), True, "HTTP 503"),
        (json_response(302), True, "HTTP 302"),
    ],
)
def test_completeness_depends_on_status_and_syntax(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = json_api.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_a_short_error_is_not_truncated() -> None:
    assert json_api.completed_by_error(Failure("x" * 60)).reason == "in-band error: " + "x" * 60


def test_a_long_error_is_truncated() -> None:
    reason = json_api.completed_by_error(Failure("no\n\n  " + "x" * 1000)).reason
    assert reason == "in-band error: no " + "x" * 56 + "…"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure("", type="t", code="c"), "in-band error: t"),
        (Failure("", code="c"), "in-band error: c"),
    ],
)
def test_an_error_without_a_message_goes_by_its_type_or_code(failure: Failure, reason: str) -> None:
    assert json_api.completed_by_error(failure).reason == reason


@each_row(
    ("error", "failure"),
    [
        ("no", Failure("no")),
        ({"message": "m", "type": "t", "code": 429}, Failure("m", "t", "429")),
        ({"message": None, "code": "c"}, Failure('{"message":null,"code":"c"}', "", "c")),
        ({"message": {"detail": [1]}}, Failure('{"detail":[1]}')),
        (["a"], Failure('["a"]')),
    ],
)
def test_an_error_is_decoded_in_each_of_its_shapes(error: Json, failure: Failure) -> None:
    assert json_api.decode_failure(error) == failure


@each_row(
    ("body", "failure"),
    [
        (b'{"error":true,"message":"m"}', Failure("m")),
        (b'{"error":"Not Found","path":"/"}', Failure("Not Found")),
        (b'{"error":"no","code":"bad_argument"}', Failure("no", code="bad_argument")),
        (b'{"error":"busy","error_type":"overloaded"}', Failure("busy", "overloaded")),
        (b'{"error":{"message":"m"},"code":"other"}', Failure("m")),
        (b'{"message":"Forbidden"}', Failure("Forbidden")),
        (b'{"error":{"message":"m"},"message":"other"}', Failure("m")),
        (b'{"hello":1}', Failure("HTTP 404")),
        (b"<html>", Failure("HTTP 404")),
    ],
)
def test_an_http_error_is_decoded_in_the_shapes_of_gateways(body: bytes, failure: Failure) -> None:
    assert json_api.decode_http_error(json_response(404, body)) == failure
