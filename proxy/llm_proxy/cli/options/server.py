"""The server options, the same on every command that serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llm_proxy.ages import parse_max_age
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.option_types import CheckedTextType, ChoiceType, CountType, SecondsType
from llm_proxy.cli.options.declaration import FOLDER, cassettes, match, normalise, option, spool
from llm_proxy.errors import UsageError, printable
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.pacing import parse_pace
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.running.settings import checked_http_url, parse_upstreams

PORT: Final = 4777


def _check_upstream(pair: str) -> None:
    """Raises `UsageError` for a pair that is no `NAME=URL`."""
    try:
        parse_upstreams((pair,))
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--upstream ")) from None


def _check_url(url: str) -> None:
    """Raises `UsageError` for what is no plain http or https URL; an empty text stands for none."""
    try:
        if url.strip():
            checked_http_url("", url.strip())
    except UsageError as error:
        raise UsageError(str(error).removeprefix(": ")) from None


def _check_fault(text: str) -> None:
    """Raises `UsageError` for a text that is no rule."""
    parse_rule(text)


def check_session_name(name: str) -> None:
    """Raises `UsageError` for what no session can be called."""
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable(name, 100)}' is no session name: use letters, digits, dot, dash and "
            "underscore, at most 100 of them"
        )


SERVER: Final[tuple[Callable[[Any], Any], ...]] = (
    cassettes,
    option("--host", default="127.0.0.1", help="The address to listen on."),
    option("--port", type=CountType(0, 65535),
            help=f"The port to listen on; 0 takes any free one.  [default: {PORT}, or 0 with a "
                 "COMMAND]"),
    option("--port-file", type=FOLDER, help="Write the port to this file once we listen."),
    option("--pace", default="recorded", type=CheckedTextType("pace", parse_pace),
            help="When answers go out: recorded, instant, 4x, 50tps, ttft=300ms,gap=30..80ms, "
                 "profile:gpt-4o, …; see docs/pacing.md."),
    option("--allow-partial", is_flag=True,
            help="Replay takes that are not complete too, ended as they ended."),
    option("--strict", is_flag=True,
            help="Exit with 1 when any request was a miss, or not as its scenario expects."),
    option("--journal", type=FOLDER,
            help="At the end write to this file what was asked and answered: for verdict, report."),
    option("--max-body", type=CountType(1), default=64 * 1024 * 1024,
            help="The largest request body, in bytes."),
    option("--allow-host", multiple=True, metavar="NAME",
            help="A further Host name that we answer for, such as a container's."),
    option("--allow-origin", multiple=True, metavar="ORIGIN",
            help="A web origin whose pages may use the proxy."),
    option("--log-format", type=ChoiceType(["text", "json"]), default="text",
            help="How the log on stderr is written."),
)  # fmt: skip
"""Options of all modes."""

ASKING: Final[tuple[Callable[[Any], Any], ...]] = (
    option("--upstream", multiple=True, metavar="NAME=URL",
        type=CheckedTextType("upstream", _check_upstream),
            help="Where a provider is; `default` stands for all of them. Repeatable."),
    option("--upstream-proxy", metavar="URL", type=CheckedTextType("URL", _check_url),
            help="An HTTP proxy on the way to the providers."),
    option("--sign", type=ChoiceType(["aws"]),
            help="Sign requests for Bedrock anew with your AWS credentials; needs botocore."),
    option("--idle-timeout", type=SecondsType(), default=300.0,
            help="The longest silence of a provider, in seconds."),
)  # fmt: skip
"""Options of how a provider is asked."""

LIVE: Final[tuple[Callable[[Any], Any], ...]] = (
    *ASKING,
    option("--finish-on-disconnect", is_flag=True,
            help="Read an answer to its end for the recording, also when the client has left."),
    spool,
)  # fmt: skip
"""Options of the modes that talk to a provider; without effect in the others."""

AFTER_LAST: Final = option(
    "--after-last", type=ChoiceType(["repeat", "cycle", "fail"]), default="repeat",
    help="In replay: what answers a request that comes more often than it was recorded.",
)  # fmt: skip
ON_MISS: Final = option(
    "--on-miss", type=ChoiceType(["record", "passthrough", "scenario", "fail"]),
    help="In auto and replay: what happens to a request that is not on disk.  [default: record in "
         "auto; in replay scenario where --scenarios, --mock or --respond is given, else fail]",
)  # fmt: skip


FAULTS: Final[tuple[Callable[[Any], Any], ...]] = (
    option("--fault", multiple=True, metavar="RULE", type=CheckedTextType("rule", _check_fault),
            help="What goes wrong, where, when and for whom: 'reset,after=3,nth=2'. Repeatable."),
    option("--faults", type=FOLDER, metavar="FILE",
            help="A file of such rules: YAML or JSON, with a list called faults."),
    option("--fault-header", is_flag=True,
            help="Let a request bring rules along, in the header x-llm-proxy-fault."),
)  # fmt: skip
"""Options of what goes wrong on the way to clients."""

SIMULATION: Final[tuple[Callable[[Any], Any], ...]] = (
    option("--scenarios", type=FOLDER, help="A scenario document, or a folder of them."),
    option("--mock", metavar="OPTIONS",
            help="A mock, as YAML or JSON: '{reply: Hello}', '{replies: [One, Two]}'."),
    option("--respond", metavar="MODULE:FUNCTION",
            help="Your function that says what a mock answers."),
    option("--on-unknown", type=ChoiceType(["error", "synthesis"]), default="error",
            help="What answers a request that no scenario does, where there are some."),
    option("--seed", type=CountType(0), default=0, help="What ids and chance are made of."),
    option("--clock", type=ChoiceType(["fixed", "real"]), default="fixed",
            help="The time that answers name: the same in each run, or the machine's."),
    option("--silence", type=SecondsType(), default=660.0,
            help="When a scripted time-out, or the silence of a fault, ends for clients that "
                 "wait for ever, in seconds."),
)  # fmt: skip
"""Options of answers that are scripted or made up."""

MATCHING: Final[tuple[Callable[[Any], Any], ...]] = (
    option("--session", default=DEFAULT_SESSION, metavar="NAME",
           type=CheckedTextType("session", check_session_name), help="The session of requests "
                                                                     "that name none."),
    normalise,
    match,
    option("--collapse-retries", is_flag=True,
           help="Take a request that an SDK repeats for the one that it repeats: no take of its "
                "own."),
)  # fmt: skip
"""Options of which cassette answers."""

CARE: Final[tuple[Callable[[Any], Any], ...]] = (
    option("--fail-on-unused", is_flag=True,
           help="Exit with 1 when a cassette was not played in the run."),
    option("--max-age", metavar="AGE[,fail]", type=CheckedTextType("age", parse_max_age),
           help="Warn of cassettes that are played and older: 90d, 12w, 1y; with ',fail', exit "
                "with 1."),
)  # fmt: skip
"""Options by which a library is kept in order."""

SERVER_NAMES: Final = (
    "cassettes", "host", "port", "port_file", "pace", "allow_partial", "strict", "max_body",
    "allow_host", "allow_origin", "log_format", "upstream", "upstream_proxy", "sign",
    "idle_timeout", "finish_on_disconnect", "spool", "after_last", "on_miss", "scenarios", "mock",
    "respond", "on_unknown", "seed", "clock", "silence", "fault", "faults", "fault_header",
    "journal", "session", "normalise", "match", "collapse_retries", "fail_on_unused", "max_age",
)  # fmt: skip
"""Every setting that a file may hold."""
