"""How fast scripted answers are: told anew for each request, in the requests' own dialect."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import server_processes
import socket_client
from result_table import Row

_WORDS: Final = {"short": 5, "long": 200}
"""Words of each scenario's answer, each a piece of the stream."""


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """The figures."""
    scenarios = folder / "scenarios.json"
    scenarios.write_text(json.dumps({"scenarios": list(map(_scenario, _WORDS))}))
    options = ("--scenarios", str(scenarios), "--pace", "instant")
    with server_processes.llm_proxy(folder, "simulate", *options) as simulate:
        for name in _WORDS:
            yield _throughput(folder, name, simulate, 200 if quick else 2000)


def _scenario(name: str) -> dict[str, object]:
    said = " ".join(f"word-{number:03}" for number in range(_WORDS[name]))
    response = {"kind": "text", "assistant_text": said}
    turn = {"turn": 1, "chunks": {"by": "words"}, "response": response}
    return {"id": name, "description": "What is measured.", "turns": [turn]}


def _throughput(folder: Path, name: str, simulate: int, requests: int) -> Row:
    body = folder / f"{name}.body"
    body.write_bytes(socket_client.body(simulate, _question(simulate, name)))
    found: dict[str, list[float]] = {"simulate": [], "bare": []}
    with server_processes.server("body", str(body)) as bare:
        for _ in range(3):
            for route, port in (("simulate", simulate), ("bare", bare)):
                question = _question(port, name)
                found[route].append(socket_client.throughput(port, question, requests, 16))
                time.sleep(0.1)
    value, beside = max(found["simulate"]), max(found["bare"])
    return Row("simulate", f"instant, {name} answer of {_WORDS[name]} words", value, "req/s",
               {"bare aiohttp, prepared": beside, "ratio": value / beside})  # fmt: skip


def _question(port: int, name: str) -> bytes:
    messages = [{"role": "user", "content": name}]
    asked = {"model": "bench", "stream": True, "messages": messages}
    return socket_client.request(port, json.dumps(asked).encode())
