"""`scenario from`: generates a scenario that plays what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from llm_proxy.cli.library import find_cassette_path
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.output import print_note, write_new_file_or_stdout
from llm_proxy.errors import UsageError
from llm_proxy.scenario.recorded import generate_scenario
from llm_proxy.shell.library.library import Library


@click.command("from")
@click.argument("names", nargs=-1, required=True, metavar="CASSETTE...")
@cassettes_option
@CONFIG_OPTION
@click.option(
    "--id", "name", default="", metavar="ID", help="ID of the scenario (default: generated)."
)
@click.option("--exact", is_flag=True, help="Also require the recorded temperature and top_p.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a new file instead of stdout.",
)
def from_(
    names: tuple[str, ...], cassettes: Path, name: str, output: Path | None, *, exact: bool
) -> None:
    r"""Create a scenario from cassettes.

    CASSETTE is a file, or the first characters of a cassette's name or key.
    Several cassettes become the turns of one conversation.

    The scenario matches requests that contain the recorded user text. These requests must also
    define the recorded tools. To change the responses or the conditions, edit the file. Recorded
    data that a scenario cannot contain is reported on stderr.

    \b
    Examples:
      llm-proxy scenario from dc8593
      llm-proxy scenario from dc8593 aa77e9 --id refund --output scenarios/refund.yaml
    """
    if name != name.strip() or not name.isprintable():
        raise UsageError(
            f"--id: {name!r} contains non-printable characters, or starts or ends with white space"
        )
    library = Library(cassettes)
    files = dict.fromkeys(find_cassette_path(library, text) for text in names)
    generated_scenario = generate_scenario(
        [library.load_cassette(file) for file in files], name, expects_sampling=exact
    )
    write_new_file_or_stdout(generated_scenario.yaml_text.encode(), output, "the scenario")
    for note in generated_scenario.omission_notes:
        print_note(note)
