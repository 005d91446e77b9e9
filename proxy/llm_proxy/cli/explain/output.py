"""How an explanation is told: lines for people, one document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from llm_proxy import matching
from llm_proxy.cli.output.printing import Line, Span, line
from llm_proxy.diff import json_leaves
from llm_proxy.display import counted, one_line, percent
from llm_proxy.miss_report import Differing, Missed
from llm_proxy.misses.document_diff import shown_leaves
from llm_proxy.misses.explaining import Applied, Explanation
from llm_proxy.misses.messages import difference, nearest_words, options
from llm_proxy.routing import Call

_VERSION: Final = 1
_NAME: Final = 10
"""Columns."""
_CUT: Final = 160
"""Characters of a value that a rule changed, for people."""
_ALL: Final = 1_000_000
_NAMES: Final = 20
"""Names that are told."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What is told of a request."""

    call: Call
    steps: Explanation
    answers: Mapping[str, Sequence[str]]
    """The files of the takes that answer, by session; the one that was asked comes first."""
    miss: Missed | None
    """Why none answers in the session that was asked."""
    alike: tuple[float, Sequence[str]] | None
    """The share and the takes of the nearest cassette, where that may answer."""


def page(it: Explained) -> Iterator[Line]:
    """The lines for people."""
    yield from _key(it)
    for each in it.steps.applied:
        yield from _applied(each)
    yield _row("key", it.call.key)
    for session, files in it.answers.items():
        takes = counted(len(files), "take")
        yield _row("answers", f"session {session}: {takes}", "good")
        yield from (line(f"  {one_line(file)}") for file in files)
    if it.miss is not None:
        yield from _miss(it.miss)
    if it.alike is not None:
        yield _row("nearest", f"answers, {percent(it.alike[0])} alike", "doubtful")
        yield from (line(f"  {one_line(file)}") for file in it.alike[1])


def document(it: Explained) -> dict[str, Any]:
    """The same for programs."""
    made = it.steps.before
    asked = {"model": it.call.model, "session": it.call.session, "dialect": it.call.dialect.name}
    return {
        "explain": _VERSION,
        "asked": {"method": made.method, "provider": made.provider, "path": made.path} | asked,
        "query": made.query,
        "headers": [list(pair) for pair in made.headers],
        "body": made.kind,
        "values": shown_leaves(it.steps.after),
        "rules": [_rule(each) for each in it.steps.applied],
        "key_rules": matching.KEY_RULES,
        "key": it.call.key,
        "answers": [{"session": name, "files": files} for name, files in it.answers.items()],
        "miss": None if it.miss is None else asdict(it.miss),
        "nearest": None
        if it.alike is None
        else {"likeness": it.alike[0], "files": list(it.alike[1])},
    }


def _key(it: Explained) -> Iterator[Line]:
    """What the key is made from, before rules."""
    made = it.steps.before
    model = f" ({it.call.model})" if it.call.model else ""
    yield _row("request", f"{made.method} {made.path}{model}, session {it.call.session}")
    yield _row("dialect", f"{it.call.dialect.name}, provider {made.provider}")
    if made.query:
        yield _row("query", made.query)
    for name, value in made.headers:
        yield _row("header", f"{name}: {value}")
    values = len(json_leaves.leaves(made)) - len(made.headers) - 4
    yield _row("body", f"{made.kind}, {counted(values, 'value')}; key rules {matching.KEY_RULES}")
    if not it.steps.applied:
        yield _row("rules", "none: every value counts")


def _applied(it: Applied) -> Iterator[Line]:
    changed = counted(len(it.changed) + it.more, "value") if it.changed else "nothing"
    yield _row("rule", f"{it.rule} changes {changed}")
    for each in it.changed:
        before, after = (one_line(text)[:_CUT] for text in (each.stored, each.asked))
        yield line(f"  {one_line(each.path)}: {before} → {after or 'does not count'}")
    yield from _more(it.more)
    for name, value in list(it.names.items())[:_NAMES]:
        yield line(f"  {name} is {one_line(value)[:_CUT]}")
    if (more := len(it.names) - _NAMES) > 0:
        yield line(f"  and {counted(more, 'name')} more")


def _rule(it: Applied) -> dict[str, Any]:
    changed = [{"path": one.path, "before": one.stored, "after": one.asked} for one in it.changed]
    return {"rule": it.rule, "changed": changed, "more": it.more, "names": dict(it.names)}


def _miss(it: Missed) -> Iterator[Line]:
    if it.nearest is None or it.why != "differs":
        yield _row("miss", it.text, "bad")
        return
    yield _row("miss", f"nearest is {nearest_words(it.nearest)}", "bad")
    for each in it.nearest.differences:
        yield line(f"  {one_line(difference(each, _ALL, _ALL))}")
        yield from _remedy(each)
    yield from _more(it.nearest.more)
    advice = "record it with llm-proxy record"
    if it.rules:
        advice = f"{advice}, or it answers with: {options(it.rules)}"
    yield _row("advice", advice)


def _more(count: int) -> Iterator[Line]:
    if count:
        yield line(f"  and {count:,} more")


def _remedy(it: Differing) -> Iterator[Line]:
    if it.rule:
        caution = f" ({it.caution})" if it.caution else ""
        yield line(Span(f"    would not count with {options([it.rule])}{caution}", "dim"))


def _row(name: str, text: str, style: str = "") -> Line:
    return line(Span(f"{name:<{_NAME}}", "bold"), Span(one_line(text), style))
