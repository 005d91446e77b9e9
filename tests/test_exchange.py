from __future__ import annotations

from case_tables import each_row
from llm_proxy.exchange import Headers, Outcome, Request, header_value


@each_row(
    ("name", "value"),
    [("x-a", "1"), ("X-A", "1"), ("x-b", ""), ("x-c", None)],
    ids=["first of two", "in another case", "empty", "absent"],
)
def test_a_header_is_found_whatever_its_case(name: str, value: str | None) -> None:
    headers: Headers = (("X-a", "1"), ("x-A", "2"), ("X-B", ""))
    assert header_value(headers, name) == value


@each_row(("query", "target"), [("", "/v1/models"), ("key=a&b", "/v1/models?key=a&b")])
def test_the_request_target_is_that_of_the_request_line(query: str, target: str) -> None:
    assert Request("GET", "/v1/models", query, (), b"").request_target == target


@each_row(
    ("outcome", "text"),
    [
        (Outcome(is_complete=True, is_proven=True, reason="[DONE]"), "complete"),
        (
            Outcome(is_complete=True, is_proven=False, reason="delimited by close"),
            "complete, unproven: delimited by close",
        ),
        (
            Outcome(is_complete=False, is_proven=True, reason="the client disconnected"),
            "partial: the client disconnected",
        ),
    ],
    ids=["complete", "unproven", "partial"],
)
def test_an_outcome_has_a_short_text(outcome: Outcome, text: str) -> None:
    assert str(outcome) == text
