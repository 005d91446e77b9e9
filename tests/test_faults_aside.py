"""What takes a while is done in another thread: no stream waits for the faults of another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from faulted import answer_of, asked, burst_of, call_of
from llm_proxy.actions import Burst, Send
from llm_proxy.faults.engine import Injector
from llm_proxy.faults.fault_record import Effect, Injected
from llm_proxy.faults.grammar import rule_of
from llm_proxy.faults.rewriting import Chain, rewritten
from llm_proxy.shell.server import fault_middleware
from llm_proxy.shell.server.fault_middleware import Heard, Injecting
from llm_proxy.shell.server.journal import Entry


@pytest.mark.parametrize(("copies", "is_aside"), [(1, False), (1000, True)])
async def test_a_large_answer_is_rewritten_aside(
    copies: int, *, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def spy(burst: Burst, chain: Chain) -> Burst:
        threads.append(threading.current_thread())
        return rewritten(burst, chain)

    monkeypatch.setattr(fault_middleware, "rewritten", spy)
    request = asked()
    call, answer = call_of(request), answer_of(request)
    first, *_, last = answer.messages
    burst = burst_of(answer, [first] * copies + [last])
    faults = Injecting(Injector([rule_of("drop,at=done")]))
    injection = await faults.meet(call)
    assert injection is not None
    gone = await faults.spoil(burst, injection, Heard(call))
    assert isinstance(gone, tuple)
    assert sum(isinstance(it, Send) for it in gone) == copies
    assert [it is not threading.main_thread() for it in threads] == [is_aside]


@pytest.mark.parametrize(("words", "is_aside"), [(1, False), (20_000, True)])
async def test_a_large_history_is_read_aside(
    words: int, *, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked()
    call = call_of(request)
    heard = Heard(call)
    heard.take(burst_of(answer_of(request)))
    faults = Injecting(Injector())
    struck = (Injected("truncate", "truncate", Effect.TRUNCATED),)
    faults.watch(Entry(1, "default", "POST", "/", faults=struck), call, heard)
    threads: list[threading.Thread] = []
    read = type(call.dialect).conversation

    def spy(dialect: Any, asked: Any) -> Any:
        threads.append(threading.current_thread())
        return read(dialect, asked)

    monkeypatch.setattr(type(call.dialect), "conversation", spy)
    longer = replace(request, body=request.body + b" " * words)
    assert await faults.continued(call_of(longer)) is None
    assert [it is not threading.main_thread() for it in threads] == [is_aside]
