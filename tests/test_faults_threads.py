"""Slow work runs in another thread: no stream waits for the faults of another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from fault_injection import encoded_response, response_burst, routed_request, turn_request
from llm_proxy.actions import Burst, Send
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rewriting import RewriterChain, rewrite_response
from llm_proxy.journal_document import JournalEntry
from llm_proxy.shell.server import fault_middleware
from llm_proxy.shell.server.fault_middleware import FaultMiddleware, SentResponse


@pytest.mark.parametrize(("copies", "in_other_thread"), [(1, False), (1000, True)])
async def test_a_large_response_is_rewritten_in_another_thread(
    copies: int, *, in_other_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def record_thread(burst: Burst, chain: RewriterChain) -> Burst:
        threads.append(threading.current_thread())
        return rewrite_response(burst, chain)

    monkeypatch.setattr(fault_middleware, "rewrite_response", record_thread)
    request = turn_request()
    call, response = routed_request(request), encoded_response(request)
    first, *_, last = response.framed_messages
    burst = response_burst(response, [first] * copies + [last])
    faults = FaultMiddleware(FaultEngine([parse_rule("drop,at=done")]))
    injection = await faults.faults_for(call)
    assert injection is not None
    actions = await faults.inject_faults(burst, injection, SentResponse(call))
    assert isinstance(actions, tuple)
    assert sum(isinstance(item, Send) for item in actions) == copies
    assert [thread is not threading.main_thread() for thread in threads] == [in_other_thread]


@pytest.mark.parametrize(("padding_bytes", "in_other_thread"), [(1, False), (20_000, True)])
async def test_a_large_request_is_decoded_in_another_thread(
    padding_bytes: int, *, in_other_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = turn_request()
    call = routed_request(request)
    sent_response = SentResponse(call)
    sent_response.add_burst(response_burst(encoded_response(request)))
    faults = FaultMiddleware(FaultEngine())
    records = (FaultRecord("truncate", "truncate", FaultEffect.TRUNCATED),)
    faults.update_spoiled_responses(
        JournalEntry(1, "default", "POST", "/", faults=records), call, sent_response
    )
    threads: list[threading.Thread] = []
    decode_request = type(call.dialect).decode_request

    def record_thread(dialect: Any, decompressed: Any) -> Any:
        threads.append(threading.current_thread())
        return decode_request(dialect, decompressed)

    monkeypatch.setattr(type(call.dialect), "decode_request", record_thread)
    longer_request = replace(request, body=request.body + b" " * padding_bytes)
    assert await faults.continued_request_number(routed_request(longer_request)) is None
    assert [thread is not threading.main_thread() for thread in threads] == [in_other_thread]
