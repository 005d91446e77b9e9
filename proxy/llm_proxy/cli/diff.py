"""`diff`: compares two cassettes, or a cassette and a live response of its provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    cassettes_option,
    normalise_option,
    upstream_options,
)
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.reissuing import build_reissue_settings, run_interruptibly
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.diff.exchanges import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Strictness,
    compare_exchanges,
)
from llm_proxy.diff.words import format_word_diff
from llm_proxy.display import count_with_noun
from llm_proxy.errors import UsageError
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library.library import Library

_LIVE_LABEL: Final = "the live answer"
_KIND_COLUMNS: Final = 10
"""Width of the kind of a difference."""
_MAX_INLINE_CHARS: Final = 40
"""Up to so many characters, two values are shown side by side; longer ones as a word diff."""
_MAX_VALUE_CHARS: Final = 300
"""Characters of a value that are shown."""
_WORD_DIFF_KINDS: Final = frozenset(
    (DifferenceKind.REQUEST, DifferenceKind.CONTENT, DifferenceKind.BYTES)
)
"""Kinds whose values may be long and mostly the same."""


@click.command
@click.argument("cassette")
@click.argument("other", required=False)
@cassettes_option
@CONFIG_OPTION
@normalise_option
@upstream_options
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
    first = library.load_cassette(find_cassette_path(library, cassette))
    rules = values.pop("normalise")
    second = (
        library.load_cassette(find_cassette_path(library, other))
        if other
        else _cassette_of_live_response(first, values, rules)
    )
    strictness: Strictness = "shape" if values["shape"] else "live" if live else "exact"
    comparison = compare_exchanges(first, second, strictness, parse_rules(rules))
    if values["as_json"]:
        print_json(_diff_document(comparison))
    else:
        print_lines(_diff_lines(comparison))
        print_note(_summary_line(comparison))
    raise click.exceptions.Exit(0 if comparison.is_same else 1)


def _cassette_of_live_response(
    cassette: Cassette, option_values: dict[str, Any], rules: tuple[str, ...]
) -> Cassette:
    from llm_proxy.shell.reissuing.reissuer import check_api_keys, fetch_live_response  # noqa: PLC0415 # only for --live

    reissue_settings = build_reissue_settings(option_values, rules)
    check_api_keys(reissue_settings, {cassette.meta.provider})
    return replace(
        run_interruptibly(fetch_live_response(reissue_settings, cassette)), file=_LIVE_LABEL
    )


def _diff_lines(comparison: ExchangeComparison) -> Iterator[Line]:
    yield styled_line(StyledText(f"- {display.path_as_unicode_text(comparison.first_file)}", "bad"))
    yield styled_line(
        StyledText(f"+ {display.path_as_unicode_text(comparison.second_file)}", "good")
    )
    significant = [difference for difference in comparison.differences if difference.is_significant]
    insignificant = [
        difference for difference in comparison.differences if not difference.is_significant
    ]
    yield from map(_difference_line, significant)
    if insignificant:
        yield styled_line(StyledText(_insignificant_heading(comparison.strictness), "dim"))
        yield from map(_difference_line, insignificant)


def _insignificant_heading(strictness: Strictness) -> str:
    if strictness == "exact":
        return "different, and no matter:"
    return "different by nature, and no matter:"


def _difference_line(exchange_difference: ExchangeDifference) -> Line:
    style = "bold" if exchange_difference.is_significant else "dim"
    return styled_line(
        StyledText(f"{exchange_difference.kind.value:<{_KIND_COLUMNS}}", style),
        f"{exchange_difference.path}  {_value_change_text(exchange_difference)}",
    )


def _value_change_text(exchange_difference: ExchangeDifference) -> str:
    if not exchange_difference.first_value or not exchange_difference.second_value:
        sign, value = (
            ("+", exchange_difference.second_value)
            if exchange_difference.second_value
            else ("-", exchange_difference.first_value)
        )
        return f"{sign} {_displayed_value(value)}"
    has_words = " " in exchange_difference.first_value and " " in exchange_difference.second_value
    if (
        exchange_difference.kind in _WORD_DIFF_KINDS
        and has_words
        and max(len(exchange_difference.first_value), len(exchange_difference.second_value))
        > _MAX_INLINE_CHARS
    ):
        return format_word_diff(exchange_difference.first_value, exchange_difference.second_value)
    one, other = exchange_difference.first_value, exchange_difference.second_value
    return f"{_displayed_value(one)} → {_displayed_value(other)}"


def _displayed_value(value: str) -> str:
    return display.truncate_to_width(display.escape_line(value), _MAX_VALUE_CHARS)


def _summary_line(comparison: ExchangeComparison) -> str:
    if comparison.is_same:
        more = ", but for what is no matter" if comparison.differences else ""
        return f"the same{more}"
    return count_with_noun(
        sum(difference.is_significant for difference in comparison.differences), "difference"
    )


def _diff_document(comparison: ExchangeComparison) -> dict[str, Any]:
    return {
        "one": display.path_as_unicode_text(comparison.first_file),
        "other": display.path_as_unicode_text(comparison.second_file),
        "manner": comparison.strictness,
        "same": comparison.is_same,
        "differences": [
            {
                "kind": difference.kind.value,
                "where": difference.path,
                "one": difference.first_value,
                "other": difference.second_value,
                "counts": difference.is_significant,
            }
            for difference in comparison.differences
        ],
    }
