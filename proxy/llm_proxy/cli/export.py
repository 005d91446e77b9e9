"""`export`: converts a response to another dialect, or writes exchanges for other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import dialects
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.library import load_named_cassette, read_cassettes
from llm_proxy.cli.options import CONFIG_OPTION, ChoiceType, cassettes_option, grouped_option
from llm_proxy.cli.output import losses_note, print_note, write_new_file_or_stdout
from llm_proxy.display import count_with_noun, folder_name
from llm_proxy.errors import CassetteError, NotRepresentable, UsageError
from llm_proxy.exchange import head_lines
from llm_proxy.exporting import FORMATS
from llm_proxy.exporting.format import (
    ExportedExchange,
    ExportFormat,
    exchange_url,
    placeholder_url,
    url_through_proxy,
)
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams
from llm_proxy.transcoding.responses import transcode_response

_DIALECT_OPTIONS: Final = ("whole", "model", "provider", "head")
_FORMAT_OPTIONS: Final = ("all_of_them", "upstream", "through")
_CHAT_DIALECTS: Final = dialects.chat_dialects()
_PROVIDER_VARIANTS: Final = tuple(
    dict.fromkeys(name for dialect in _CHAT_DIALECTS.values() for name in dialect.provider_variants)
)


_conversion_option = grouped_option("Conversion to another dialect")
_tools_option = grouped_option("Export for other tools")


@click.command(cls=GroupedCommand)
@click.argument("names", nargs=-1, metavar="CASSETTE...")
@cassettes_option
@CONFIG_OPTION
@_conversion_option("--as", "dialect", metavar="DIALECT", type=ChoiceType(tuple(_CHAT_DIALECTS)),
                    help=f"Convert to this dialect: {', '.join(_CHAT_DIALECTS)}.")  # fmt: skip
@_conversion_option("--whole", is_flag=True, help="Write one JSON document instead of a stream.")
@_conversion_option(
    "--model", default="", metavar="NAME", help="Model name to write in the response."
)
@_conversion_option("--provider", metavar="NAME", type=ChoiceType(_PROVIDER_VARIANTS),
                    help="Use the variant of the dialect for this provider.")  # fmt: skip
@_conversion_option("--head", is_flag=True, help="Include the status line and headers.")
@_tools_option("--format", "format_", type=ChoiceType(tuple(FORMATS)),
               help="Write the exchanges in this file format.")  # fmt: skip
@_tools_option("--all", "all_of_them", is_flag=True,
               help="Export all cassettes (only with har and vcr).")  # fmt: skip
@_tools_option("--upstream", multiple=True, metavar="NAME=URL",
               help="Base URL of a provider. Repeatable.")  # fmt: skip
@_tools_option("--through", default="", metavar="URL",
               help="Replace the provider's address with this proxy URL.")  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write to a new FILE.  [default: stdout]")  # fmt: skip
def export(names: tuple[str, ...], cassettes: Path, output: Path | None, **values: Any) -> None:
    r"""Convert a recorded response to another dialect, or export exchanges for other tools.

    --as converts the text, tool calls, finish reason and usage of a response to the dialect of
    another provider. The output contains new ids. Data that the dialect cannot represent is
    reported on stderr.

    The formats of --format are har (HTTP Archive 1.2, with times), vcr (a VCR.py cassette), sse
    (the recorded event stream) and curl (a command that sends the request). The curl command reads
    the API key from the environment. The output contains placeholders for redacted values.

    A CASSETTE is a file, or the first characters of a cassette's name or key.

    \b
    Examples:
      llm-proxy export dc8593 --as anthropic
      llm-proxy export dc8593 --as gemini --whole | jq .candidates
      llm-proxy export dc8593 --as openai-chat --provider openrouter --output chat.sse
      llm-proxy export --all --format har --output library.har
      llm-proxy export dc8593 --format vcr --output cassette.yaml
      llm-proxy export dc8593 --format curl | sh
      llm-proxy export dc8593 --format curl --through http://127.0.0.1:4777
    """
    dialect, name = values["dialect"], values["format_"]
    if (dialect is None) == (name is None):
        raise UsageError("set either --as DIALECT or --format FORMAT")
    library = Library(cassettes)
    if name is not None:
        _refuse_options(values, _DIALECT_OPTIONS, "--as")
        data = _formatted_bytes(library, FORMATS[name], names, values)
        write_new_file_or_stdout(data, output, "the export")
        return
    _refuse_options(values, _FORMAT_OPTIONS, "--format")
    if len(names) != 1:
        raise UsageError("--as converts one cassette at a time; specify exactly one cassette")
    data, note = _transcoded_bytes(library, names[0], values)
    write_new_file_or_stdout(data, output, "the response")
    print_note(note)


def _transcoded_bytes(library: Library, name: str, values: Mapping[str, Any]) -> tuple[bytes, str]:
    """A response in another dialect, and the note about it.  Raises `UsageError`."""
    dialect = _CHAT_DIALECTS[values["dialect"]]
    if values["provider"] not in (None, *dialect.provider_variants):
        speakers = (name for name, other in _CHAT_DIALECTS.items() if other.provider_variants)
        raise UsageError(
            f"--as {dialect.name} does not support --provider; use --provider with --as "
            f"{', '.join(speakers)}"
        )
    if not values["model"].isprintable():
        raise UsageError("--model: the name contains unprintable characters")
    cassette = load_named_cassette(library, name)
    transcoded = transcode_response(
        cassette,
        dialect,
        stream=not values["whole"],
        model=values["model"],
        provider=values["provider"] or "",
    )
    data = transcoded.response.body
    if values["head"]:
        lines = (*head_lines(transcoded.response.head), "", "")
        data = "\r\n".join(lines).encode("latin-1") + data
    note = f"{cassette.file} converted to {dialect.name}; the bytes differ from the recording"
    return data, note + losses_note(transcoded.losses)


def _formatted_bytes(
    library: Library, format_: ExportFormat, names: Sequence[str], values: Mapping[str, Any]
) -> bytes:
    """The selected exchanges as the content of a file in this format.

    Raises `UsageError` for an invalid or empty selection, and `NotRepresentable` for what the
    format cannot hold.
    """
    is_all = values["all_of_them"]
    if bool(names) == is_all:
        raise UsageError("name the cassettes to export, or set --all")
    if not format_.allows_several and (is_all or len(names) > 1):
        raise UsageError(
            f"--format {format_.name} exports one cassette at a time; specify exactly one cassette"
        )
    cassettes = [load_named_cassette(library, name) for name in names]
    if is_all:
        for _, cassette in read_cassettes(library, list(walk_cassettes(library.root))):
            if isinstance(cassette, CassetteError):
                print_note(f"skipped {cassette}")
            else:
                cassettes.append(cassette)
        cassettes.sort(key=lambda cassette: (cassette.meta.session, cassette.meta.recorded_at))
    if not cassettes:
        raise UsageError(
            f"no cassettes in {folder_name(library.root)}; record one with llm-proxy record"
        )
    kept: list[Cassette] = []
    problems: list[str] = []
    for cassette in cassettes:
        outcome = cassette_outcome(cassette)
        if format_.allows_incomplete_response or outcome.is_complete:
            kept.append(cassette)
        else:
            problems.append(
                f"{cassette.file}: {outcome}; --format {format_.name} exports only complete "
                "responses"
            )
    if not kept:
        raise NotRepresentable(problems[0])
    for problem in problems:
        print_note(f"skipped {problem}")
    data = format_.serialize(
        [ExportedExchange(cassette, _exported_url(cassette, format_, values)) for cassette in kept]
    )
    needs_secrets = format_.needs_real_url and any(
        cassette.request.redacted_count for cassette in kept
    )
    note = (
        "; the command contains placeholders for secrets; replace them before you run it"
        if needs_secrets
        else ""
    )
    print_note(f"{count_with_noun(len(kept), 'exchange')} exported as {format_.name}{note}")
    return data


def _exported_url(cassette: Cassette, format_: ExportFormat, values: Mapping[str, Any]) -> str:
    if values["through"]:
        return url_through_proxy(cassette, checked_http_url("--through", values["through"]))
    url = exchange_url(cassette, parse_upstreams(values["upstream"]))
    if url is None and format_.needs_real_url:
        name = cassette.meta.provider
        raise UsageError(
            f"the base URL of {name} is unknown; set --upstream {name}=URL or --through URL"
        )
    return url or placeholder_url(cassette)


def _refuse_options(
    values: dict[str, Any], refused_names: tuple[str, ...], required_option: str
) -> None:
    """Raise `UsageError` if one of these options was given: they need `required_option`."""
    for name in refused_names:
        if values[name]:
            raise UsageError(f"--{name.removesuffix('_of_them')} requires {required_option}")
