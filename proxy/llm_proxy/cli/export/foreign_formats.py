"""Exports recorded exchanges in the formats of other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette
from llm_proxy.cli.library.cassettes import read_cassettes
from llm_proxy.cli.output.printing import print_note
from llm_proxy.cli.show.lookup import find_cassette
from llm_proxy.display import count_noun
from llm_proxy.errors import CassetteError, NotRepresentable, UsageError
from llm_proxy.exporting import (
    ExportedExchange,
    ExportFormat,
    exchange_url,
    placeholder_url,
    url_through_proxy,
)
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.library import Library, cassette_files
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Which exchanges, and where they were."""

    names: tuple[str, ...]
    is_all: bool
    upstream: tuple[str, ...]
    proxy_url: str
    """The address of a proxy of ours; empty for the providers' own."""


def export_bytes(library: Library, format_: ExportFormat, chosen: ExportSelection) -> bytes:
    """The chosen exchanges as a file of this format.

    Raises `UsageError` for a choice that makes none, and `NotRepresentable` for what it cannot
    hold.
    """
    _check_selection(format_, chosen)
    found = list(_select_cassettes(library, chosen))
    if not found:
        raise UsageError(f"{library.root} holds no cassettes: record one with llm-proxy record")
    kept = [
        cassette for cassette in found if format_.takes_partial or outcome_of(cassette).complete
    ]
    left = [cassette for cassette in found if cassette not in kept]
    if not kept:
        raise NotRepresentable(
            f"{left[0].file} is {outcome_of(left[0])}; as {format_.name} it would seem whole"
        )
    for cassette in left:
        print_note(
            f"left out: {cassette.file} is {outcome_of(cassette)}; as {format_.name} it would "
            "seem whole"
        )
    data = format_.write(
        [
            ExportedExchange(cassette, _url_for_format(cassette, format_, chosen))
            for cassette in kept
        ]
    )
    print_note(
        f"{count_noun(len(kept), 'exchange')} as {format_.name}{_missing_in_command(kept, format_)}"
    )
    return data


def _check_selection(format_: ExportFormat, chosen: ExportSelection) -> None:
    if bool(chosen.names) == chosen.is_all:
        raise UsageError("export needs to know which: name cassettes, or give --all")
    if not format_.takes_many and (chosen.is_all or len(chosen.names) > 1):
        raise UsageError(f"--format {format_.name} is of one cassette: name one")


def _select_cassettes(library: Library, chosen: ExportSelection) -> Iterator[Cassette]:
    """In the order in which they are named; all of them in that of their recording."""
    if chosen.names:
        for name in chosen.names:
            yield library.load_cassette(find_cassette(library, name))
        return
    every: list[Cassette] = []
    for _, cassette in read_cassettes(library, list(cassette_files(library.root))):
        match cassette:
            case Cassette():
                every.append(cassette)
            case CassetteError():
                print_note(f"left out: {cassette}")
    yield from sorted(every, key=lambda it: (it.meta.session, it.meta.recorded))


def _url_for_format(cassette: Cassette, format_: ExportFormat, chosen: ExportSelection) -> str:
    if chosen.proxy_url:
        return url_through_proxy(cassette, checked_http_url("--through", chosen.proxy_url))
    url = exchange_url(cassette, parse_upstreams(chosen.upstream))
    if url is None and format_.needs_url:
        name = cassette.meta.provider
        raise UsageError(
            f"no address is known for {name}: give --upstream {name}=URL, or --through URL"
        )
    return url or placeholder_url(cassette)


def _missing_in_command(kept: Sequence[Cassette], format_: ExportFormat) -> str:
    replaced = any(cassette.request.redacted for cassette in kept)
    is_asked = format_.needs_url and replaced
    return "; secrets were taken out of its request: put them back" if is_asked else ""
