"""A small application with an LLM in it: it streams one answer, and is weak in six ways.

It is what `llm-proxy chaos` is tried on; each weakness is marked with the rule that finds it.
`CAREFUL` in the environment takes them away.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx

URL = os.environ.get("OPENAI_BASE_URL", "") + "/chat/completions"
ASKED = {
    "model": "gpt-4o-mini",
    "stream": True,
    "messages": [{"role": "user", "content": "Name three colours."}],
}
CAREFUL = bool(os.environ.get("CAREFUL"))
MOST = 4 if CAREFUL else 12  # retry-storm: so many attempts in no time
LIMIT = 0.75 if CAREFUL else None  # no-read-timeout: silence is waited out


class Failed(Exception):
    """There is no answer."""


class Again(Exception):
    """There may be one if we ask again, after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"ask again in {seconds:g} s")


def ask() -> str:
    """The answer."""
    for attempt in range(MOST):
        try:
            return _ask(attempt)
        except Again as again:
            if CAREFUL:  # too-soon, no-backoff: nobody waits
                time.sleep(again.seconds)
    raise Failed(f"asked {MOST} times")


def _ask(attempt: int) -> str:
    pause = 0.25 * 2**attempt
    try:
        with httpx.stream("POST", URL, json=ASKED, timeout=LIMIT) as answer:
            if answer.status_code in (408, 409, 429, 500, 502, 503, 504, 529):
                told = answer.headers.get("retry-after")
                raise Again(float(told) if told else pause)
            if answer.status_code != httpx.codes.OK:
                raise Failed(f"HTTP {answer.status_code}")
            return _text(_events(answer))
    except httpx.HTTPError as error:
        raise Again(pause) from error
    except (ValueError, KeyError) as error:
        raise Again(pause) from error


def _events(answer: httpx.Response) -> Iterator[Any]:
    over = False
    for line in answer.iter_lines():
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            over = True
        elif line.startswith("data: "):
            try:
                yield json.loads(data)
            except ValueError:
                if CAREFUL:
                    raise
                # malformed-accepted: what cannot be read is left out
    if CAREFUL and not over:  # truncated-accepted: nobody looks for the end
        raise ValueError("the answer is not whole")


def _text(events: Iterator[Any]) -> str:
    return "".join(
        choice["delta"].get("content") or "" for event in events for choice in event["choices"]
    )
