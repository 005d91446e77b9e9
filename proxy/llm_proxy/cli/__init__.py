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
    "Run": {
        "record": CommandEntry("serve", "Forward requests and record every response."),
        "replay": CommandEntry("serve", "Respond from cassettes, without any network access."),
        "auto": CommandEntry("serve", "Replay recorded requests; record the others."),
        "simulate": CommandEntry("serve", "Respond with scenarios, a mock or generated responses."),
        "chat": CommandEntry("chat", "Send a prompt to a provider and print the response."),
        "models": CommandEntry("models", "List, download, show and delete models."),
        "reset": CommandEntry("reset", "Restart a session of a running proxy."),
    },
    "Cassettes": {
        "ls": CommandEntry("ls", "List cassettes."),
        "show": CommandEntry("show", "Show the contents of a cassette."),
        "diff": CommandEntry("diff", "Compare cassettes, or one with a new response."),
        "explain": CommandEntry("explain", "Show why a request does or does not match."),
        "import": CommandEntry("import_", "Import recordings from other tools.", "import_"),
        "export": CommandEntry("export", "Convert cassettes to other formats."),
    },
    "Library upkeep": {
        "verify": CommandEntry("verify", "Check cassettes for damage."),
        "stats": CommandEntry("stats", "Show counts, sizes, ages and duplicates."),
        "prune": CommandEntry("prune", "Delete old or unused cassettes."),
        "rerecord": CommandEntry("rerecord", "Record existing cassettes again."),
        "rekey": CommandEntry("rekey", "Update cassettes after matching rules change."),
        "recover": CommandEntry("recover", "Recover recordings after a crash."),
    },
    "Secrets": {
        "scan": CommandEntry("scan", "Find secrets in cassettes and other files."),
        "scrub": CommandEntry("scrub", "Replace secrets in existing cassettes."),
    },
    "Scenarios": {
        "scenario": CommandEntry("scenario", "List, check, try and generate scenarios."),
        "schema": CommandEntry("schema", "Print the JSON Schema of scenarios or LLM tests."),
    },
    "Tests run by a model": {
        "llm-test": CommandEntry("llm_test", "Check test definitions, list tools.", "llm_test"),
    },
    "Faults and reports": {
        "chaos": CommandEntry("chaos", "Run a command under every fault."),
        "verdict": CommandEntry("verdict", "Check how clients handled the faults of a run."),
        "report": CommandEntry("report", "Summarise the journal of a run."),
    },
    "Setup": {
        "demo": CommandEntry("demo", "Record and replay a sample stream without a key."),
        "doctor": CommandEntry("doctor", "Check the installation and the library."),
    },
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
    sections=_COMMANDS,
    aliases=_VCR_MODE_ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run llm-proxy COMMAND --help for options and examples. To set an option for every run, "
    "set its environment variable (LLM_PROXY_PACE for --pace) or add the option to "
    "llm-proxy.toml.",
)
@click.version_option(__version__, message="llm-proxy %(version)s")
def cli() -> None:
    r"""Record and replay the HTTP traffic of LLM applications.

    llm-proxy sets OPENAI_BASE_URL and similar variables to the address of the proxy, then runs your
    command. The application needs no change:

    \b
      llm-proxy record -- python app.py     forward requests, record the responses
      llm-proxy ls                          list the recordings
      llm-proxy replay -- python app.py     replay them: no API key, no network
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
        from llm_proxy.cli.output import print_error  # noqa: PLC0415 # only for errors

        print_error(message)
    return exit_code
