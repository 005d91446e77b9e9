"""Slow work runs in another thread: no stream waits for the faults of another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from fault_injection import encoded_response, response_burst, routed_request, turn_request
from llm_proxy.actions import ActionSource, Burst, Send
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rewriting import RewriterChain
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.server.fault_middleware import FaultedResponse, FaultMiddleware


async def faulted_actions(
    faults: FaultMiddleware, call: RoutedRequest, burst: Burst
) -> ActionSource:
    """The actions of this response to a request, with faults injected."""

    async def respond() -> ModeResponse:
        return ModeResponse(burst, "a test")

    response = FaultedResponse(faults, call, JournalEntry(1, "default", "POST", "/"), str)
    actions = await response.respond(respond)
    response.finish()
    return actions


@pytest.mark.parametrize(("copies", "in_other_thread"), [(1, False), (1000, True)])
async def test_a_large_response_is_rewritten_in_another_thread(
    copies: int, *, in_other_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    rewrite_response = RewriterChain.rewrite_response

    def record_thread(chain: RewriterChain, burst: Burst) -> Burst:
        threads.append(threading.current_thread())
        return rewrite_response(chain, burst)

    monkeypatch.setattr(RewriterChain, "rewrite_response", record_thread)
    request = turn_request()
    call, response = routed_request(request), encoded_response(request)
    first, *_, last = response.framed_messages
    burst = response_burst(response, [first] * copies + [last])
    faults = FaultMiddleware(FaultEngine([parse_rule("drop,at=done")]))
    actions = await faulted_actions(faults, call, burst)
    assert isinstance(actions, tuple)
    assert sum(isinstance(item, Send) for item in actions) == copies
    assert [thread is not threading.main_thread() for thread in threads] == [in_other_thread]


@pytest.mark.parametrize(("padding_bytes", "in_other_thread"), [(1, False), (20_000, True)])
async def test_a_large_request_is_decoded_in_another_thread(
    padding_bytes: int, *, in_other_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = turn_request()
    call = routed_request(request)
    faults = FaultMiddleware(FaultEngine([parse_rule("truncate,at=done")]))
    await faulted_actions(faults, call, response_burst(encoded_response(request)))
    threads: list[threading.Thread] = []
    decode_request = type(call.dialect).decode_request

    def record_thread(dialect: Any, decompressed: Any) -> Any:
        threads.append(threading.current_thread())
        return decode_request(dialect, decompressed)

    monkeypatch.setattr(type(call.dialect), "decode_request", record_thread)
    longer_request = replace(request, body=request.body + b" " * padding_bytes)
    assert await faults.continued_request_number(routed_request(longer_request)) is None
    assert [thread is not threading.main_thread() for thread in threads] == [in_other_thread]
