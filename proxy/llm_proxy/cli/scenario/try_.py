"""`scenario try`: which scenario answers a request, why, and what it says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from llm_proxy import dialects
from llm_proxy.cli.option_types import OneOf
from llm_proxy.cli.output.printing import Line, Span, print_lines
from llm_proxy.cli.show.turn_text import turn_text
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.errors import TooSlow, UsageError
from llm_proxy.exchange import Request
from llm_proxy.routing import SCENARIO_HEADER, SESSION_HEADER, Call, route
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import Chosen, Unknown
from llm_proxy.scenario.engine.failure_counter import Attempts
from llm_proxy.scenario.engine.match_context import Cue, cue_of
from llm_proxy.scenario.engine.mock import MockCalled
from llm_proxy.scenario.engine.scenario_set import Script, Scripted
from llm_proxy.scenario.engine.trials import Trial, trials
from llm_proxy.scenario.scripted_response import Direction, Exhausted, Fail, Say
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.scenarios.files import loaded

_CASSETTE: Final = ".jsonl"


@click.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("request", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--as",
    "dialect",
    type=OneOf(tuple(dialects.speakers())),
    default="openai-chat",
    show_default=True,
    help="The dialect that the request is in.",
)
@click.option("--path", default="", help="Its path, where another than that dialect's usual one.")
@click.option("--session", default="", metavar="NAME", help="The session that it belongs to.")
@click.option("--scenario", default="", metavar="ID", help="The scenario that its header names.")
def try_(file: Path, request: Path, dialect: str, path: str, **named: str) -> None:
    r"""Say which scenario answers a request, why, and what it says.

    FILE is a scenario document, or a folder of them. REQUEST is the JSON body of a request, - for
    stdin, or a cassette whose request it is. A mock of the files answers what no scenario does.
    Nothing is counted: the first attempt is shown, and the first call of a mock. The exit code is
    1 where neither answers, or not this request as it is.

    \b
    Examples:
      llm-proxy scenario try scenarios/ request.json
      llm-proxy scenario try refund.yaml request.json --as anthropic
      echo '{"messages":[{"role":"user","content":"refund"}]}' |
        llm-proxy scenario try refund.yaml -
    """
    found = loaded((file,))
    if found.mistakes:
        raise UsageError("\n  ".join(map(str, found.mistakes)))
    scripted = (Scripted(it.value, it.file, it.line) for it in found.scenarios)
    script = Script(tuple(scripted), found.mock)
    call = _call(_request(request, dialect, path), **named)
    conversation = call.dialect.conversation(call.plain)
    if conversation is None:
        raise UsageError(f"{request} asks for no turn in {call.dialect.name}; see --as and --path")
    cue = cue_of(call, conversation, "")
    try:
        chosen = choosing.choose(script, cue, time.thread_time)
        direction = _direction(script, cue, chosen)
    except TooSlow as error:  # answered with an error turn, as while serving
        chosen, direction = Unknown("", is_meant=False), scripting.error_turn(str(error), cue)
    print_lines(_trial(it) for it in trials(script, cue, chosen, time.thread_time))
    print_lines(_said(direction, call))
    failed = direction.unsuccessful or isinstance(direction.what, Exhausted)
    raise click.exceptions.Exit(1 if failed else 0)


def _request(file: Path, dialect: str, path: str) -> Request:
    """The request of a cassette, or one with this body."""
    if file.suffix == _CASSETTE:
        stored = Library(file.parent).load(file).request
        return Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    try:
        document = lenient_json.parse(body)
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{file} holds no JSON object: give the body of a request")
    streams = document.get("stream") is True
    typical = dialects.speakers()[dialect].typical(
        lenient_json.text(document.get("model")) or "model", stream=streams
    )
    return response_encoding.post(path or typical.path, dict(document))


def _call(request: Request, session: str, scenario: str) -> Call:
    named = ((SESSION_HEADER, session), (SCENARIO_HEADER, scenario))
    headers = (*request.headers, *(pair for pair in named if pair[1]))
    asked = Request(request.method, request.path, request.query, headers, request.body)
    return route(asked, 0.0, lambda: 0.0)


def _direction(script: Script, cue: Cue, chosen: Chosen | Unknown) -> Direction:
    if not isinstance(chosen, Unknown):
        return scripting.direct(chosen, cue, Attempts())
    if script.mock is None or chosen.is_meant:
        return scripting.error_turn(choosing.complaint(script, chosen), cue)
    first = mock.direct(MockCalled(script.mock, 1), cue)
    return replace(first, source=f"{first.source}, call 1")


def _trial(it: Trial) -> Line:
    style = "good" if it.answers else "dim"
    verb = "answers: " if it.answers else "does not: "
    place = f"{it.scripted.file}:{it.scripted.line}"
    return (Span(it.scripted.scenario.id, style), Span(f"  ({place})  {verb}{it.why}"))


def _said(direction: Direction, call: Call) -> Iterator[Line]:
    """What is answered, as `show` tells a turn."""
    yield (Span(""),)
    yield (Span(direction.source),)
    if direction.unsuccessful:
        yield (Span(f"unsuccessful: {direction.unsuccessful}", "bad"),)
    for note in (*direction.notes, *direction.warnings):
        if note != direction.unsuccessful:
            yield (Span(f"note: {note}"),)
    match direction.what:
        case Fail(status=status, message=message):
            yield (Span(f"fails: {status}: {message}"),)
        case Exhausted(message):
            yield (Span(message),)
        case Say(turns=turns):
            for turn in call.dialect.fit(call.plain, turns, Delivery("try", 0)).turns:
                yield from (
                    (Span(f"{name}: {line}" if name else f"  {line}"),)
                    for name, text in turn_text(turn)
                    for line in text.splitlines() or [""]
                )
