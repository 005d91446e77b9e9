"""`scenario try`: shows which scenario answers a request, why, and its response."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from llm_proxy import dialects
from llm_proxy.cli.option_types import ChoiceType
from llm_proxy.cli.output.printing import Line, StyledText, print_lines
from llm_proxy.cli.show.turn_text import labelled_texts
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import PatternsTooSlow, UsageError
from llm_proxy.exchange import Request
from llm_proxy.routing import SCENARIO_HEADER, SESSION_HEADER, RoutedRequest, route_request
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import (
    ChosenScenario,
    NoScenario,
    ScenarioSet,
    ScenarioTrial,
    try_each_scenario,
)
from llm_proxy.scenario.engine.matcher import MatchContext, match_context_of
from llm_proxy.scenario.engine.mock import MockInvocation
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.scenarios.files import load_scenarios
from llm_proxy.take_numbers import RequestCounter

_CASSETTE_SUFFIX: Final = ".jsonl"


@click.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("request", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--as",
    "dialect",
    type=ChoiceType(tuple(dialects.chat_dialects())),
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
    loaded = load_scenarios((file,))
    if loaded.mistakes:
        raise UsageError("\n  ".join(map(str, loaded.mistakes)))
    scenario_set = ScenarioSet(loaded.scenarios, loaded.mock)
    routed = _route_request(_load_request(request, dialect, path), **named)
    conversation = routed.dialect.decode_request(routed.decompressed_request)
    if conversation is None:
        raise UsageError(
            f"{request} asks for no turn in {routed.dialect.name}; see --as and --path"
        )
    context = match_context_of(routed, conversation, "")
    try:
        chosen = choosing.choose_scenario(scenario_set, context, time.thread_time)
        response = _scripted_response(scenario_set, context, chosen)
    except PatternsTooSlow as error:  # answered with an error turn, as while serving
        chosen, response = (
            NoScenario("", is_explicit=False),
            scripting.error_turn_response(str(error), context),
        )
    print_lines(
        _trial_row(try_scenario)
        for try_scenario in try_each_scenario(scenario_set, context, chosen, time.thread_time)
    )
    print_lines(_response_lines(response, routed))
    failed = response.session_failure_reason or isinstance(
        response.scripted_action, ReportScriptExhausted
    )
    raise click.exceptions.Exit(1 if failed else 0)


def _load_request(file: Path, dialect: str, path: str) -> Request:
    if file.suffix == _CASSETTE_SUFFIX:
        return Library(file.parent).load_cassette(file).request
    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    try:
        document = lenient_json.parse_json(body)
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{file} holds no JSON object: give the body of a request")
    streams = document.get("stream") is True
    sample_request = dialects.chat_dialects()[dialect].sample_request(
        lenient_json.str_or_empty(document.get("model")) or "model", stream=streams
    )
    return response_encoding.json_post_request(path or sample_request.path, dict(document))


def _route_request(request: Request, session: str, scenario: str) -> RoutedRequest:
    named = ((SESSION_HEADER, session), (SCENARIO_HEADER, scenario))
    headers = (*request.headers, *(pair for pair in named if pair[1]))
    sent = Request(request.method, request.path, request.query, headers, request.body)
    return route_request(sent, 0.0, lambda: 0.0)


def _scripted_response(
    scenario_set: ScenarioSet, context: MatchContext, chosen: ChosenScenario | NoScenario
) -> ScriptedResponse:
    if not isinstance(chosen, NoScenario):
        return scripting.scripted_response(chosen, context, RequestCounter())
    if scenario_set.mock is None or chosen.is_explicit:
        return scripting.error_turn_response(
            choosing.no_scenario_message(scenario_set, chosen), context
        )
    mock_response = mock.mock_response(MockInvocation(scenario_set.mock, 1), context)
    return replace(mock_response, origin=f"{mock_response.origin}, call 1")


def _trial_row(scenario_trial: ScenarioTrial) -> Line:
    style = "good" if scenario_trial.is_chosen else "dim"
    verb = "answers: " if scenario_trial.is_chosen else "does not: "
    place = f"{scenario_trial.located_scenario.file}:{scenario_trial.located_scenario.line}"
    return (
        StyledText(scenario_trial.located_scenario.value.id, style),
        StyledText(f"  ({place})  {verb}{scenario_trial.reason}"),
    )


def _response_lines(response: ScriptedResponse, routed: RoutedRequest) -> Iterator[Line]:
    """The response as lines: its origin, notes, and its turns as `show` prints them."""
    yield (StyledText(""),)
    yield (StyledText(response.origin),)
    if response.session_failure_reason:
        yield (StyledText(f"unsuccessful: {response.session_failure_reason}", "bad"),)
    for note in (*response.journal_notes, *response.warnings):
        if note != response.session_failure_reason:
            yield (StyledText(f"note: {note}"),)
    match response.scripted_action:
        case FailResponse(failure_status=status, message=message):
            yield (StyledText(f"fails: {status}: {message}"),)
        case ReportScriptExhausted(message):
            yield (StyledText(message),)
        case SendTurns(response_turns=turns):
            for turn in routed.dialect.representable_turns(
                routed.decompressed_request, turns, EncodeContext("try", 0)
            ).turns:
                yield from (
                    (StyledText(f"{name}: {line}" if name else f"  {line}"),)
                    for name, text in labelled_texts(turn)
                    for line in text.splitlines() or [""]
                )
