"""Renders an explanation as lines or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from llm_proxy import matching
from llm_proxy.cli.output.printing import Line, StyledText, styled_line
from llm_proxy.diff.documents import displayable_leaves, json_leaves
from llm_proxy.display import count_with_noun, escape_line, format_percent
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.key_explanation import AppliedRule, KeyExplanation
from llm_proxy.misses.report import (
    difference_line,
    format_normalise_options,
    nearest_summary,
    remedy_line,
)
from llm_proxy.routing import RoutedRequest

_DOCUMENT_VERSION: Final = 1
_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_MAX_RULE_VALUE_CHARS: Final = 160
"""Characters of a value changed by a rule that the text output shows."""
_UNLIMITED_CHARS: Final = 1_000_000
_MAX_SHOWN_NAMES: Final = 20
"""Replacement names of a rule that the text output shows."""


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """Everything that `explain` shows for a request."""

    routed_request: RoutedRequest
    key_explanation: KeyExplanation
    take_files_by_session: Mapping[str, Sequence[str]]
    """The files of the takes for the request, by session; its own session comes first."""
    miss_report: MissReport | None
    """Why no take answers in its session; None where one does."""
    similarity_and_takes: tuple[float, Sequence[str]] | None
    """Similarity (0 to 1) and takes of the nearest cassette, where `--match nearest` allows it."""


def explanation_lines(request_explanation: RequestExplanation) -> Iterator[Line]:
    """The explanation as lines of text."""
    yield from _key_input_lines(request_explanation)
    for applied_rule in request_explanation.key_explanation.applied_rules:
        yield from _applied_rule_lines(applied_rule)
    yield _labelled_line("key", request_explanation.routed_request.key)
    for session, files in request_explanation.take_files_by_session.items():
        takes = count_with_noun(len(files), "take")
        yield _labelled_line("answers", f"session {session}: {takes}", "good")
        yield from (styled_line(f"  {escape_line(file)}") for file in files)
    if request_explanation.miss_report is not None:
        yield from _miss_lines(request_explanation.miss_report)
    if request_explanation.similarity_and_takes is not None:
        yield _labelled_line(
            "nearest",
            f"answers, {format_percent(request_explanation.similarity_and_takes[0])} alike",
            "doubtful",
        )
        yield from (
            styled_line(f"  {escape_line(file)}")
            for file in request_explanation.similarity_and_takes[1]
        )


def explanation_document(request_explanation: RequestExplanation) -> dict[str, Any]:
    """The explanation as a JSON document."""
    key_document = request_explanation.key_explanation.initial_document
    fields = {
        "model": request_explanation.routed_request.model,
        "session": request_explanation.routed_request.session,
        "dialect": request_explanation.routed_request.dialect.name,
    }
    return {
        "explain": _DOCUMENT_VERSION,
        "asked": {
            "method": key_document.method,
            "provider": key_document.provider,
            "path": key_document.path,
        }
        | fields,
        "query": key_document.query,
        "headers": [list(pair) for pair in key_document.headers],
        "body": key_document.body_kind,
        "values": displayable_leaves(request_explanation.key_explanation.final_document),
        "rules": [
            _applied_rule_document(applied_rule)
            for applied_rule in request_explanation.key_explanation.applied_rules
        ],
        "key_rules": matching.KEY_RULES_VERSION,
        "key": request_explanation.routed_request.key,
        "answers": [
            {"session": name, "files": files}
            for name, files in request_explanation.take_files_by_session.items()
        ],
        "miss": None
        if request_explanation.miss_report is None
        else asdict(request_explanation.miss_report),
        "nearest": None
        if request_explanation.similarity_and_takes is None
        else {
            "likeness": request_explanation.similarity_and_takes[0],
            "files": list(request_explanation.similarity_and_takes[1]),
        },
    }


def _key_input_lines(request_explanation: RequestExplanation) -> Iterator[Line]:
    key_document = request_explanation.key_explanation.initial_document
    model = (
        f" ({request_explanation.routed_request.model})"
        if request_explanation.routed_request.model
        else ""
    )
    yield _labelled_line(
        "request",
        f"{key_document.method} {key_document.path}{model}, session "
        f"{request_explanation.routed_request.session}",
    )
    yield _labelled_line(
        "dialect",
        f"{request_explanation.routed_request.dialect.name}, provider {key_document.provider}",
    )
    if key_document.query:
        yield _labelled_line("query", key_document.query)
    for name, value in key_document.headers:
        yield _labelled_line("header", f"{name}: {value}")
    values = len(json_leaves(key_document)) - len(key_document.headers) - 4
    yield _labelled_line(
        "body",
        f"{key_document.body_kind}, {count_with_noun(values, 'value')}; key rules "
        f"{matching.KEY_RULES_VERSION}",
    )
    if not request_explanation.key_explanation.applied_rules:
        yield _labelled_line("rules", "none: every value counts")


def _applied_rule_lines(applied_rule: AppliedRule) -> Iterator[Line]:
    changed = (
        count_with_noun(len(applied_rule.changes) + applied_rule.further_count, "value")
        if applied_rule.changes
        else "nothing"
    )
    yield _labelled_line("rule", f"{applied_rule.rule} changes {changed}")
    for request_difference in applied_rule.changes:
        before, after = (
            escape_line(text)[:_MAX_RULE_VALUE_CHARS]
            for text in (request_difference.stored, request_difference.requested)
        )
        yield styled_line(
            f"  {escape_line(request_difference.path)}: {before} → {after or 'does not count'}"
        )
    yield from _more_line(applied_rule.further_count)
    for name, value in list(applied_rule.value_by_alias.items())[:_MAX_SHOWN_NAMES]:
        yield styled_line(f"  {name} is {escape_line(value)[:_MAX_RULE_VALUE_CHARS]}")
    if (more := len(applied_rule.value_by_alias) - _MAX_SHOWN_NAMES) > 0:
        yield styled_line(f"  and {count_with_noun(more, 'name')} more")


def _applied_rule_document(applied_rule: AppliedRule) -> dict[str, Any]:
    changed = [
        {
            "path": request_difference.path,
            "before": request_difference.stored,
            "after": request_difference.requested,
        }
        for request_difference in applied_rule.changes
    ]
    return {
        "rule": applied_rule.rule,
        "changed": changed,
        "more": applied_rule.further_count,
        "names": dict(applied_rule.value_by_alias),
    }


def _miss_lines(miss_report: MissReport) -> Iterator[Line]:
    if miss_report.nearest is None or miss_report.why != "differs":
        yield _labelled_line("miss", miss_report.text, "bad")
        return
    yield _labelled_line("miss", f"nearest is {nearest_summary(miss_report.nearest)}", "bad")
    for difference in miss_report.nearest.differences:
        yield styled_line(
            f"  {escape_line(difference_line(difference, _UNLIMITED_CHARS, _UNLIMITED_CHARS))}"
        )
        if remedy := remedy_line(difference):
            yield styled_line(StyledText(f"    {remedy}", "dim"))
    yield from _more_line(miss_report.nearest.more)
    advice = "record it with llm-proxy record"
    if miss_report.rules:
        advice = f"{advice}, or it answers with: {format_normalise_options(miss_report.rules)}"
    yield _labelled_line("advice", advice)


def _more_line(count: int) -> Iterator[Line]:
    if count:
        yield styled_line(f"  and {count:,} more")


def _labelled_line(name: str, text: str, style: str = "") -> Line:
    return styled_line(
        StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"), StyledText(escape_line(text), style)
    )
