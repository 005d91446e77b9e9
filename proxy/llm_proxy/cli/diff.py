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
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.reissuing import reissue_settings_of, run_until_done
from llm_proxy.cli.show.lookup import find_cassette
from llm_proxy.diff.exchanges import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Manner,
    compare_exchanges,
)
from llm_proxy.diff.word_diff import word_diff
from llm_proxy.display import count_noun
from llm_proxy.errors import UsageError
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library.library import Library

_LIVE: Final = "the live answer"
_WIDTH: Final = 10
"""Columns of the names of kinds."""
_SHORT: Final = 40
"""Characters up to which two values stand side by side; longer ones show as a word diff."""
_LONGEST: Final = 300
"""Characters of a value that are shown."""
_WORDED: Final = frozenset((DifferenceKind.ASKED, DifferenceKind.SAID, DifferenceKind.BYTES))
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
    first = library.load_cassette(find_cassette(library, cassette))
    rules = values.pop("normalise")
    second = (
        library.load_cassette(find_cassette(library, other))
        if other
        else _live_cassette(first, values, rules)
    )
    how: Manner = "shape" if values["shape"] else "live" if live else "exact"
    found = compare_exchanges(first, second, how, parse_rules(rules))
    if values["as_json"]:
        print_json(_diff_document(found))
    else:
        print_lines(_diff_lines(found))
        print_note(_summary_line(found))
    raise click.exceptions.Exit(0 if found.is_same else 1)


def _live_cassette(cassette: Cassette, values: dict[str, Any], rules: tuple[str, ...]) -> Cassette:
    from llm_proxy.shell.reissuing.reissuer import check_api_keys, live_response  # noqa: PLC0415 # only to ask

    asking = reissue_settings_of(values, rules)
    check_api_keys(asking, {cassette.meta.provider})
    return replace(run_until_done(live_response(asking, cassette)), file=_LIVE)


def _diff_lines(found: ExchangeComparison) -> Iterator[Line]:
    yield styled_line(StyledText(f"- {display.escape_path(found.one)}", "bad"))
    yield styled_line(StyledText(f"+ {display.escape_path(found.other)}", "good"))
    counting = [difference for difference in found.differences if difference.is_significant]
    others = [difference for difference in found.differences if not difference.is_significant]
    yield from map(_difference_row, counting)
    if others:
        yield styled_line(StyledText(_other_strictness_lines(found.strictness), "dim"))
        yield from map(_difference_row, others)


def _other_strictness_lines(manner: Manner) -> str:
    if manner == "exact":
        return "different, and no matter:"
    return "different by nature, and no matter:"


def _difference_row(exchange_difference: ExchangeDifference) -> Line:
    style = "bold" if exchange_difference.is_significant else "dim"
    return styled_line(
        StyledText(f"{exchange_difference.kind.value:<{_WIDTH}}", style),
        f"{exchange_difference.path}  {_value_lines(exchange_difference)}",
    )


def _value_lines(exchange_difference: ExchangeDifference) -> str:
    if not exchange_difference.one or not exchange_difference.other:
        sign, value = (
            ("+", exchange_difference.other)
            if exchange_difference.other
            else ("-", exchange_difference.one)
        )
        return f"{sign} {_displayed_value(value)}"
    has_words = " " in exchange_difference.one and " " in exchange_difference.other
    if (
        exchange_difference.kind in _WORDED
        and has_words
        and max(len(exchange_difference.one), len(exchange_difference.other)) > _SHORT
    ):
        return word_diff(exchange_difference.one, exchange_difference.other)
    one, other = exchange_difference.one, exchange_difference.other
    return f"{_displayed_value(one)} → {_displayed_value(other)}"


def _displayed_value(value: str) -> str:
    return display.truncate(display.escape_line(value), _LONGEST)


def _summary_line(found: ExchangeComparison) -> str:
    if found.is_same:
        more = ", but for what is no matter" if found.differences else ""
        return f"the same{more}"
    return count_noun(
        sum(difference.is_significant for difference in found.differences), "difference"
    )


def _diff_document(found: ExchangeComparison) -> dict[str, Any]:
    return {
        "one": display.escape_path(found.one),
        "other": display.escape_path(found.other),
        "manner": found.strictness,
        "same": found.is_same,
        "differences": [
            {
                "kind": difference.kind.value,
                "where": difference.path,
                "one": difference.one,
                "other": difference.other,
                "counts": difference.is_significant,
            }
            for difference in found.differences
        ],
    }
