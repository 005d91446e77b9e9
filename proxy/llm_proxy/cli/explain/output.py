"""Renders an explanation as lines or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from llm_proxy import matching
from llm_proxy.cli.output.printing import Line, StyledText, styled_line
from llm_proxy.diff import json_leaves
from llm_proxy.display import count_noun, escape_line, format_percent
from llm_proxy.miss_report import MissDifference, MissReport
from llm_proxy.misses.document_diff import displayable_leaves
from llm_proxy.misses.key_explanation import AppliedRule, KeyExplanation
from llm_proxy.misses.messages import difference_line, nearest_summary, rule_options
from llm_proxy.routing import RoutedRequest

_VERSION: Final = 1
_NAME: Final = 10
"""Columns."""
_CUT: Final = 160
"""Characters of a value that a rule changed, for people."""
_ALL: Final = 1_000_000
_NAMES: Final = 20
"""Names that are told."""


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """What is told of a request."""

    routed: RoutedRequest
    key_steps: KeyExplanation
    responding_files: Mapping[str, Sequence[str]]
    """The files of the takes that answer, by session; the one that was asked comes first."""
    miss: MissReport | None
    """Why none answers in the session that was asked."""
    similar: tuple[float, Sequence[str]] | None
    """The share and the takes of the nearest cassette, where that may answer."""


def explanation_lines(request_explanation: RequestExplanation) -> Iterator[Line]:
    """The lines for people."""
    yield from _key_lines(request_explanation)
    for applied_rule in request_explanation.key_steps.applied:
        yield from _applied_rule_lines(applied_rule)
    yield _labelled_row("key", request_explanation.routed.key)
    for session, files in request_explanation.responding_files.items():
        takes = count_noun(len(files), "take")
        yield _labelled_row("answers", f"session {session}: {takes}", "good")
        yield from (styled_line(f"  {escape_line(file)}") for file in files)
    if request_explanation.miss is not None:
        yield from _miss_lines(request_explanation.miss)
    if request_explanation.similar is not None:
        yield _labelled_row(
            "nearest",
            f"answers, {format_percent(request_explanation.similar[0])} alike",
            "doubtful",
        )
        yield from (
            styled_line(f"  {escape_line(file)}") for file in request_explanation.similar[1]
        )


def explanation_document(request_explanation: RequestExplanation) -> dict[str, Any]:
    """The same for programs."""
    made = request_explanation.key_steps.before
    fields = {
        "model": request_explanation.routed.model,
        "session": request_explanation.routed.session,
        "dialect": request_explanation.routed.dialect.name,
    }
    return {
        "explain": _VERSION,
        "asked": {"method": made.method, "provider": made.provider, "path": made.path} | fields,
        "query": made.query,
        "headers": [list(pair) for pair in made.headers],
        "body": made.kind,
        "values": displayable_leaves(request_explanation.key_steps.after),
        "rules": [
            _rule_document(applied_rule) for applied_rule in request_explanation.key_steps.applied
        ],
        "key_rules": matching.KEY_RULES,
        "key": request_explanation.routed.key,
        "answers": [
            {"session": name, "files": files}
            for name, files in request_explanation.responding_files.items()
        ],
        "miss": None if request_explanation.miss is None else asdict(request_explanation.miss),
        "nearest": None
        if request_explanation.similar is None
        else {
            "likeness": request_explanation.similar[0],
            "files": list(request_explanation.similar[1]),
        },
    }


def _key_lines(request_explanation: RequestExplanation) -> Iterator[Line]:
    made = request_explanation.key_steps.before
    model = f" ({request_explanation.routed.model})" if request_explanation.routed.model else ""
    yield _labelled_row(
        "request", f"{made.method} {made.path}{model}, session {request_explanation.routed.session}"
    )
    yield _labelled_row(
        "dialect", f"{request_explanation.routed.dialect.name}, provider {made.provider}"
    )
    if made.query:
        yield _labelled_row("query", made.query)
    for name, value in made.headers:
        yield _labelled_row("header", f"{name}: {value}")
    values = len(json_leaves.json_leaves(made)) - len(made.headers) - 4
    yield _labelled_row(
        "body", f"{made.kind}, {count_noun(values, 'value')}; key rules {matching.KEY_RULES}"
    )
    if not request_explanation.key_steps.applied:
        yield _labelled_row("rules", "none: every value counts")


def _applied_rule_lines(applied_rule: AppliedRule) -> Iterator[Line]:
    changed = (
        count_noun(len(applied_rule.changed) + applied_rule.further_count, "value")
        if applied_rule.changed
        else "nothing"
    )
    yield _labelled_row("rule", f"{applied_rule.rule} changes {changed}")
    for request_difference in applied_rule.changed:
        before, after = (
            escape_line(text)[:_CUT]
            for text in (request_difference.stored, request_difference.requested)
        )
        yield styled_line(
            f"  {escape_line(request_difference.path)}: {before} → {after or 'does not count'}"
        )
    yield from _more_line(applied_rule.further_count)
    for name, value in list(applied_rule.names.items())[:_NAMES]:
        yield styled_line(f"  {name} is {escape_line(value)[:_CUT]}")
    if (more := len(applied_rule.names) - _NAMES) > 0:
        yield styled_line(f"  and {count_noun(more, 'name')} more")


def _rule_document(applied_rule: AppliedRule) -> dict[str, Any]:
    changed = [
        {
            "path": request_difference.path,
            "before": request_difference.stored,
            "after": request_difference.requested,
        }
        for request_difference in applied_rule.changed
    ]
    return {
        "rule": applied_rule.rule,
        "changed": changed,
        "more": applied_rule.further_count,
        "names": dict(applied_rule.names),
    }


def _miss_lines(miss_report: MissReport) -> Iterator[Line]:
    if miss_report.nearest is None or miss_report.why != "differs":
        yield _labelled_row("miss", miss_report.text, "bad")
        return
    yield _labelled_row("miss", f"nearest is {nearest_summary(miss_report.nearest)}", "bad")
    for difference in miss_report.nearest.differences:
        yield styled_line(f"  {escape_line(difference_line(difference, _ALL, _ALL))}")
        yield from _remedy_line(difference)
    yield from _more_line(miss_report.nearest.more)
    advice = "record it with llm-proxy record"
    if miss_report.rules:
        advice = f"{advice}, or it answers with: {rule_options(miss_report.rules)}"
    yield _labelled_row("advice", advice)


def _more_line(count: int) -> Iterator[Line]:
    if count:
        yield styled_line(f"  and {count:,} more")


def _remedy_line(miss_difference: MissDifference) -> Iterator[Line]:
    if miss_difference.rule:
        caution = f" ({miss_difference.caution})" if miss_difference.caution else ""
        yield styled_line(
            StyledText(
                f"    would not count with {rule_options([miss_difference.rule])}{caution}", "dim"
            )
        )


def _labelled_row(name: str, text: str, style: str = "") -> Line:
    return styled_line(StyledText(f"{name:<{_NAME}}", "bold"), StyledText(escape_line(text), style))
