"""`export`: converts a cassette to another dialect, or writes it in the format of another tool.

Of a response in another dialect, the parts, the finish reason and the usage are transcoded.  Values
with a meaning for their own provider only (ids, its raw finish reason, error types, metadata,
reasoning signatures) are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import orjson

from llm_proxy import dialects
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome, cassette_response_turns
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.library import load_named_cassette, read_cassettes
from llm_proxy.cli.options import CONFIG_OPTION, ChoiceType, cassettes_option, grouped_option
from llm_proxy.cli.output import print_note, write_new_file_or_stdout
from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.turn_parts import TEXT_ARGUMENT_CALL_TYPES, is_provider_tool_call
from llm_proxy.display import count_with_noun, folder_name
from llm_proxy.errors import CassetteError, NotRepresentable, UsageError
from llm_proxy.exchange import head_lines, header_value
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
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Part,
    Reasoning,
    Text,
    TokenCounting,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_DIALECT_OPTIONS: Final = ("whole", "model", "provider", "head")
_FORMAT_OPTIONS: Final = ("all_of_them", "upstream", "through")
_CHAT_DIALECTS: Final = dialects.chat_dialects()
_PROVIDER_VARIANTS: Final = tuple(
    dict.fromkeys(name for dialect in _CHAT_DIALECTS.values() for name in dialect.provider_variants)
)
_MIN_ERROR_STATUS: Final = 400
"""From this status on, a response is an error."""
_MAX_RETRY_AFTER_DIGITS: Final = 10
"""A `Retry-After` of this many digits or more is no sensible delay, and is ignored."""
_GENERIC_HEADERS: Final = frozenset(
    ("connection", "content-encoding", "content-length", "content-type", "date", "retry-after",
     "server", "transfer-encoding")
)  # fmt: skip
"""Headers that carry no details of an error, or that are transcoded with it."""
_MAX_SHOWN_LOSSES: Final = 8
"""How many losses are named."""


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
    response, losses = _transcode(cassette, dialect, values)
    data = response.body
    if values["head"]:
        lines = (*head_lines(response.head), "", "")
        data = "\r\n".join(lines).encode("latin-1") + data
    note = f"{cassette.file} converted to {dialect.name}; the bytes differ from the recording"
    if losses:
        note += f"; not converted: {', '.join(losses[:_MAX_SHOWN_LOSSES])}"
        if len(losses) > _MAX_SHOWN_LOSSES:
            note += f", and {len(losses) - _MAX_SHOWN_LOSSES} more"
    return data, note


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


def _transcode(
    cassette: Cassette, dialect: Dialect, values: Mapping[str, Any]
) -> tuple[DialectResponse, list[str]]:
    """The response of a cassette in a chat dialect, and what that cannot represent, in words.

    Raises `NotRepresentable` if there is no turn, if the recording is partial, or if the dialect
    cannot represent it.
    """
    outcome = cassette_outcome(cassette)
    if not outcome.is_complete:
        raise NotRepresentable(f"{cassette.file}: {outcome}; --as converts only complete responses")
    turns = cassette_response_turns(cassette)
    if not turns:
        raise NotRepresentable(f"{cassette.file}: the response contains no turn to convert")
    recorded_dialect = cassette_dialect(cassette)
    losses: dict[str, None] = {}  # an ordered set
    if dialect.name != recorded_dialect.name:
        for turn in turns:
            losses |= dict.fromkeys(_describe_losses(turn))
        turns = tuple(map(_without_provider_parts, turns))
    turns = tuple(
        replace(
            turn,
            usage=turn.usage
            and _convert_token_counts(
                turn.usage, recorded_dialect.token_counting, dialect.token_counting
            ),
            model=values["model"] or turn.model or cassette.meta.model,
        )
        for turn in turns
    )
    try:
        recorded_unix_s = int(datetime.fromisoformat(cassette.meta.recorded_at).timestamp())
    except ValueError:
        recorded_unix_s = 0
    # Differs between takes of one request.
    seed = f"{cassette.meta.key} {cassette.response_end.sha256}"
    context = EncodeContext(seed, recorded_unix_s, provider=values["provider"] or "")
    head, failure = cassette.response_head, turns[0].failure
    if failure and head.status >= _MIN_ERROR_STATUS:
        # A date, or a number without sense, is ignored.
        retry_after = header_value(head.headers, "retry-after") or ""
        is_delay = retry_after.isdecimal() and len(retry_after) < _MAX_RETRY_AFTER_DIGITS
        response = dialect.error_response(
            head.status, failure, context, float(retry_after) if is_delay else None
        )
        if any(name.lower() not in _GENERIC_HEADERS for name, _ in head.headers):
            losses["provider-specific headers of the error"] = None
        return response, list(losses)
    request = dialect.sample_request(turns[0].model, stream=not values["whole"])
    conversion_losses = dialect.representable_turns(request, turns, context).losses
    response = dialect.encode_response(request, turns, context)
    return response, [*losses, *conversion_losses]


def _without_provider_parts(turn: Turn) -> Turn:
    """The turn without parts that only its own provider can read or run.

    Raises `NotRepresentable` if all tool calls that it waits for are of the provider's own tools.
    """
    answered_ids = {part.call_id for part in turn.parts if isinstance(part, ToolResult)}
    kept = [
        part for part in turn.parts if not is_provider_tool_call(part) or part.id in answered_ids
    ]
    calls = [
        part for part in turn.parts if isinstance(part, ToolCall) and part.id not in answered_ids
    ]
    if turn.finish is FinishReason.TOOL_CALLS and calls and not any(call in kept for call in calls):
        kinds = ", ".join(dict.fromkeys(str(dict(call.metadata)["type"]) for call in calls))
        raise NotRepresentable(
            f"the response contains tool calls that only the recorded dialect supports: {kinds}"
        )
    parts = tuple(replace(_portable_part(part), metadata=()) for part in kept)
    failure = turn.failure and Failure(turn.failure.message)
    return replace(turn, parts=parts, finish_raw="", failure=failure, id="", metadata=())


def _convert_token_counts(usage: Usage, source: TokenCounting, target: TokenCounting) -> Usage:
    if source == target:
        return usage
    cached, reasoning = (usage.cache_read or 0) + (usage.cache_write or 0), usage.reasoning or 0
    total = usage.total
    if not total and usage.input is not None and usage.output is not None:
        total = usage.input + usage.output
        total += cached * (not source.cache_is_input)
        total += reasoning * (not source.reasoning_is_output)
    input_change = cached * (target.cache_is_input - source.cache_is_input)
    output_change = reasoning * (target.reasoning_is_output - source.reasoning_is_output)
    return replace(
        usage,
        input=None if usage.input is None else max(usage.input + input_change, 0),
        output=None if usage.output is None else max(usage.output + output_change, 0),
        total=total,
    )


def _portable_part(part: Part) -> Part:
    """A part that any dialect can represent: without signature, tool arguments as an object.

    Plain text arguments become the `input` of an object.
    """
    match part:
        case Reasoning():
            return Reasoning(part.text)
        case Text():
            return replace(
                part, citations=tuple(replace(citation, metadata=()) for citation in part.citations)
            )
        case ToolCall() if dict(part.metadata).get("type") in TEXT_ARGUMENT_CALL_TYPES:
            return replace(part, arguments=orjson.dumps({"input": part.arguments}).decode())
        case _:
            return part


def _describe_losses(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        if isinstance(part, Reasoning) and (part.signature or part.redacted):
            yield "reasoning signatures"
        if is_provider_tool_call(part):
            yield "calls and results of the provider's own tools"
        if isinstance(part, ToolCall) and part.metadata:
            yield "provider-specific fields of tool calls"
    if turn.failure is not None and (turn.failure.type or turn.failure.code):
        yield "the error type"
    yield from (f"metadata {name}" for name, _ in turn.metadata)
