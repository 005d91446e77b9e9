"""OpenAI's SDK reads the responses of auxiliary endpoints: models, embeddings, moderations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

import openai
import pytest

from case_tables import each_row
from llm_proxy.dialects import DialectResponse, estimates_and_fakes
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request
from scripted_provider import provider_script
from stub_upstream import upstream

CONTEXT = EncodeContext("side", 1_700_000_000, models=("small", "org/large"))


def fail_unanswered(dialect: Dialect, request: Request, context: EncodeContext) -> DialectResponse:
    raise AssertionError(f"{request.request_target} was to be answered beside")


def answer_auxiliary(dialect: Dialect, request: Request, _: EncodeContext) -> DialectResponse:
    return dialect.auxiliary_response(request, replace(CONTEXT)) or fail_unanswered(
        dialect, request, CONTEXT
    )


async def test_the_sdk_lists_the_models_and_finds_one_of_them() -> None:
    async with upstream(provider_script(answer_auxiliary, answers_auxiliary=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        listed = [model.id async for model in client.models.list()]
        retrieved = await client.models.retrieve("org/large")
        with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
            await client.models.retrieve("other")
        await client.close()

    assert listed == ["small", "org/large"]
    assert retrieved.id == "org/large"


@each_row("encoding", [openai.omit, "float", "base64"])
async def test_the_sdk_reads_a_vector_for_each_text(
    encoding: Literal["float", "base64"] | openai.Omit,
) -> None:
    async with upstream(provider_script(answer_auxiliary, answers_auxiliary=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        embeddings = await client.embeddings.create(
            model="small", input=["one", "two", "one"], dimensions=8, encoding_format=encoding
        )
        await client.close()

    one, two, again = (item.embedding for item in embeddings.data)
    assert one == again != two
    if encoding != "base64":  # the SDK decodes base64 only if no encoding is requested
        assert one == pytest.approx(estimates_and_fakes.fake_embedding("one", 8), abs=1e-6)
        assert sum(value * value for value in one) == pytest.approx(1)
    assert embeddings.usage.prompt_tokens == 3


async def test_the_sdk_embeds_tokens_and_is_refused_without_a_text() -> None:
    async with upstream(provider_script(answer_auxiliary, answers_auxiliary=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        tokens = await client.embeddings.create(model="small", input=[[1, 2], [3]])
        with pytest.raises(openai.BadRequestError, match="no text to embed"):
            await client.embeddings.create(model="small", input=[])
        await client.close()

    assert [len(item.embedding) for item in tokens.data] == [1536, 1536]


async def test_the_sdk_receives_moderations_without_flags() -> None:
    async with upstream(provider_script(answer_auxiliary, answers_auxiliary=False)) as live:
        client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        single, batch = await asyncio.gather(
            client.moderations.create(input="one"), client.moderations.create(input=["a", "b"])
        )
        await client.close()

    assert [item.flagged for item in (*single.results, *batch.results)] == [False] * 3
    assert single.results[0].category_scores.hate == 0.0
