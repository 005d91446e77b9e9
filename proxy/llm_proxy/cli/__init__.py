"""The command line.  Commands are imported when they run, and heavy libraries when they are used.

Exit codes: 0 fine; 1 a check failed; 2 usage or configuration; 130 Ctrl-C; 141 nobody reads what
is printed; else the child's own.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from llm_proxy.cli.mistakes import no_such_command, sentence
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.version import __version__


class _Command(NamedTuple):
    module: str
    help: str


_COMMANDS: Final = {
    "record": _Command("serve", "Pass requests on to the live provider and keep every stream."),
    "replay": _Command("serve", "Answer from cassettes alone, with no network at all."),
    "auto": _Command("serve", "Replay what is there, record what is not."),
    "simulate": _Command("serve", "Answer from scenarios, a mock, or made-up text."),
    "ls": _Command("ls", "List the cassettes of a library."),
    "show": _Command("show", "Show one cassette: what was said, and when each byte came."),
    "export": _Command("export", "Tell a recorded answer again in another dialect."),
    "verify": _Command("verify", "Check that every cassette is whole and consistent."),
    "recover": _Command("recover", "Make cassettes of recordings that a crash broke off."),
    "demo": _Command("demo", "Record a stream, stop the provider, replay it; needs no key."),
    "doctor": _Command("doctor", "Check this machine and this library for trouble."),
}

_ALIASES: Final = {
    "none": "replay",
    "all": "record",
    "new_episodes": "auto",
    "once": "auto",
}
"""VCR's words for the modes."""


class _Commands(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in _COMMANDS:
            return None
        module = import_module(f"llm_proxy.cli.{_COMMANDS[name].module}")
        command: click.Command = getattr(module, name)
        command.help = _verbatim(command.help)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, it.help) for name, it in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and args[0] not in _ALIASES and args[0][:1] != "-":
            raise UsageError(no_such_command(args[0], _COMMANDS, _ALIASES))
        name, command, rest = super().resolve_command(ctx, args)
        return command.name if command is not None else name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and (name := ctx.invoked_subcommand):
                # click's parser does not say whose options it read
                command = self.get_command(ctx, name) or self
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def _verbatim(text: str | None) -> str | None:
    r"""`text` with click's mark for a paragraph to be left as it is; docstrings spell it `\b`."""
    return text and text.replace("\\b\n", "\b\n")


@click.group(
    cls=_Commands,
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


cli.help = _verbatim(cli.help)


def main() -> None:
    """The console script."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        code = _complain(sentence(error), error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except UsageError as error:
        code = _complain(str(error), getattr(error, "code", 2))
    except LlmProxyError as error:
        code = _complain(str(error), 1)
    except SystemExit:  # click's answer when nobody reads stdout any more
        code = 128 + signal.SIGPIPE
    sys.exit(code or 0)


def _complain(message: str, code: int) -> int:
    """Say what is wrong, in the log where there is one already; gives the exit code."""
    import logging  # noqa: PLC0415 # only for bad news

    log = logging.getLogger("llm_proxy")
    if log.handlers:
        log.error("%s", message)
    else:
        click.echo(f"llm-proxy: {message}", err=True)
    return code
