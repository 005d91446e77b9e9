"""How fast `llm-proxy simulate` generates scripted responses, each anew for its request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import server_processes
import socket_client
from replay_speed import compare_rates
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


def _throughput_row(folder: Path, name: str, port: int, request_count: int) -> Row:
    encode_request = partial(_chat_request, name)
    with socket_client.connect(port) as sock:
        response = socket_client.send_request(sock, encode_request(port))
    body_file = folder / f"{name}.body"
    body_file.write_bytes(b"".join(chunk for _, chunk in response.timed_chunks()))
    label = f"instant, {name} answer of {_WORD_COUNTS[name]} words"
    return compare_rates("simulate", label, port, body_file, encode_request, request_count)


def _chat_request(name: str, port: int) -> bytes:
    messages = [{"role": "user", "content": name}]
    body = {"model": "bench", "stream": True, "messages": messages}
    return socket_client.encode_chat_request(port, json.dumps(body).encode())
