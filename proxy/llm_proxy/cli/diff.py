"""`diff`: compares two cassettes, or a cassette and a live response of its provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.interruption import run_interruptibly
from llm_proxy.cli.library import load_named_cassette
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    build_reissue_settings,
    cassettes_option,
    json_option,
    match_rules_option,
    upstream_options,
)
from llm_proxy.cli.output import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.diff.documents import format_word_diff
from llm_proxy.diff.exchanges import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Strictness,
    compare_exchanges,
)
from llm_proxy.errors import UsageError
from llm_proxy.shell.library.library import Library

_LIVE_LABEL: Final = "the live response"
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


@click.command(cls=GroupedCommand)
@click.argument("cassette")
@click.argument("other", required=False)
@cassettes_option
@CONFIG_OPTION
@match_rules_option
@upstream_options
@click.option("--live", is_flag=True, help="Compare with a new response from the provider.")
@click.option("--shape", is_flag=True, help="Compare only status, event types and fields.")
@json_option
def diff(cassette: str, other: str | None, cassettes: Path, *, live: bool, **values: Any) -> None:
    r"""Compare two cassettes, or a cassette and a live response.

    The comparison covers requests, all parts of responses, and times. Times are shown, but are
    never significant. Long texts are compared word by word: [-old-] {+new+}. CASSETTE and OTHER are
    files, or the first characters of a cassette's name or key.

    With --live, llm-proxy sends the stored request to the provider with the API key from your
    environment. The response is not recorded. Only differences in status, ending, event types,
    fields, model, finish reason and called tools are significant. Other differences are only shown.
    With --shape, only status, event types and fields are compared.

    \b
    Examples:
      llm-proxy diff dc8593ff1ee7bb84-1 dc8593ff1ee7bb84-2
      llm-proxy diff dc8593 --live
      llm-proxy diff dc8593 --live --shape --json
      llm-proxy diff old.jsonl new.jsonl --normalise uuids

    The exit code is 1 if there is a significant difference.
    """
    if live == (other is not None):
        raise UsageError(
            "name two cassettes (llm-proxy diff A B), or one cassette and "
            "--live (llm-proxy diff A --live)"
        )
    library = Library(cassettes)
    first = load_named_cassette(library, cassette)
    second = (
        load_named_cassette(library, other) if other else _cassette_of_live_response(first, values)
    )
    strictness: Strictness = "shape" if values["shape"] else "live" if live else "exact"
    comparison = compare_exchanges(first, second, strictness, values["normalise"])
    if values["as_json"]:
        print_json(_diff_document(comparison))
    else:
        print_lines(_diff_lines(comparison))
        count = sum(difference.is_significant for difference in comparison.differences)
        kind = " significant" if comparison.differences else ""
        print_note(
            f"no{kind} differences"
            if comparison.is_same
            else display.count_with_noun(count, "significant difference")
        )
    raise click.exceptions.Exit(0 if comparison.is_same else 1)


def _cassette_of_live_response(cassette: Cassette, values: dict[str, Any]) -> Cassette:
    from llm_proxy.shell.reissuing import check_api_keys, fetch_live_response  # noqa: PLC0415 # only for --live

    reissue_settings = build_reissue_settings(values)
    check_api_keys(reissue_settings, {cassette.meta.provider})
    return replace(
        run_interruptibly(fetch_live_response(reissue_settings, cassette)), file=_LIVE_LABEL
    )


def _diff_lines(comparison: ExchangeComparison) -> Iterator[Line]:
    yield StyledText(f"- {display.path_as_unicode_text(comparison.first_file)}", "bad")
    yield StyledText(f"+ {display.path_as_unicode_text(comparison.second_file)}", "good")
    differences = comparison.differences
    significant = [difference for difference in differences if difference.is_significant]
    yield from map(_difference_line, significant)
    if len(significant) < len(differences):
        yield StyledText("not significant:", "dim")
        yield from (_difference_line(each) for each in differences if not each.is_significant)


def _difference_line(difference: ExchangeDifference) -> Line:
    style = "bold" if difference.is_significant else "dim"
    return (
        StyledText(f"{difference.kind.value:<{_KIND_COLUMNS}}", style),
        f"{difference.path}  {_value_change_text(difference)}",
    )


def _value_change_text(difference: ExchangeDifference) -> str:
    first, second = difference.first_value, difference.second_value
    if not second:
        return f"- {_displayed_value(first)}"
    if not first:
        return f"+ {_displayed_value(second)}"
    if (
        difference.kind in _WORD_DIFF_KINDS
        and " " in first
        and " " in second
        and max(len(first), len(second)) > _MAX_INLINE_CHARS
    ):
        return format_word_diff(first, second)
    return f"{_displayed_value(first)} → {_displayed_value(second)}"


def _displayed_value(value: str) -> str:
    return display.truncate_to_width(display.escape_line(value), _MAX_VALUE_CHARS)


def _diff_document(comparison: ExchangeComparison) -> dict[str, Any]:
    return {
        "first": display.path_as_unicode_text(comparison.first_file),
        "second": display.path_as_unicode_text(comparison.second_file),
        "strictness": comparison.strictness,
        "same": comparison.is_same,
        "differences": [
            {
                "kind": difference.kind.value,
                "path": difference.path,
                "first": difference.first_value,
                "second": difference.second_value,
                "significant": difference.is_significant,
            }
            for difference in comparison.differences
        ],
    }
