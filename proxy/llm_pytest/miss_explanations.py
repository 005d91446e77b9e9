"""Explains why a recorded test does not match any more: what has changed, and in which step.

A request that no recording answers differs from the recorded one in the prompt, which the
definition determines, or in the result of a tool, which the tested program determines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from llm_proxy import matching
from llm_proxy.cassette import StoredRequest, parse_cassette_opening
from llm_proxy.diff.documents import differing_values, flatten_json, format_word_diff
from llm_proxy.errors import LlmProxyError
from llm_proxy.exchange import Request
from llm_proxy.matching.presets import PRESETS, TEST_PRESET
from llm_proxy.miss_report import MissReport
from llm_proxy.python_api import Call, ProxySession
from llm_proxy.turns import Json
from llm_pytest.prompt import changed_steps
from llm_pytest.report import call_place
from llm_pytest.runner import TestRun
from llm_pytest.verdicts import shortened

_RULES: Final = matching.RuleSet((PRESETS[TEST_PRESET],))
_RECORD_COMMAND: Final = "pytest --llm --llm-proxy=auto"
_MAX_DIFFERENCES: Final = 5
_MISS_ORIGIN: Final = "miss"
_PLACEHOLDER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(<[a-z-]+(?:-[0-9]+)?>)')
"""A string in JSON, or a placeholder that replaces a number."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request without what changes in each run."""

    prompt: str
    results: tuple[str, ...]
    """The results of the tools that the model called last, in order."""


def explain_misses(session: ProxySession, run: TestRun, root: Path) -> list[str]:
    """Why requests of a run were not replayed, in lines; empty if all were.

    `root` is the folder to which the names of cassettes are relative.
    """
    misses = session.misses
    if not misses:
        return []
    missed = next((call for call in session.calls if call.origin == _MISS_ORIGIN), None)
    causes = [] if missed is None else list(_causes(misses[0], missed, run, root))
    return [*causes, f"to record it, run {_RECORD_COMMAND}"] if causes else [misses[0].text]


def _causes(miss: MissReport, missed: Call, run: TestRun, root: Path) -> Iterator[str]:
    nearest = miss.nearest
    # Another test's recording is no recording of this one.
    is_own = nearest is not None and nearest.session == miss.request.session
    recorded = _recorded_request(root / nearest.file) if nearest and is_own else None
    if recorded is None:
        yield "this test has no recording"
        return
    current = _missed_request(missed)
    if current is None:
        return
    for number, (old, new) in enumerate(zip(recorded.results, current.results, strict=False)):
        if old != new:
            step, tool = "", "a tool"
            calls = run.calls[-len(current.results) :]
            if number < len(calls):
                step, tool = f"{call_place(calls[number], run.spec)}: ", calls[number].tool
            yield f"{step}the result of {tool} has changed since the recording"
            lines = [*_differences(old, new)] or [format_word_diff(old, new)]
            yield from (f"  {line}" for line in lines)
            return
    # An id that is in a result counts in the prompt too, so the prompt comes last.
    if changed := changed_steps(recorded.prompt, current.prompt):
        yield f"the definition has changed since the recording: {', '.join(changed)}"


def _differences(old: str, new: str) -> Iterator[str]:
    """What differs between two results, which are JSON or not, in lines."""
    try:
        documents: list[Json] = [json.loads(_PLACEHOLDER.sub(_quoted, each)) for each in (old, new)]
    except ValueError:
        yield format_word_diff(old, new)
        return
    old_leaves, new_leaves = (dict(flatten_json("$", each, json.dumps)) for each in documents)
    differences = [*differing_values(new_leaves, old_leaves)]
    for path, is_now, was in differences[:_MAX_DIFFERENCES]:
        recorded, current = (shortened(value) or "no value" for value in (was, is_now))
        yield f"{path}: recorded {recorded}, now {current}"
    if len(differences) > _MAX_DIFFERENCES:
        yield f"and {len(differences) - _MAX_DIFFERENCES} more"


def _quoted(match: re.Match[str]) -> str:
    return f'"{match[1]}"' if match[1] else match[0]


def _recorded_request(file: Path) -> _Request | None:
    """The request of a cassette; None if the file is not readable any more."""
    try:
        meta, request = parse_cassette_opening(str(file), file.read_bytes())
    except (OSError, LlmProxyError):
        return None
    return _normalized(meta.provider, request)


def _missed_request(call: Call) -> _Request | None:
    document = call.document
    request = StoredRequest(
        document.method, document.path, document.query, document.headers, document.request_body
    )
    return _normalized(call.provider, request)


def _normalized(provider: str, request: StoredRequest) -> _Request | None:
    document = matching.normalized_document(provider, request, _RULES).document
    body = orjson.dumps(document.body) if document.body_kind == "json" else b""
    conversation = document.dialect.decode_request(
        Request(request.method, request.path, request.query, request.headers, body)
    )
    if conversation is None:
        return None
    results = tuple(result.content for result in conversation.results)
    return _Request(conversation.first_user_text, results)
