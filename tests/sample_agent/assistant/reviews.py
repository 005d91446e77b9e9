"""Summaries of many reviews, which are written at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from openai import AsyncOpenAI

from assistant.messages import MODEL


async def summarise_all(reviews: Sequence[str]) -> list[str]:
    """One sentence for each review, in their order."""
    async with AsyncOpenAI() as client:
        return await asyncio.gather(*(_summarise(client, review) for review in reviews))


async def _summarise(client: AsyncOpenAI, review: str) -> str:
    completion = await client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": "Summarise the review in one short sentence."},
            {"role": "user", "content": review},
        ],
        temperature=0,
        max_tokens=40,
    )
    return completion.choices[0].message.content or ""
