"""How fast `llm-proxy simulate` generates scripted responses, each anew for its request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import server_processes
import socket_client
from result_table import Row

_WORD_COUNTS: Final = {"short": 5, "long": 200}
"""The words of each scenario's response; each word is a chunk of the stream."""


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    scenarios_file = folder / "scenarios.json"
    scenarios_file.write_text(json.dumps({"scenarios": list(map(_scenario, _WORD_COUNTS))}))
    options = ("--scenarios", str(scenarios_file), "--pace", "instant")
    with server_processes.run_llm_proxy(folder, "simulate", *options) as simulate_port:
        for name in _WORD_COUNTS:
            yield _throughput_row(folder, name, simulate_port, 200 if is_quick else 2000)


def _scenario(name: str) -> dict[str, object]:
    text = " ".join(f"word-{number:03}" for number in range(_WORD_COUNTS[name]))
    response = {"kind": "text", "assistant_text": text}
    turn = {"turn": 1, "chunks": {"by": "words"}, "response": response}
    return {"id": name, "description": "What is measured.", "turns": [turn]}


def _throughput_row(folder: Path, name: str, simulate_port: int, request_count: int) -> Row:
    body_file = folder / f"{name}.body"
    body_file.write_bytes(
        socket_client.fetch_response_body(simulate_port, _chat_request(simulate_port, name))
    )
    rates: dict[str, list[float]] = {"simulate": [], "bare": []}
    with server_processes.run_reference_server("body", str(body_file)) as bare_port:
        for _ in range(3):
            for route, port in (("simulate", simulate_port), ("bare", bare_port)):
                request = _chat_request(port, name)
                rate = socket_client.requests_per_second(port, request, request_count, 16)
                rates[route].append(rate)
                time.sleep(0.1)
    value, bare_rate = max(rates["simulate"]), max(rates["bare"])
    return Row("simulate", f"instant, {name} answer of {_WORD_COUNTS[name]} words", value, "req/s",
               {"bare aiohttp, prepared": bare_rate, "ratio": value / bare_rate})  # fmt: skip


def _chat_request(port: int, name: str) -> bytes:
    messages = [{"role": "user", "content": name}]
    body = {"model": "bench", "stream": True, "messages": messages}
    return socket_client.encode_chat_request(port, json.dumps(body).encode())
