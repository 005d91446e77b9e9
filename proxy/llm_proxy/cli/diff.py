"""`diff`: how two cassettes differ, or a cassette and what its provider answers today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cli.options import CONFIG, asking_options, cassettes, normalise
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.cli.reissuing import asking_of, until_done
from llm_proxy.cli.show.lookup import find
from llm_proxy.diff.exchanges import Comparison, Difference, Kind, Manner, compare
from llm_proxy.diff.words import word_diff
from llm_proxy.display import counted
from llm_proxy.errors import UsageError
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.library.library import Library

_LIVE: Final = "the live answer"
_WIDTH: Final = 10
"""Columns of the names of kinds."""
_SHORT: Final = 40
"""Characters up to which two values stand side by side; longer ones show as a word diff."""
_LONGEST: Final = 300
"""Characters of a value that are shown."""
_WORDED: Final = frozenset((Kind.ASKED, Kind.SAID, Kind.BYTES))
"""What may be long, and mostly the same."""


@click.command
@click.argument("cassette")
@click.argument("other", required=False)
@cassettes
@CONFIG
@normalise
@asking_options
@click.option("--live", is_flag=True, help="Compare with what the provider answers now.")
@click.option("--shape", is_flag=True, help="Compare status, events and their fields alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def diff(cassette: str, other: str | None, cassettes: Path, *, live: bool, **values: Any) -> None:
    r"""Tell how two cassettes differ, or a cassette and what its provider answers today.

    What was asked, the head, what was said as its dialect reads it, the bytes, and the times,
    which are shown and never count. Texts are compared word by word: [-old-] {+new+}. A CASSETTE
    is a file, or the beginning of its name in the library, or of its key.

    With --live the stored request is asked again, with the key in your environment, and nothing
    is recorded. No two live answers are the same, so status, ending, events, fields, model,
    finish and the tools that are called count; texts, ids and usage are shown. With --shape only
    the status, events and fields are compared: for a nightly watch on what clients parse.

    \b
    Examples:
      llm-proxy diff dc8593ff1ee7bb84-1 dc8593ff1ee7bb84-2
      llm-proxy diff dc8593 --live
      llm-proxy diff dc8593 --live --shape --json
      llm-proxy diff old.jsonl new.jsonl --normalise uuids

    The exit code is 1 where something differs that counts.
    """
    if live == (other is not None):
        raise UsageError("diff compares two cassettes, or one with --live: llm-proxy diff A B")
    library = Library(cassettes)
    first = library.load(find(library, cassette))
    rules = values.pop("normalise")
    second = library.load(find(library, other)) if other else _live(first, values, rules)
    how: Manner = "shape" if values["shape"] else "live" if live else "exact"
    found = compare(first, second, how, rules_of(rules))
    if values["as_json"]:
        print_json(_document(found))
    else:
        print_lines(_page(found))
        print_note(_sum(found))
    raise click.exceptions.Exit(0 if found.same else 1)


def _live(it: Cassette, values: dict[str, Any], rules: tuple[str, ...]) -> Cassette:
    """What the provider of a cassette answers now."""
    from llm_proxy.shell.reissuing.reissuer import check_keys, live_answer  # noqa: PLC0415 # only to ask

    asking = asking_of(values, rules)
    check_keys(asking, {it.meta.provider})
    return replace(until_done(live_answer(asking, it)), file=_LIVE)


def _page(found: Comparison) -> Iterator[Line]:
    yield line(Span(f"- {display.path_text(found.one)}", "bad"))
    yield line(Span(f"+ {display.path_text(found.other)}", "good"))
    counting = [it for it in found.differences if it.counts]
    others = [it for it in found.differences if not it.counts]
    yield from map(_row, counting)
    if others:
        yield line(Span(_others(found.manner), "dim"))
        yield from map(_row, others)


def _others(manner: Manner) -> str:
    if manner == "exact":
        return "different, and no matter:"
    return "different by nature, and no matter:"


def _row(it: Difference) -> Line:
    style = "bold" if it.counts else "dim"
    return line(Span(f"{it.kind.value:<{_WIDTH}}", style), f"{it.where}  {_values(it)}")


def _values(it: Difference) -> str:
    if not it.one or not it.other:
        sign, value = ("+", it.other) if it.other else ("-", it.one)
        return f"{sign} {_shown(value)}"
    has_words = " " in it.one and " " in it.other
    if it.kind in _WORDED and has_words and max(len(it.one), len(it.other)) > _SHORT:
        return word_diff(it.one, it.other)
    return f"{_shown(it.one)} → {_shown(it.other)}"


def _shown(value: str) -> str:
    return display.cut(display.one_line(value), _LONGEST)


def _sum(found: Comparison) -> str:
    if found.same:
        more = ", but for what is no matter" if found.differences else ""
        return f"the same{more}"
    return counted(sum(it.counts for it in found.differences), "difference")


def _document(found: Comparison) -> dict[str, Any]:
    return {
        "one": display.path_text(found.one),
        "other": display.path_text(found.other),
        "manner": found.manner,
        "same": found.same,
        "differences": [
            {
                "kind": it.kind.value,
                "where": it.where,
                "one": it.one,
                "other": it.other,
                "counts": it.counts,
            }
            for it in found.differences
        ],
    }
