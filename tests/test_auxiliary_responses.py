"""What clients of OpenAI ask beside turns is answered as they read it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

import openai
import pytest

from llm_proxy.dialects import DialectResponse, fakes
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request
from scripted_provider import provider
from stub_upstream import upstream

DELIVERY = EncodeContext("side", 1_700_000_000, models=("small", "org/large"))


def nothing(dialect: Dialect, request: Request, delivery: EncodeContext) -> DialectResponse:
    raise AssertionError(f"{request.request_target} was to be answered beside")


def answering(dialect: Dialect, request: Request, _: EncodeContext) -> DialectResponse:
    return dialect.auxiliary_response(request, replace(DELIVERY)) or nothing(
        dialect, request, DELIVERY
    )


async def test_the_sdk_lists_the_models_and_finds_one_of_them() -> None:
    async with upstream(provider(answering, side=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("org/large")
        with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
            await client.models.retrieve("other")
        await client.close()

    assert listed == ["small", "org/large"]
    assert one.id == "org/large"


@pytest.mark.parametrize("encoding", [openai.omit, "float", "base64"])
async def test_the_sdk_reads_a_vector_for_each_text(
    encoding: Literal["float", "base64"] | openai.Omit,
) -> None:
    async with upstream(provider(answering, side=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        got = await client.embeddings.create(
            model="small", input=["one", "two", "one"], dimensions=8, encoding_format=encoding
        )
        await client.close()

    one, two, again = (item.embedding for item in got.data)
    assert one == again != two
    if encoding != "base64":  # what is asked for by name is not unpacked
        assert one == pytest.approx(fakes.fake_embedding("one", 8), abs=1e-6)
        assert sum(value * value for value in one) == pytest.approx(1)
    assert got.usage.prompt_tokens == 3


async def test_the_sdk_embeds_tokens_and_is_refused_without_a_text() -> None:
    async with upstream(provider(answering, side=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        tokens = await client.embeddings.create(model="small", input=[[1, 2], [3]])
        with pytest.raises(openai.BadRequestError, match="no text to embed"):
            await client.embeddings.create(model="small", input=[])
        await client.close()

    assert [len(item.embedding) for item in tokens.data] == [1536, 1536]


async def test_the_sdk_is_told_that_nothing_is_flagged() -> None:
    async with upstream(provider(answering, side=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        one, two = await asyncio.gather(
            client.moderations.create(input="one"), client.moderations.create(input=["a", "b"])
        )
        await client.close()

    assert [item.flagged for item in (*one.results, *two.results)] == [False] * 3
    assert one.results[0].category_scores.hate == 0.0
