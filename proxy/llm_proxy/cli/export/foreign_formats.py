"""Recorded exchanges in the formats of other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette
from llm_proxy.cli.library.cassettes import read_all
from llm_proxy.cli.output.printing import print_note
from llm_proxy.cli.show.lookup import find
from llm_proxy.display import counted
from llm_proxy.errors import CannotSay, CassetteError, UsageError
from llm_proxy.exporting import Exported, Format, invented_url, url_of, url_through
from llm_proxy.outcome import outcome
from llm_proxy.shell.library.library import Library, files_below
from llm_proxy.shell.running.settings import checked_url, parse_upstreams


@dataclass(frozen=True, slots=True)
class Selection:
    """Which exchanges, and where they were."""

    names: tuple[str, ...]
    all_of_them: bool
    upstream: tuple[str, ...]
    through: str
    """The address of a proxy of ours; empty for the providers' own."""


def written(library: Library, format_: Format, chosen: Selection) -> bytes:
    """The chosen exchanges as a file of this format.

    Raises `UsageError` for a choice that makes none, and `CannotSay` for what it cannot hold.
    """
    _check(format_, chosen)
    found = list(_chosen(library, chosen))
    if not found:
        raise UsageError(f"{library.root} holds no cassettes: record one with llm-proxy record")
    kept = [it for it in found if format_.of_partial or outcome(it).complete]
    left = [it for it in found if it not in kept]
    if not kept:
        raise CannotSay(
            f"{left[0].file} is {outcome(left[0])}; as {format_.name} it would seem whole"
        )
    for it in left:
        print_note(f"left out: {it.file} is {outcome(it)}; as {format_.name} it would seem whole")
    data = format_.write([Exported(it, _url(it, format_, chosen)) for it in kept])
    print_note(f"{counted(len(kept), 'exchange')} as {format_.name}{_missing(kept, format_)}")
    return data


def _check(format_: Format, chosen: Selection) -> None:
    if bool(chosen.names) == chosen.all_of_them:
        raise UsageError("export needs to know which: name cassettes, or give --all")
    if not format_.of_many and (chosen.all_of_them or len(chosen.names) > 1):
        raise UsageError(f"--format {format_.name} is of one cassette: name one")


def _chosen(library: Library, chosen: Selection) -> Iterator[Cassette]:
    """In the order in which they are named; all of them in that of their recording."""
    if chosen.names:
        for name in chosen.names:
            yield library.load(find(library, name))
        return
    every: list[Cassette] = []
    for _, it in read_all(library, list(files_below(library.root))):
        match it:
            case Cassette():
                every.append(it)
            case CassetteError():
                print_note(f"left out: {it}")
    yield from sorted(every, key=lambda it: (it.meta.session, it.meta.recorded))


def _url(it: Cassette, format_: Format, chosen: Selection) -> str:
    if chosen.through:
        return url_through(it, checked_url("--through", chosen.through))
    url = url_of(it, parse_upstreams(chosen.upstream))
    if url is None and format_.needs_address:
        name = it.meta.provider
        raise UsageError(
            f"no address is known for {name}: give --upstream {name}=URL, or --through URL"
        )
    return url or invented_url(it)


def _missing(kept: Sequence[Cassette], format_: Format) -> str:
    """What a command would ask otherwise than it was asked."""
    replaced = any(it.request.redacted for it in kept)
    is_asked = format_.needs_address and replaced
    return "; secrets were taken out of its request: put them back" if is_asked else ""
