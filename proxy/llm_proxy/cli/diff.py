"""`diff`: compares two cassettes, or a cassette and a live response of its provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from llm_proxy import display
from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.cassette_views import cassette_dialect
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
from llm_proxy.cli.output import (
    Line,
    StyledText,
    losses_note,
    print_json,
    print_lines,
    print_note,
)
from llm_proxy.diff.documents import format_word_diff
from llm_proxy.diff.exchanges import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Strictness,
    compare_exchanges,
)
from llm_proxy.errors import NotRepresentable, UsageError
from llm_proxy.reissue import check_redaction
from llm_proxy.shell.library.library import Library
from llm_proxy.transcoding.requests import request_target, transcode_request

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing import ReissueSettings

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
@click.option("--as", "target", metavar="NAME",
              help="With --live: convert for this dialect or provider.")  # fmt: skip
@click.option("--model", metavar="NAME", help="With --as: the model of the request.")
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

    With --live --as NAME, the request is converted and sent to another provider. NAME is a dialect
    such as anthropic, or a provider such as mistral. Only text, reasoning, tool calls, finish
    reason and usage are compared.

    \b
    Examples:
      llm-proxy diff dc8593ff1ee7bb84-1 dc8593ff1ee7bb84-2
      llm-proxy diff dc8593 --live
      llm-proxy diff dc8593 --live --shape --json
      llm-proxy diff dc8593 --live --as anthropic --model claude-haiku-4-5
      llm-proxy diff old.jsonl new.jsonl --normalise uuids

    The exit code is 1 if there is a significant difference.
    """
    if live == (other is not None):
        raise UsageError(
            "name two cassettes (llm-proxy diff A B), or one cassette and "
            "--live (llm-proxy diff A --live)"
        )
    _check_target_options(values, is_live=live)
    library = Library(cassettes)
    first = load_named_cassette(library, cassette)
    losses: tuple[str, ...] = ()
    if other:
        second = load_named_cassette(library, other)
    elif values["target"] is not None:
        second, losses = _response_of_other_provider(first, values)
    else:
        second = _live_response(first, build_reissue_settings(values))
    strictness: Strictness = "shape" if values["shape"] else "live" if live else "exact"
    if values["target"] is not None:
        strictness = "turns"
    comparison = compare_exchanges(first, second, strictness, values["normalise"])
    if values["as_json"]:
        print_json(_diff_document(comparison) | {"not_converted": list(losses)})
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


def _check_target_options(values: Mapping[str, Any], *, is_live: bool) -> None:
    """Raise `UsageError` for `--as` or `--model` without the options that they need."""
    if values["target"] is None:
        if values["model"] is not None:
            raise UsageError("--model requires --as")
        return
    if not is_live:
        raise UsageError("--as requires --live")
    if values["shape"]:
        raise UsageError("--shape compares responses of one dialect; omit --shape or --as")
    if not values["model"]:
        raise UsageError(
            f"--as {values['target']}: the recorded model may not exist there; set --model NAME"
        )


def _live_response(cassette: Cassette, settings: ReissueSettings) -> Cassette:
    """The current response to this request."""
    from llm_proxy.shell.reissuing import check_api_keys, fetch_live_response  # noqa: PLC0415 # only for --live

    check_api_keys(settings, {cassette.meta.provider})
    return replace(run_interruptibly(fetch_live_response(settings, cassette)), file=_LIVE_LABEL)


def _response_of_other_provider(
    cassette: Cassette, values: Mapping[str, Any]
) -> tuple[Cassette, tuple[str, ...]]:
    """The response to the converted request, and what was not converted.

    Raises `UsageError` for an unknown target, `CassetteError` for a redacted request, and
    `NotRepresentable` for one that cannot be converted.
    """
    target = request_target(values["target"])
    check_redaction(cassette.file, cassette.request, has_api_key=True)
    try:
        transcoded = transcode_request(
            cassette.request,
            cassette_dialect(cassette),
            cassette.meta.provider,
            target,
            values["model"],
        )
    except NotRepresentable as error:
        raise NotRepresentable(f"{cassette.file}: {error}; no request was sent") from None
    request = transcoded.request
    converted = replace(
        cassette,
        meta=msgspec.structs.replace(cassette.meta, provider=target.provider),
        request=StoredRequest(
            request.method, request.path, request.query, request.headers, request.body
        ),
    )
    response = _live_response(converted, build_reissue_settings(values))
    note = f"{cassette.file} converted to {target.dialect.name} and sent to {target.provider}"
    print_note(note + losses_note(transcoded.losses))
    return response, transcoded.losses


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
