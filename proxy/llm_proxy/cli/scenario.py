"""`scenario`: lists and checks scenario files, tries them, and makes them of recordings."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from llm_proxy import dialects
from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup
from llm_proxy.cli.json_documents import mistake_document
from llm_proxy.cli.library import find_cassette_path
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    ChoiceType,
    cassettes_option,
    json_option,
    scenarios_option,
)
from llm_proxy.cli.output import (
    Line,
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
    write_new_file_or_stdout,
)
from llm_proxy.cli.show import labelled_texts
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.display import count_with_noun
from llm_proxy.errors import PatternsTooSlow, UsageError
from llm_proxy.exchange import Request
from llm_proxy.routing import SCENARIO_HEADER, SESSION_HEADER, RoutedRequest, route_request
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import (
    ChosenScenario,
    NoScenario,
    ScenarioSet,
    try_each_scenario,
)
from llm_proxy.scenario.engine.matcher import MatchContext, match_context_of
from llm_proxy.scenario.engine.mock import MockInvocation
from llm_proxy.scenario.recorded.from_cassettes import ScenarioOptions, generate_scenario
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.scenarios.files import load_scenarios
from llm_proxy.take_numbers import RequestCounter

_COMMANDS: Final = MappingProxyType(
    {
        "ls": CommandEntry("scenario", "List scenarios, one a row."),
        "try": CommandEntry("scenario", "Say which scenario answers a request.", "try_"),
        "from": CommandEntry("scenario", "Make a scenario of recorded exchanges.", "from_"),
        "lint": CommandEntry("scenario", "Check scenario files, and tell every mistake."),
    }
)
_LS_COLUMNS: Final = (
    TableColumn("scenario"),
    TableColumn("turns", is_right_aligned=True),
    TableColumn("description", drop_priority=1),
    TableColumn("place", drop_priority=2),
)


@click.group(cls=LazyCommandGroup, table=_COMMANDS)
def scenario() -> None:
    r"""List scenarios, check their files, and try them.

    A scenario scripts the answers of a conversation. Its file is YAML or JSON, and holds one
    scenario, a list of them, or an object of scenarios and a mock.

    \b
    Examples:
      llm-proxy scenario ls
      llm-proxy scenario lint tests/scenarios
    """


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@json_option
def ls(paths: tuple[Path, ...], scenarios: Path, *, as_json: bool) -> None:
    r"""List scenarios, one a row.

    A request asks for a scenario by its id, in the first message of the user. PATHS are files
    and folders; without them the folder of --scenarios is listed. A file with mistakes is told,
    and makes the exit code 1.

    \b
    Examples:
      llm-proxy scenario ls
      llm-proxy scenario ls tests/scenarios/refund.yaml
      llm-proxy scenario ls --json | jq -r '.scenarios[].id'
    """
    loaded = load_scenarios(paths or (scenarios,))
    if as_json:
        document = {
            "scenarios": [
                {
                    "id": scenario.value.id,
                    "turns": [step.turn for step in scenario.value.turns],
                    "description": scenario.value.description,
                    "file": scenario.file,
                    "line": scenario.line,
                }
                for scenario in loaded.scenarios
            ],
            "mock": None if loaded.mock is None else loaded.mock.name,
            "mistakes": [mistake_document(mistake) for mistake in loaded.mistakes],
        }
        print_json(document)
    else:
        rows = [
            (
                scenario.value.id,
                str(len(scenario.value.turns)),
                scenario.value.description,
                f"{scenario.file}:{scenario.line}",
            )
            for scenario in loaded.scenarios
        ]
        if rows:
            print_table(_LS_COLUMNS, rows)
        print_lines(StyledText(f"mistake: {mistake}", "bad") for mistake in loaded.mistakes)
        parts = [count_with_noun(len(loaded.scenarios), "scenario")]
        if loaded.mock is not None:
            parts.append(f"the mock {loaded.mock.name}")
        if loaded.mistakes:
            parts.append(count_with_noun(len(loaded.mistakes), "mistake"))
        print_note(", ".join(parts))
    raise click.exceptions.Exit(1 if loaded.mistakes else 0)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@json_option
def lint(paths: tuple[Path, ...], scenarios: Path, *, strict: bool, as_json: bool) -> None:
    r"""Check scenario files, and tell every mistake at once.

    PATHS are files and folders; without them the folder of --scenarios is checked. Each mistake
    is one line FILE:LINE:COLUMN: PATH: WHY on stdout, and makes the exit code 1; warnings say so
    at the end of their line.

    \b
    Examples:
      llm-proxy scenario lint
      llm-proxy scenario lint tests/scenarios --strict
      git diff --name-only --diff-filter=d '*.yaml' | xargs -r llm-proxy scenario lint
    """
    loaded = load_scenarios(paths or (scenarios,))
    failing = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    warnings = [warning for warning in loaded.warnings if not warning.fails_lint]
    fine = not failing and not (strict and warnings)
    if as_json:
        problems = list(map(mistake_document, (*failing, *warnings)))
        print_json({"ok": fine, "scenarios": len(loaded.scenarios), "problems": problems})
    else:
        print_lines(StyledText(str(mistake), "bad") for mistake in failing)
        print_lines((f"{warning} ", StyledText("(warning)", "dim")) for warning in warnings)
        count = count_with_noun(len(loaded.scenarios), "scenario")
        found = [
            count_with_noun(len(mistakes), noun)
            for mistakes, noun in ((failing, "mistake"), (warnings, "warning"))
            if mistakes
        ]
        print_note(
            f"{' and '.join(found)}; {count} can be played"
            if found
            else f"{count} checked, nothing is wrong"
        )
    raise click.exceptions.Exit(0 if fine else 1)


@click.command("from")
@click.argument("names", nargs=-1, required=True, metavar="CASSETTE...")
@cassettes_option
@CONFIG_OPTION
@click.option("--id", "name", default="", metavar="ID", help="The scenario's id; else it is made.")
@click.option("--exact", is_flag=True, help="Expect the recorded temperature and top_p too.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it to FILE, which must not exist yet; else to stdout.",
)
def from_(
    names: tuple[str, ...], cassettes: Path, name: str, output: Path | None, *, exact: bool
) -> None:
    r"""Make a scenario of recorded exchanges.

    The scenario plays the same conversation, and is meant to be edited by hand. The same
    application finds it without naming it, by what its user says. The tools that were offered are
    expected; nothing else of a request is checked. What a scenario cannot say is named on stderr.
    CASSETTE is a file, or the beginning of its name in the library, or of its key; several are the
    turns of one conversation.

    \b
    Examples:
      llm-proxy scenario from dc8593
      llm-proxy scenario from dc8593 aa77e9 --id refund --output scenarios/refund.yaml
    """
    if name != name.strip() or not name.isprintable():
        raise UsageError(f"--id must be printable, without blanks around it: {name!r} is not")
    library = Library(cassettes)
    files = dict.fromkeys(find_cassette_path(library, text) for text in names)
    generated_scenario = generate_scenario(
        [library.load_cassette(file) for file in files], ScenarioOptions(name, exact)
    )
    write_new_file_or_stdout(generated_scenario.yaml_text.encode(), output, "the scenario")
    for note in generated_scenario.omission_notes:
        print_note(note)


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
def try_(file: Path, request: Path, dialect: str, path: str, session: str, scenario: str) -> None:
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
    sent = _load_request(request, dialect, path)
    for header, value in ((SESSION_HEADER, session), (SCENARIO_HEADER, scenario)):
        if value:
            sent = replace(sent, headers=(*sent.headers, (header, value)))
    routed = route_request(sent, 0.0, lambda: 0.0)
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
    for trial in try_each_scenario(scenario_set, context, chosen, time.thread_time):
        located = trial.located_scenario
        style, verb = ("good", "answers: ") if trial.is_chosen else ("dim", "does not: ")
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


def _scripted_response(
    scenario_set: ScenarioSet, context: MatchContext, chosen: ChosenScenario | NoScenario
) -> ScriptedResponse:
    if not isinstance(chosen, NoScenario):
        return scripting.scripted_response(chosen, context, RequestCounter())
    if scenario_set.mock is None or chosen.is_explicit:
        message = choosing.no_scenario_message(scenario_set, chosen)
        return scripting.error_turn_response(message, context)
    mock_response = mock.mock_response(MockInvocation(scenario_set.mock, 1), context)
    return replace(mock_response, origin=f"{mock_response.origin}, call 1")


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
        case SendTurns(response_turns=turns):
            representable = routed.dialect.representable_turns(
                routed.decompressed_request, turns, EncodeContext("try", 0)
            )
            for turn in representable.turns:
                for name, text in labelled_texts(turn):
                    for line in text.splitlines() or [""]:
                        yield f"{name}: {line}" if name else f"  {line}"
