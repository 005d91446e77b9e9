"""`export`: what a cassette holds, told again in another dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import dialects, heads
from llm_proxy.cli.option_types import OneOf
from llm_proxy.cli.options import CONFIG, cassettes
from llm_proxy.cli.output.files import write_new
from llm_proxy.cli.output.printing import print_note
from llm_proxy.cli.show.finding import find
from llm_proxy.dialects import Response
from llm_proxy.dialects.openai.family import FAMILY, SPOKEN
from llm_proxy.errors import UsageError
from llm_proxy.retelling import Manner, Retelling, retell
from llm_proxy.shell.library.library import Library

_SHOWN: Final = 8
"""Things left out that are named."""


@click.command
@click.argument("cassette")
@cassettes
@CONFIG
@click.option(
    "--as",
    "dialect",
    type=OneOf(tuple(dialects.speakers())),
    required=True,
    help="The dialect to tell it in.",
)
@click.option("--whole", is_flag=True, help="As one document, not as a stream.")
@click.option("--model", default="", metavar="NAME", help="Name another model.")
@click.option(
    "--provider",
    type=OneOf(tuple(FAMILY)),
    help="The member of the dialect's family that speaks, such as openrouter.",
)
@click.option("--head", is_flag=True, help="Status line and headers before the body.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it to FILE, which must not exist yet; else to stdout.",
)
def export(
    cassette: str,
    cassettes: Path,
    output: Path | None,
    provider: str | None,
    *,
    head: bool,
    **manner: Any,
) -> None:
    r"""Tell a recorded answer again in another dialect.

    It is a re-telling, not a replay: the same words, calls, finish and usage as another provider
    would stream them. What that dialect has no words for is left out, and named on stderr.
    Recorded bytes and times stay in the cassette; in another dialect, ids are made anew.
    CASSETTE is a file, or the beginning of its name in the library, or of its key.

    \b
    Examples:
      llm-proxy export dc8593 --as anthropic
      llm-proxy export dc8593 --as gemini --whole | jq .candidates
      llm-proxy export dc8593 --as openai-chat --provider openrouter --output told.sse
    """
    how = Manner(provider=provider or "", **manner)
    _check(how)
    library = Library(cassettes)
    it = library.load(find(library, cassette))
    told = retell(it, how)
    write_new(_bytes(told.response, with_head=head), output, "the answer")
    print_note(f"{it.file}, told again as {how.dialect}: not a replay{_left_out(told)}")


def _check(how: Manner) -> None:
    """Raise `UsageError` for what could not be told as it is asked for."""
    if how.provider and how.dialect not in SPOKEN:
        spoken = ", ".join(SPOKEN)
        raise UsageError(f"--provider chooses among those who speak {spoken}: not {how.dialect}")
    if not how.model.isprintable():
        raise UsageError("--model must be printable")


def _bytes(response: Response, *, with_head: bool) -> bytes:
    """The answer as it would be sent, but for HTTP's own framing."""
    body = b"".join(response.messages)
    lines = "\r\n".join((*heads.lines(response.head), "", "")).encode("latin-1")
    return lines + body if with_head else body


def _left_out(told: Retelling) -> str:
    """What the dialect has no words for."""
    if not told.lost:
        return ""
    more = f", and {len(told.lost) - _SHOWN} more" if len(told.lost) > _SHOWN else ""
    return f"; left out: {', '.join(told.lost[:_SHOWN])}{more}"
