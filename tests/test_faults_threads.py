"""What takes a while is done in another thread: no stream waits for the faults of another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from fault_injection import answer_of, asked, burst_of, call_of
from llm_proxy.actions import Burst, Send
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rewriting import RewriterChain, rewrite_response
from llm_proxy.shell.server import fault_middleware
from llm_proxy.shell.server.fault_middleware import FaultMiddleware, SentResponse
from llm_proxy.shell.server.journal import JournalEntry


@pytest.mark.parametrize(("copies", "is_aside"), [(1, False), (1000, True)])
async def test_a_large_answer_is_rewritten_aside(
    copies: int, *, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def spy(burst: Burst, chain: RewriterChain) -> Burst:
        threads.append(threading.current_thread())
        return rewrite_response(burst, chain)

    monkeypatch.setattr(fault_middleware, "rewrite_response", spy)
    request = asked()
    call, answer = call_of(request), answer_of(request)
    first, *_, last = answer.messages
    burst = burst_of(answer, [first] * copies + [last])
    faults = FaultMiddleware(FaultEngine([parse_rule("drop,at=done")]))
    injection = await faults.faults_for(call)
    assert injection is not None
    gone = await faults.inject(burst, injection, SentResponse(call))
    assert isinstance(gone, tuple)
    assert sum(isinstance(item, Send) for item in gone) == copies
    assert [thread is not threading.main_thread() for thread in threads] == [is_aside]


@pytest.mark.parametrize(("words", "is_aside"), [(1, False), (20_000, True)])
async def test_a_large_history_is_read_aside(
    words: int, *, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked()
    call = call_of(request)
    heard = SentResponse(call)
    heard.add(burst_of(answer_of(request)))
    faults = FaultMiddleware(FaultEngine())
    struck = (FaultRecord("truncate", "truncate", FaultEffect.TRUNCATED),)
    faults.watch_response(JournalEntry(1, "default", "POST", "/", faults=struck), call, heard)
    threads: list[threading.Thread] = []
    read = type(call.dialect).decode_request

    def spy(dialect: Any, asked: Any) -> Any:
        threads.append(threading.current_thread())
        return read(dialect, asked)

    monkeypatch.setattr(type(call.dialect), "decode_request", spy)
    longer = replace(request, body=request.body + b" " * words)
    assert await faults.continued_request(call_of(longer)) is None
    assert [thread is not threading.main_thread() for thread in threads] == [is_aside]
