"""Exports recorded exchanges in the formats of other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette
from llm_proxy.cli.library.cassettes import read_cassettes
from llm_proxy.cli.output.printing import print_note
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, NotRepresentable, UsageError
from llm_proxy.exporting import (
    ExportedExchange,
    ExportFormat,
    exchange_url,
    placeholder_url,
    url_through_proxy,
)
from llm_proxy.outcome import cassette_outcome
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Which cassettes to export, and the base URLs for their requests."""

    names: tuple[str, ...]
    is_all: bool
    """Whether every cassette of the library is exported; `names` is then empty."""
    upstream_pairs: tuple[str, ...]
    """`NAME=URL` pairs: the base URLs of providers."""
    proxy_url: str
    """The URL of an llm-proxy to send requests to; empty for the providers' own."""


def export_bytes(library: Library, format_: ExportFormat, selection: ExportSelection) -> bytes:
    """The selected exchanges as the content of a file in this format.

    Raises `UsageError` for an invalid or empty selection, and `NotRepresentable` for what the
    format cannot hold.
    """
    _check_selection(format_, selection)
    cassettes = list(_select_cassettes(library, selection))
    if not cassettes:
        raise UsageError(f"{library.root} holds no cassettes: record one with llm-proxy record")
    kept = [
        cassette
        for cassette in cassettes
        if format_.allows_incomplete_response or cassette_outcome(cassette).is_complete
    ]
    left_out = [cassette for cassette in cassettes if cassette not in kept]
    if not kept:
        raise NotRepresentable(
            f"{left_out[0].file} is {cassette_outcome(left_out[0])}; as {format_.name} it "
            "would seem whole"
        )
    for cassette in left_out:
        print_note(
            f"left out: {cassette.file} is {cassette_outcome(cassette)}; as {format_.name} it "
            "would "
            "seem whole"
        )
    data = format_.serialize(
        [
            ExportedExchange(cassette, _exported_url(cassette, format_, selection))
            for cassette in kept
        ]
    )
    print_note(
        f"{count_with_noun(len(kept), 'exchange')} as "
        f"{format_.name}{_redaction_note(kept, format_)}"
    )
    return data


def _check_selection(format_: ExportFormat, selection: ExportSelection) -> None:
    if bool(selection.names) == selection.is_all:
        raise UsageError("export needs to know which: name cassettes, or give --all")
    if not format_.allows_several and (selection.is_all or len(selection.names) > 1):
        raise UsageError(f"--format {format_.name} is of one cassette: name one")


def _select_cassettes(library: Library, selection: ExportSelection) -> Iterator[Cassette]:
    """The cassettes in the order of `names`; all of them by session and recording time."""
    if selection.names:
        for name in selection.names:
            yield library.load_cassette(find_cassette_path(library, name))
        return
    every: list[Cassette] = []
    for _, cassette in read_cassettes(library, list(walk_cassettes(library.root))):
        match cassette:
            case Cassette():
                every.append(cassette)
            case CassetteError():
                print_note(f"left out: {cassette}")
    yield from sorted(
        every, key=lambda cassette: (cassette.meta.session, cassette.meta.recorded_at)
    )


def _exported_url(cassette: Cassette, format_: ExportFormat, selection: ExportSelection) -> str:
    if selection.proxy_url:
        return url_through_proxy(cassette, checked_http_url("--through", selection.proxy_url))
    url = exchange_url(cassette, parse_upstreams(selection.upstream_pairs))
    if url is None and format_.needs_real_url:
        name = cassette.meta.provider
        raise UsageError(
            f"no address is known for {name}: give --upstream {name}=URL, or --through URL"
        )
    return url or placeholder_url(cassette)


def _redaction_note(kept: Sequence[Cassette], format_: ExportFormat) -> str:
    replaced = any(cassette.request.redacted_count for cassette in kept)
    needs_secrets = format_.needs_real_url and replaced
    return "; secrets were taken out of its request: put them back" if needs_secrets else ""
