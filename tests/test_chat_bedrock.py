"""Bedrock as a provider of `llm_chat`: with an API key, with AWS credentials, or with neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from bedrock_requests import parse_header_fields
from case_tables import each_row
from chat_providers import Waits, request, response_events, text_of
from dialect_manners import ENCODE_CONTEXT
from llm_chat import ErrorEvent, HttpProvider, HttpSettings, ProviderEvent
from llm_proxy import providers
from llm_proxy.dialects import dialect_of_request
from llm_proxy.shell.upstream import live
from llm_proxy.shell.upstream.signing import AwsSigner
from llm_proxy.turns import Text, Turn
from scripted_provider import parse_request, write_response
from sigv4_upstream import ENVIRONMENT, require_signature
from stub_upstream import Connection, Script, upstream

ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0"


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AWS credentials and a region, and remove other variables that lead to them."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def bedrock(settings: HttpSettings) -> HttpProvider:
    return HttpProvider("bedrock", "bedrock", settings, sleep=Waits())


async def respond(connection: Connection) -> None:
    """Stream a text."""
    sent = parse_request(connection)
    dialect = dialect_of_request(sent)
    turns = [Turn((Text("Hello."),))]
    await write_response(connection, dialect.encode_response(sent, turns, ENCODE_CONTEXT))


def sent_headers(head: bytes) -> dict[str, str]:
    return {name.lower(): value for name, value in parse_header_fields(head)}


@each_row("model", ["us.anthropic.claude-x-20260101-v1:0", ARN])
async def test_a_request_is_signed_as_aws_verifies_it(model: str) -> None:
    async with upstream(require_signature(respond)) as server:
        provider = bedrock(HttpSettings(server.url, signs_requests=True))
        events = await response_events(provider, replace(request(), model=model))

    assert text_of(events) == "Hello."
    [(head, _)] = server.requests
    assert sent_headers(head)["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")


async def test_an_api_key_is_sent_instead_of_a_signature() -> None:
    async with upstream(respond) as server:
        settings = HttpSettings(server.url, "bedrock-api-key", signs_requests=True)
        events = await response_events(bedrock(settings))

    assert text_of(events) == "Hello."
    headers = sent_headers(server.requests[0][0])
    assert headers["authorization"] == "Bearer bedrock-api-key"
    assert "x-amz-date" not in headers


async def test_without_key_and_signing_a_request_has_no_credentials() -> None:
    """As in front of a proxy that replays, or that signs requests itself."""
    async with upstream(respond) as server:
        events = await response_events(bedrock(HttpSettings(server.url)))

    assert text_of(events) == "Hello."
    assert "authorization" not in sent_headers(server.requests[0][0])


@each_row("key, script", [("", require_signature(respond)), ("bedrock-api-key", respond)])
async def test_without_a_base_url_requests_go_to_the_region(
    monkeypatch: pytest.MonkeyPatch, key: str, script: Script
) -> None:
    lookups: set[tuple[str, str]] = set()
    async with upstream(script) as server:

        def signed_url(path: str, region: str) -> str:
            lookups.add((path, region))
            return server.url

        monkeypatch.setattr(providers, "signed_url", signed_url)
        events = await response_events(bedrock(HttpSettings("", key, signs_requests=True)))

    assert text_of(events) == "Hello."
    assert {region for _, region in lookups} == {"eu-west-1"}
    assert {path.rpartition("/")[2] for path, _ in lookups} == {"converse-stream"}


class HeldSigner(AwsSigner):
    """A signer whose credentials are looked up until `resume` is set."""

    resume = threading.Event()
    is_waiting = threading.Event()
    count = 0

    def __init__(self, base_url: str | None) -> None:
        type(self).count += 1
        self.is_waiting.set()
        self.resume.wait(10)
        super().__init__(base_url)


@pytest.fixture
def held_signer(monkeypatch: pytest.MonkeyPatch) -> type[HeldSigner]:
    class Signer(HeldSigner):
        resume = threading.Event()
        is_waiting = threading.Event()

    monkeypatch.setattr(live, "AwsSigner", Signer)
    return Signer


async def events_of(provider: HttpProvider) -> list[ProviderEvent]:
    """The events of a response; connections stay open."""
    return [event async for event in provider.chat_stream(request())]


async def test_first_requests_at_one_time_wait_for_one_lookup_of_credentials(
    held_signer: type[HeldSigner],
) -> None:
    async with upstream(require_signature(respond)) as server:
        provider = bedrock(HttpSettings(server.url, signs_requests=True))
        requests = [asyncio.create_task(events_of(provider)) for _ in range(3)]
        await asyncio.to_thread(held_signer.is_waiting.wait, 10)
        held_signer.resume.set()
        events = await asyncio.gather(*requests)
        await provider.aclose()

    assert [*map(text_of, events)] == ["Hello."] * 3
    assert held_signer.count == 1


async def test_a_request_that_is_cancelled_does_not_end_the_lookup_of_others(
    held_signer: type[HeldSigner],
) -> None:
    async with upstream(require_signature(respond)) as server:
        provider = bedrock(HttpSettings(server.url, signs_requests=True))
        first, second = (asyncio.create_task(events_of(provider)) for _ in range(2))
        await asyncio.to_thread(held_signer.is_waiting.wait, 10)
        first.cancel()
        await asyncio.wait([first])
        held_signer.resume.set()
        events = await second
        await provider.aclose()

    assert first.cancelled()
    assert text_of(events) == "Hello."
    assert held_signer.count == 1


async def test_a_provider_is_closed_while_credentials_are_looked_up(
    held_signer: type[HeldSigner],
) -> None:
    async with upstream(require_signature(respond)) as server:
        provider = bedrock(HttpSettings(server.url, signs_requests=True))
        first = asyncio.create_task(events_of(provider))
        await asyncio.to_thread(held_signer.is_waiting.wait, 10)
        first.cancel()
        closing = asyncio.create_task(provider.aclose())
        held_signer.resume.set()
        await asyncio.wait([first, closing])

    assert closing.exception() is None
    assert server.requests == []


MISSING: Final[dict[str, tuple[HttpSettings, Callable[[pytest.MonkeyPatch], None], str]]] = {
    "credentials": (
        HttpSettings("http://127.0.0.1:9", signs_requests=True),
        lambda patch: patch.delenv("AWS_ACCESS_KEY_ID"),
        "no AWS credentials; set AWS_ACCESS_KEY_ID and ",
    ),
    "a region": (
        HttpSettings("", signs_requests=True),
        lambda patch: patch.delenv("AWS_REGION"),
        "no AWS region; set AWS_REGION",
    ),
    "a region, with a key": (
        HttpSettings("", "bedrock-api-key", signs_requests=True),
        lambda patch: patch.delenv("AWS_REGION"),
        "no AWS region; set AWS_REGION",
    ),
    "a valid region, with a key": (
        HttpSettings("", "bedrock-api-key", signs_requests=True),
        lambda patch: patch.setenv("AWS_REGION", "eu west"),
        "'eu west' is not a valid AWS region; correct AWS_REGION",
    ),
}


@pytest.mark.parametrize("missing", MISSING)
async def test_what_is_missing_is_an_error_that_is_not_retried(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    settings, remove, problem = MISSING[missing]
    remove(monkeypatch)

    [event] = await response_events(bedrock(replace(settings, max_retries=2)))

    assert isinstance(event, ErrorEvent)
    assert event.code == "NOT_CONFIGURED"
    assert event.message.startswith(problem)


async def test_credentials_that_are_set_later_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with upstream(require_signature(respond)) as server:
        provider = bedrock(HttpSettings(server.url, signs_requests=True))
        with monkeypatch.context() as patch:
            patch.delenv("AWS_ACCESS_KEY_ID")
            [error] = await events_of(provider)
        events = await response_events(provider)

    assert isinstance(error, ErrorEvent)
    assert text_of(events) == "Hello."


def test_a_base_url_may_be_empty_only_for_aws() -> None:
    with pytest.raises(ValueError, match="base_url: "):
        HttpSettings("")
