"""The server options, the same for every command that serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llm_proxy.ages import parse_max_age
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.option_types import CheckedTextType, ChoiceType, IntRangeType, SecondsType
from llm_proxy.cli.options.declaration import (
    PATH_TYPE,
    cassettes_option,
    env_option,
    match_option,
    normalise_option,
    spool_option,
)
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.pacing import parse_pace
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams

DEFAULT_PORT: Final = 4777


def _check_upstream(pair: str) -> None:
    """Raise `UsageError` for a pair that is not `NAME=URL`."""
    try:
        parse_upstreams((pair,))
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--upstream ")) from None


def _check_optional_url(url: str) -> None:
    """Raise `UsageError` for a text that is neither empty nor a plain http or https URL."""
    try:
        if url.strip():
            checked_http_url("", url.strip())
    except UsageError as error:
        raise UsageError(str(error).removeprefix(": ")) from None


def _check_fault_rule(text: str) -> None:
    """Raise `UsageError` for a text that is not a fault rule."""
    parse_rule(text)


def check_session_name(name: str) -> None:
    """Raise `UsageError` for an invalid session name."""
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable_excerpt(name, 100)}' is no session name: use letters, digits, dot, dash "
            "and underscore, at most 100 of them"
        )


SERVER_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    cassettes_option,
    env_option("--host", default="127.0.0.1", help="The address to listen on."),
    env_option("--port", type=IntRangeType(0, 65535),
            help=f"The port to listen on; 0 takes any free one.  [default: {DEFAULT_PORT}, or 0 "
                 "with a COMMAND]"),
    env_option("--port-file", type=PATH_TYPE, help="Write the port to this file once we listen."),
    env_option("--pace", default="recorded", type=CheckedTextType("pace", parse_pace),
            help="When answers go out: recorded, instant, 4x, 50tps, ttft=300ms,gap=30..80ms, "
                 "profile:gpt-4o, …; see docs/pacing.md."),
    env_option("--allow-partial", is_flag=True,
            help="Replay takes that are not complete too, ended as they ended."),
    env_option("--strict", is_flag=True,
            help="Exit with 1 when any request was a miss, or not as its scenario expects."),
    env_option("--journal", type=PATH_TYPE,
            help="At the end write to this file what was asked and answered: for verdict, report."),
    env_option("--max-body", type=IntRangeType(1), default=64 * 1024 * 1024,
            help="The largest request body, in bytes."),
    env_option("--allow-host", multiple=True, metavar="NAME",
            help="A further Host name that we answer for, such as a container's."),
    env_option("--allow-origin", multiple=True, metavar="ORIGIN",
            help="A web origin whose pages may use the proxy."),
    env_option("--log-format", type=ChoiceType(["text", "json"]), default="text",
            help="How the log on stderr is written."),
)  # fmt: skip
"""Options of all modes."""

UPSTREAM_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    env_option("--upstream", multiple=True, metavar="NAME=URL",
        type=CheckedTextType("upstream", _check_upstream),
            help="Where a provider is; `default` stands for all of them. Repeatable."),
    env_option("--upstream-proxy", metavar="URL", type=CheckedTextType("URL", _check_optional_url),
            help="An HTTP proxy on the way to the providers."),
    env_option("--sign", type=ChoiceType(["aws"]),
            help="Sign requests for Bedrock anew with your AWS credentials; needs botocore."),
    env_option("--idle-timeout", type=SecondsType(), default=300.0,
            help="The longest silence of a provider, in seconds."),
)  # fmt: skip
"""Options for requests to providers."""

LIVE_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    *UPSTREAM_OPTIONS,
    env_option("--finish-on-disconnect", is_flag=True,
            help="Read an answer to its end for the recording, also when the client has left."),
    spool_option,
)  # fmt: skip
"""Options of the modes that connect to a provider; without effect in the others."""

AFTER_LAST_OPTION: Final = env_option(
    "--after-last", type=ChoiceType(["repeat", "cycle", "fail"]), default="repeat",
    help="In replay: what answers a request that comes more often than it was recorded.",
)  # fmt: skip
ON_MISS_OPTION: Final = env_option(
    "--on-miss", type=ChoiceType(["record", "passthrough", "scenario", "fail"]),
    help="In auto and replay: what happens to a request that is not on disk.  [default: record in "
         "auto; in replay scenario where --scenarios, --mock or --respond is given, else fail]",
)  # fmt: skip


FAULT_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    env_option("--fault", multiple=True, metavar="RULE",
            type=CheckedTextType("rule", _check_fault_rule),
            help="What goes wrong, where, when and for whom: 'reset,after=3,nth=2'. Repeatable."),
    env_option("--faults", type=PATH_TYPE, metavar="FILE",
            help="A file of such rules: YAML or JSON, with a list called faults."),
    env_option("--fault-header", is_flag=True,
            help="Let a request bring rules along, in the header x-llm-proxy-fault."),
)  # fmt: skip
"""Options of fault injection."""

SIMULATION_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    env_option("--scenarios", type=PATH_TYPE, help="A scenario document, or a folder of them."),
    env_option("--mock", metavar="OPTIONS",
            help="A mock, as YAML or JSON: '{reply: Hello}', '{replies: [One, Two]}'."),
    env_option("--respond", metavar="MODULE:FUNCTION",
            help="Your function that says what a mock answers."),
    env_option("--on-unknown", type=ChoiceType(["error", "synthesis"]), default="error",
            help="What answers a request that no scenario does, where there are some."),
    env_option("--seed", type=IntRangeType(0), default=0, help="What ids and chance are made of."),
    env_option("--clock", type=ChoiceType(["fixed", "real"]), default="fixed",
            help="The time that answers name: the same in each run, or the machine's."),
    env_option("--silence", type=SecondsType(), default=660.0,
            help="When a scripted time-out, or the silence of a fault, ends for clients that "
                 "wait for ever, in seconds."),
)  # fmt: skip
"""Options of scripted, mocked and synthesized responses."""

MATCHING_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    env_option("--session", default=DEFAULT_SESSION, metavar="NAME",
           type=CheckedTextType("session", check_session_name), help="The session of requests "
                                                                     "that name none."),
    normalise_option,
    match_option,
    env_option("--collapse-retries", is_flag=True,
           help="Take a request that an SDK repeats for the one that it repeats: no take of its "
                "own."),
)  # fmt: skip
"""Options that decide which cassette answers a request."""

LIBRARY_CHECK_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    env_option("--fail-on-unused", is_flag=True,
           help="Exit with 1 when a cassette was not played in the run."),
    env_option("--max-age", metavar="AGE[,fail]", type=CheckedTextType("age", parse_max_age),
           help="Warn of cassettes that are played and older: 90d, 12w, 1y; with ',fail', exit "
                "with 1."),
)  # fmt: skip
"""Options that check the library at the end of a run."""

CONFIG_SETTING_NAMES: Final = (
    "cassettes", "host", "port", "port_file", "pace", "allow_partial", "strict", "max_body",
    "allow_host", "allow_origin", "log_format", "upstream", "upstream_proxy", "sign",
    "idle_timeout", "finish_on_disconnect", "spool", "after_last", "on_miss", "scenarios", "mock",
    "respond", "on_unknown", "seed", "clock", "silence", "fault", "faults", "fault_header",
    "journal", "session", "normalise", "match", "collapse_retries", "fail_on_unused", "max_age",
)  # fmt: skip
"""The names of all settings that a settings file may hold."""
