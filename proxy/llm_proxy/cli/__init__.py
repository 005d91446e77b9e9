"""The command line.  Commands are imported when they run, and heavy libraries when they are used.

Exit codes: 0 success; 1 a check failed; 2 usage or configuration error; 130 Ctrl-C; 141 SIGPIPE
(the reader of stdout is gone); else the exit code of the child process.
"""

from __future__ import annotations

import signal
import sys
from typing import Final

import click

from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup, click_error_message
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.version import __version__

_COMMANDS: Final = {
    "record": CommandEntry("serve", "Pass requests on to the live provider and keep every stream."),
    "replay": CommandEntry("serve", "Answer from cassettes alone, with no network at all."),
    "auto": CommandEntry("serve", "Replay what is there, record what is not."),
    "simulate": CommandEntry("serve", "Answer from scenarios, a mock, or made-up text."),
    "chaos": CommandEntry("chaos", "Run a command once for each fault, and judge it."),
    "ls": CommandEntry("ls", "List the cassettes of a library."),
    "stats": CommandEntry("stats", "Tell a library in figures: counts, sizes, ages, duplicates."),
    "prune": CommandEntry("prune", "Delete cassettes that nobody needs any more."),
    "show": CommandEntry("show", "Show one cassette: what was said, and when each byte came."),
    "diff": CommandEntry("diff", "Compare two cassettes, or one with what is answered today."),
    "import": CommandEntry(
        "import_", "Make cassettes or scenarios of other tools' files.", "import_"
    ),
    "explain": CommandEntry("explain", "Say which cassette answers a request, or why none does."),
    "export": CommandEntry("export", "Tell a recorded answer again in another dialect."),
    "rerecord": CommandEntry(
        "rerecord", "Ask recorded requests again, and replace their cassettes."
    ),
    "scan": CommandEntry("scan", "Find secrets in cassettes and other files."),
    "scrub": CommandEntry("scrub", "Replace secrets in cassettes that are there already."),
    "verify": CommandEntry("verify", "Check that every cassette is whole and consistent."),
    "rekey": CommandEntry("rekey", "Name cassettes by the rules that you match by now."),
    "recover": CommandEntry("recover", "Make cassettes of recordings that a crash broke off."),
    "verdict": CommandEntry("verdict", "Judge the clients of a run: what each made of its faults."),
    "report": CommandEntry("report", "Tell a run in figures: answers, times, faults."),
    "demo": CommandEntry("demo", "Record a stream, stop the provider, replay it; needs no key."),
    "scenario": CommandEntry("scenario", "List scenarios, and check their files."),
    "schema": CommandEntry("schema", "Print the JSON Schema of scenario files, for editors."),
    "doctor": CommandEntry("doctor", "Check this machine and this library for trouble."),
}

_VCR_MODE_ALIASES: Final = {
    "none": "replay",
    "all": "record",
    "new_episodes": "auto",
    "once": "auto",
}
"""VCR's names of the record modes, each with our mode."""


@click.group(
    cls=LazyCommandGroup,
    table=_COMMANDS,
    aliases=_VCR_MODE_ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has a --help with examples. Begin with: llm-proxy demo",
)
@click.version_option(__version__, message="llm-proxy %(version)s")
def cli() -> None:
    r"""Record live LLM streams, and play them back exactly: offline, at any pace.

    An application sets OPENAI_BASE_URL (or its provider's twin) to the proxy and notices
    nothing. Put your command behind two dashes and that is done for you:

    \b
      llm-proxy record -- python app.py     keep what the provider answers
      llm-proxy ls                          see what was kept
      llm-proxy replay -- python app.py     the same answers, no key, no network
    """


def main() -> None:
    """Entry point of the console script: runs `cli`, reports errors, exits with its code."""
    try:
        exit_code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        exit_code = error.exit_code
    except click.ClickException as error:
        exit_code = _report_error(click_error_message(error), error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        exit_code = 130
    except UsageError as error:
        exit_code = _report_error(str(error), getattr(error, "code", 2))
    except LlmProxyError as error:
        exit_code = _report_error(str(error), 1)
    except SystemExit:  # raised by click on EPIPE: the reader of stdout is gone
        exit_code = 128 + signal.SIGPIPE
    sys.exit(exit_code or 0)


def _report_error(message: str, exit_code: int) -> int:
    """Log the message, or print it to stderr where no log handler is set; return `exit_code`."""
    import logging  # noqa: PLC0415 # only for errors

    log = logging.getLogger("llm_proxy")
    if log.handlers:
        log.error("%s", message)
    else:
        click.echo(f"llm-proxy: {message}", err=True)
    return exit_code
