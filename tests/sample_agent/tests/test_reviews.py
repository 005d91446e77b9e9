"""Requests that are sent at the same time."""

from __future__ import annotations

from assistant.reviews import summarise_all
from llm_proxy import ProxySession

REVIEWS = (
    "The rooms are clean, and breakfast is served until eleven.",
    "We waited an hour for the key, and the lift was broken.",
)


async def test_each_review_has_a_summary(llm_proxy: ProxySession) -> None:
    summaries = await summarise_all(REVIEWS)

    assert len(summaries) == len(REVIEWS)
    for review, summary in zip(REVIEWS, summaries, strict=True):
        llm_proxy.assert_called_with(user=review, text=summary)


async def test_without_reviews_no_request_is_sent(llm_proxy: ProxySession) -> None:
    assert await summarise_all(()) == []

    assert llm_proxy.calls == ()
