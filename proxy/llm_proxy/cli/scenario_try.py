"""`scenario try`: shows which scenario answers a request, why, and its response."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from llm_proxy import dialects
from llm_proxy.cli.json_documents import read_json_object
from llm_proxy.cli.options import ChoiceType
from llm_proxy.cli.output import Line, StyledText, print_lines
from llm_proxy.cli.show import labelled_texts
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import PatternsTooSlow, UsageError
from llm_proxy.exchange import Request
from llm_proxy.routing import SCENARIO_HEADER, SESSION_HEADER, RoutedRequest, route_request
from llm_proxy.scenario import choosing, scripting
from llm_proxy.scenario.choosing import (
    ChosenScenario,
    MatchContext,
    NoScenario,
    ScenarioSet,
    match_context_of,
    try_each_scenario,
)
from llm_proxy.scenario.scripted_response import (
    MISMATCH_ERROR_TYPE,
    MISMATCH_STATUS,
    FailResponse,
    RefuseMismatch,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.scenarios import load_scenarios
from llm_proxy.take_numbers import RequestCounter


@click.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("request", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--as",
    "dialect",
    type=ChoiceType(tuple(dialects.chat_dialects())),
    default=dialects.DIALECTS[0].name,
    show_default=True,
    help="Dialect of the request.",
)
@click.option("--path", default="", help="Request path (default: the usual path for the dialect).")
@click.option("--session", default="", metavar="NAME", help="Session of the request.")
@click.option(
    "--scenario", default="", metavar="ID", help="Value of the header x-llm-proxy-scenario."
)
def try_(file: Path, request: Path, dialect: str, path: str, session: str, scenario: str) -> None:
    r"""Show which scenario responds to a request and why, and show the response.

    FILE is a scenario file or a folder. REQUEST is a JSON request body, a cassette, or - for stdin.
    If no scenario matches, the mock in the scenario files responds. The output shows the response
    to the first attempt of the turn, or the first reply of the mock. For a mismatch, the output
    shows the response with --on-mismatch auto.

    The exit code is 1 if no scenario or mock responds, or if the request fails a check of the
    scenario.

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
    sent = _load_request(request, dialect, path)
    for header, value in ((SESSION_HEADER, session), (SCENARIO_HEADER, scenario)):
        if value:
            sent = replace(sent, headers=(*sent.headers, (header, value)))
    routed = route_request(sent, 0.0, lambda: 0.0)
    conversation = routed.dialect.decode_request(routed.decompressed_request)
    if conversation is None:
        raise UsageError(
            f"{request} is not a chat request in the dialect {routed.dialect.name}; "
            "set the dialect with --as or the URL path with --path"
        )
    context = match_context_of(routed, conversation, "")
    try:
        chosen = choosing.choose_scenario(scenario_set, context, time.thread_time)
        response = _scripted_response(scenario_set, context, chosen)
    except PatternsTooSlow as error:  # a mismatch, as while serving
        chosen, response = (
            NoScenario("", is_explicit=False),
            scripting.error_turn_response(str(error), context),
        )
    response = scripting.apply_on_mismatch(response, conversation, "auto")
    for trial in try_each_scenario(scenario_set, context, chosen, time.thread_time):
        located = trial.located_scenario
        style, verb = ("good", "chosen: ") if trial.is_chosen else ("dim", "not chosen: ")
        place = f"  ({located.file}:{located.line})  {verb}{trial.reason}"
        print_lines([(StyledText(located.value.id, style), place)])
    print_lines(_response_lines(response, routed))
    failed = response.session_failure_reason or isinstance(
        response.scripted_action, ReportScriptExhausted
    )
    raise click.exceptions.Exit(1 if failed else 0)


def _load_request(file: Path, dialect: str, path: str) -> Request:
    if file.suffix == ".jsonl":
        return Library(file.parent).load_cassette(file).request
    document = read_json_object(str(file), "the body of a request")
    streams = document.get("stream") is True
    sample_request = dialects.chat_dialects()[dialect].sample_request(
        lenient_json.str_or_empty(document.get("model")) or "model", stream=streams
    )
    return response_encoding.json_post_request(path or sample_request.path, document)


def _scripted_response(
    scenario_set: ScenarioSet, context: MatchContext, chosen: ChosenScenario | NoScenario
) -> ScriptedResponse:
    if not isinstance(chosen, NoScenario):
        return scripting.scripted_response(chosen, context, RequestCounter())
    if scenario_set.mock is None or chosen.is_explicit:
        message = choosing.no_scenario_message(scenario_set, chosen)
        return scripting.error_turn_response(message, context)
    mock_response = scripting.mock_response(scenario_set.mock, 1, context)
    return replace(mock_response, origin=f"{mock_response.origin}, reply 1")


def _response_lines(response: ScriptedResponse, routed: RoutedRequest) -> Iterator[Line]:
    """The response as lines: its origin, notes, and its turns as `show` prints them."""
    yield ""
    yield response.origin
    if response.session_failure_reason:
        yield StyledText(f"unsuccessful: {response.session_failure_reason}", "bad")
    for note in (*response.journal_notes, *response.warnings):
        if note != response.session_failure_reason:
            yield f"note: {note}"
    match response.scripted_action:
        case FailResponse(failure_status=status, message=message):
            yield f"fails: {status}: {message}"
        case ReportScriptExhausted(message):
            yield message
        case RefuseMismatch():
            yield f"fails: HTTP {MISMATCH_STATUS}, {MISMATCH_ERROR_TYPE}"
        case SendTurns(response_turns=turns):
            representable = routed.dialect.representable_turns(
                routed.decompressed_request, turns, EncodeContext("try", 0)
            )
            for turn in representable.turns:
                for name, text in labelled_texts(turn):
                    for line in text.splitlines() or [""]:
                        yield f"{name}: {line}" if name else f"  {line}"
