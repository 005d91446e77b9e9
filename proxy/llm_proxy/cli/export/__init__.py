"""`export`: converts a cassette to another dialect, or writes it in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import dialects
from llm_proxy.cli.export.foreign_formats import ExportSelection, export_bytes
from llm_proxy.cli.export.transcoded import check_transcode_options, losses_note, response_bytes
from llm_proxy.cli.option_types import ChoiceType
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.output.files import write_new_file_or_stdout
from llm_proxy.cli.output.printing import print_note
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER
from llm_proxy.errors import UsageError
from llm_proxy.exporting import FORMATS
from llm_proxy.shell.library.library import Library
from llm_proxy.transcoding import TranscodeOptions, transcode

_DIALECT_OPTIONS: Final = ("whole", "model", "provider", "head")
_FORMAT_OPTIONS: Final = ("all_of_them", "upstream", "through")


@click.command
@click.argument("names", nargs=-1, metavar="CASSETTE...")
@cassettes_option
@CONFIG_OPTION
@click.option("--as", "dialect", type=ChoiceType(tuple(dialects.chat_dialects())),
              help="The dialect to tell it in.")  # fmt: skip
@click.option("--whole", is_flag=True, help="With --as: one document, not a stream.")
@click.option("--model", default="", metavar="NAME", help="With --as: name another model.")
@click.option("--provider", type=ChoiceType(tuple(VARIANT_BY_PROVIDER)),
              help="With --as: the member of the dialect's family that speaks, such as "
                   "openrouter.")  # fmt: skip
@click.option("--head", is_flag=True, help="With --as: status line and headers before the body.")
@click.option("--format", "format_", type=ChoiceType(tuple(FORMATS)),
              help="The format to write it in.")  # fmt: skip
@click.option("--all", "all_of_them", is_flag=True,
              help="With --format har or vcr: every cassette of the library.")  # fmt: skip
@click.option("--upstream", multiple=True, metavar="NAME=URL",
              help="With --format: where a provider is, for the URLs. Repeatable.")  # fmt: skip
@click.option("--through", default="", metavar="URL",
              help="With --format: ask by way of the proxy that listens there.")  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write it to FILE, which must not exist yet; else to stdout.")  # fmt: skip
def export(names: tuple[str, ...], cassettes: Path, output: Path | None, **values: Any) -> None:
    r"""Tell a recorded answer in another dialect, or write recordings for another tool.

    --as is a re-telling, not a replay: the same words, calls, finish and usage as another
    provider would stream them. What that dialect has no words for is left out, and named on
    stderr. Recorded bytes and times stay in the cassette; in another dialect, ids are made anew.

    --format writes what was recorded: har (HTTP Archive 1.2, with times), vcr (a cassette of
    VCR.py: answers come whole), sse (a stream as it came), curl (a command that asks again, its
    key in the environment). What was redacted stays redacted.
    A CASSETTE is a file, or the beginning of its name in the library, or of its key.

    \b
    Examples:
      llm-proxy export dc8593 --as anthropic
      llm-proxy export dc8593 --as gemini --whole | jq .candidates
      llm-proxy export dc8593 --as openai-chat --provider openrouter --output told.sse
      llm-proxy export --all --format har --output library.har
      llm-proxy export dc8593 --format vcr --output cassette.yaml
      llm-proxy export dc8593 --format curl | sh
      llm-proxy export dc8593 --format curl --through http://127.0.0.1:4777
    """
    dialect, name = values["dialect"], values["format_"]
    if (dialect is None) == (name is None):
        raise UsageError("export takes one of --as DIALECT and --format FORMAT")
    library = Library(cassettes)
    if name is not None:
        _refuse_options(values, _DIALECT_OPTIONS, "--as")
        selection = ExportSelection(
            names,
            is_all=values["all_of_them"],
            upstream_pairs=values["upstream"],
            proxy_url=values["through"],
        )
        write_new_file_or_stdout(
            export_bytes(library, FORMATS[name], selection), output, "the file"
        )
        return
    _refuse_options(values, _FORMAT_OPTIONS, "--format")
    if len(names) != 1:
        raise UsageError("--as is of one cassette: name one")
    transcode_options = TranscodeOptions(
        dialect, values["whole"], values["model"], values["provider"] or ""
    )
    check_transcode_options(transcode_options)
    cassette = library.load_cassette(find_cassette_path(library, names[0]))
    transcoded_response = transcode(cassette, transcode_options)
    write_new_file_or_stdout(
        response_bytes(transcoded_response.response, with_head=values["head"]), output, "the answer"
    )
    print_note(
        f"{cassette.file}, told again as {transcode_options.dialect_name}: not a "
        f"replay{losses_note(transcoded_response)}"
    )


def _refuse_options(
    values: dict[str, Any], refused_names: tuple[str, ...], required_option: str
) -> None:
    """Raise `UsageError` if one of these options was given: they need `required_option`."""
    for name in refused_names:
        if values[name]:
            raise UsageError(f"--{name.removesuffix('_of_them')} goes with {required_option}")
