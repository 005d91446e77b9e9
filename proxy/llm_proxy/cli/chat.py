"""`chat`: sends a prompt to a provider and prints the response as it arrives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import aclosing

import click

from llm_chat import (
    ChatClient,
    ChatError,
    ChatOptions,
    ErrorEvent,
    ReasoningEvent,
    ResponseEnd,
    Retry,
    TextEvent,
    TokenLimitExceeded,
    TokenLimits,
    TokenLimitWarning,
    ToolCallStart,
    TurnComplete,
    providers_from_environment,
)
from llm_proxy import display
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.options import server_options
from llm_proxy.cli.output import is_stdout_terminal, print_note, write_stdout_bytes
from llm_proxy.errors import LlmProxyError, UsageError, name_hint


@click.command
@click.option("-p", "--provider", metavar="PROVIDER", help="Provider.  [default: openai]")
@click.option("-m", "--model", metavar="MODEL", help="Model.  [default: default]")
@click.argument("prompt")
@server_options("chat")
def chat(
    prompt: str,
    provider: str | None,
    model: str | None,
    token_limit: tuple[tuple[str, int], ...],
) -> None:
    r"""Send PROMPT to a provider and print the response as it arrives.

    The providers are openai, openai-responses, anthropic, ollama, and local (Ollama without retries
    and checks). Base URLs and API keys come from the variables that SDKs read, such as
    OPENAI_BASE_URL and OPENAI_API_KEY.

    The response goes to stdout; reasoning and messages go to stderr. The exit code is 1 if the
    request fails, or if the response is incomplete or has no text. A response that reaches its
    token limit is reported, and is no failure.

    A prompt with more tokens than the model accepts is not sent. The limit of an unknown model is
    4096 tokens; --token-limit sets another limit.

    \b
    Examples:
      llm-proxy chat -m gpt-4o-mini "Why is the sky blue?"
      llm-proxy record -- llm-proxy chat -m gpt-4o-mini "Why is the sky blue?"
      llm-proxy replay -- llm-proxy chat -m gpt-4o-mini "Why is the sky blue?"
      llm-proxy chat -p ollama -m llama3.2 "Why is the sky blue?" > answer.txt
    """
    if not prompt.strip():
        raise UsageError("PROMPT is empty; write the question after the options")
    defaults = ChatOptions()
    options = ChatOptions(provider=provider, model=model or defaults.model)
    try:
        run_until_signal(_print_response(prompt, options, dict(token_limit)))
    except TokenLimitExceeded as error:
        raise LlmProxyError(
            f"{error}; shorten the prompt, or set --token-limit {error.model}=TOKENS"
        ) from error
    except ChatError as error:
        raise LlmProxyError(str(error)) from error


async def _print_response(
    prompt: str, options: ChatOptions, token_limits: Mapping[str, int]
) -> None:
    registry = providers_from_environment()
    if options.provider is not None and registry.get(options.provider) is None:
        hint = name_hint(options.provider, registry.list())
        raise UsageError(f"unknown provider {options.provider!r}; {hint}")
    printer = _Printer()
    limits = TokenLimits().extended(token_limits)
    client = ChatClient(registry, token_limits=limits)
    async with client, aclosing(client.chat(prompt, options)) as events:
        try:
            async for event in events:
                match event:
                    case TextEvent(text):
                        printer.print_text(text)
                    case ReasoningEvent(text):
                        printer.print_reasoning(text)
                    case Retry(wait_s=wait_s, error=error):
                        print_note(f"{error}; retrying in {wait_s:.1f} s")
                    case TokenLimitWarning(model, tokens, limit):
                        print_note(f"{tokens:,} of {limit:,} tokens of {model} are used")
                    case TurnComplete(response=ResponseEnd() as response):
                        printer.end_line()
                        if response.reason == "length":
                            print_note("the response was cut off at its token limit")
                        elif not printer.has_text:
                            raise LlmProxyError(
                                "the response has no text (finish reason: "
                                f"{response.raw_reason or response.reason})"
                            )
                    case ToolCallStart(call):
                        raise LlmProxyError(
                            f"the model calls the tool {call.name!r}, but chat offers no tools; "
                            "choose another model"
                        )
                    case ErrorEvent():
                        raise LlmProxyError(str(event))
                    case _:
                        pass
        finally:
            printer.end_line()


class _Printer:
    """Prints pieces of text, and a line end after the last one."""

    def __init__(self) -> None:
        self._escapes = is_stdout_terminal()
        self._shows_reasoning = sys.stderr.isatty()
        self.has_text = False
        """Whether any text was printed on stdout."""
        self._is_reasoning = False
        self._is_line_open = False

    def print_text(self, text: str) -> None:
        """Print a piece of the response on stdout; on a terminal without control characters."""
        if self._is_reasoning:
            self.end_line()
        shown = display.escape_block(text) if self._escapes else text
        encoding = sys.stdout.encoding or "ascii"
        write_stdout_bytes(shown.encode(encoding, "backslashreplace"))
        self._is_line_open = not text.endswith("\n")
        self.has_text = True

    def print_reasoning(self, text: str) -> None:
        """Print a piece of the reasoning on stderr, if that is a terminal."""
        if self._shows_reasoning:
            click.echo(click.style(display.escape_block(text), dim=True), nl=False, err=True)
            self._is_reasoning = self._is_line_open = True

    def end_line(self) -> None:
        """End the line that was printed last."""
        if self._is_line_open:
            click.echo(err=self._is_reasoning)
        self._is_line_open = self._is_reasoning = False
