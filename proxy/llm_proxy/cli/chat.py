"""`chat`: sends prompts to a provider, runs tools, and prints the responses as they arrive."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from llm_chat import (
    ChatClient,
    ChatError,
    ChatOptions,
    ErrorEvent,
    Finish,
    HttpProvider,
    Message,
    Part,
    ProviderRegistry,
    TextEvent,
    TokenLimitExceeded,
    TokenLimits,
    ToolCallStart,
    TurnComplete,
    providers_from_environment,
)
from llm_proxy.cli.chat_display import JsonDisplay, TextDisplay
from llm_proxy.cli.chat_inputs import import_tools, read_prompt, read_script
from llm_proxy.cli.chat_session import run_session
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.options import (
    PATH_TYPE,
    URL_VARIABLE,
    IntRangeType,
    ParsedType,
    server_options,
)
from llm_proxy.cli.output import is_stdout_terminal, reserved_stdout
from llm_proxy.errors import LlmProxyError, UsageError, name_hint
from llm_proxy.providers import DEFAULT_PROVIDER, PROVIDERS
from llm_proxy.shell.running.settings import parse_upstreams

_NUMBER: Final = (float, "a number")
_INTEGER: Final = (int, "an integer")
_OPTION_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "top_k": _INTEGER,
    "max_tokens": _INTEGER,
    "repeat_penalty": _NUMBER,
    "seed": _INTEGER,
    "stop_sequences": (tuple[str, ...], 'a list such as ["END"]'),
    "response_schema": (dict[str, Any], "a JSON Schema"),
}
"""The generation options of `ChatOptions`: their types, and what is expected."""


def _parse_option(text: str) -> tuple[str, Any]:
    """A name and a value: JSON, or else text."""
    name, equals, value_text = text.partition("=")
    if not name or not equals:
        raise UsageError(f"expected NAME=VALUE, such as temperature=0, got {text!r}")
    try:
        value = msgspec.json.decode(value_text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        value = value_text
    value_type, expected = _OPTION_TYPES.get(name, (Any, ""))
    try:
        return name, msgspec.convert(value, value_type)
    except msgspec.ValidationError:
        raise UsageError(f"{name}: expected {expected}, got {value_text!r}") from None


@click.command
@click.option("-p", "--provider", metavar="PROVIDER", help="Provider.  [default: openai]")
@click.option("-m", "--model", metavar="MODEL", help="Model.  [default: default]")
@click.option("-s", "--system", metavar="TEXT", default="", help="System prompt.")
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    type=PATH_TYPE,
    multiple=True,
    help="Text, image, audio, video or PDF to send; - is stdin. Repeatable.",
)
@click.option(
    "-o",
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    type=ParsedType("option", _parse_option),
    help="Request option such as temperature=0. Repeatable.",
)
@click.option(
    "--tools",
    metavar="MODULE:NAME",
    multiple=True,
    help="Python function that the model can call, or a list of them. Repeatable.",
)
@click.option("--react", is_flag=True, help="Call tools in plain text (ReAct).")
@click.option(
    "--max-turns",
    type=IntRangeType(1),
    metavar="N",
    default=10,
    show_default=True,
    help="Maximum responses to one prompt.",
)
@click.option(
    "--script",
    metavar="FILE",
    type=PATH_TYPE,
    help="Send the messages of a text or YAML file, one after the other.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the events as NDJSON.")
@click.argument("prompt", required=False)
@server_options("chat")  # fmt: skip
def chat(
    prompt: str | None,
    provider: str | None,
    model: str | None,
    system: str,
    files: tuple[Path, ...],
    options: tuple[tuple[str, Any], ...],
    tools: tuple[str, ...],
    max_turns: int,
    script: Path | None,
    upstream: tuple[str, ...],
    token_limit: tuple[tuple[str, int], ...],
    *,
    react: bool,
    as_json: bool,
) -> None:
    r"""Send PROMPT to a provider and print the response as it arrives.

    Without PROMPT and --file, the prompt is read from stdin; in a terminal, a conversation starts,
    in which Ctrl-C cancels a response and Ctrl-D ends the conversation.

    The response goes to stdout; reasoning, tool calls and messages go to stderr. The exit code is 1
    if a request fails, if a response is incomplete, or if no response has text. A response that
    reaches its token limit is reported, but is not a failure.

    The providers are openai, openai-responses, openai-completions, anthropic, gemini,
    gemini-interactions, cohere, bedrock, mistral, groq, deepseek, openrouter, xai, vllm, llamacpp,
    ollama, and local (Ollama without retries and checks).

    Base URLs and API keys come from the variables that SDKs read, such as OPENAI_BASE_URL and
    OPENAI_API_KEY; --upstream replaces a base URL. A prompt with more tokens than the model accepts
    is not sent. The limit of an unknown model is 4096 tokens; --token-limit sets another limit.

    A script is a text file with one message on each line, or a YAML list of messages.

    \b
    Examples:
      llm-proxy chat -p ollama -m llama3.2
      llm-proxy chat -m gpt-4o-mini -f report.pdf "Summarize this report."
      git diff | llm-proxy chat -m gpt-4o-mini -f - "Review this change."
      llm-proxy chat -m gpt-4o-mini --tools weather:get_weather "Is it raining in Oslo?"
      llm-proxy record -- llm-proxy chat -m gpt-4o-mini --script questions.yaml
    """
    if script is not None and (prompt is not None or files):
        raise UsageError("--script: cannot be combined with PROMPT or --file")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    is_session = prompt is None and script is None and not files and is_terminal
    if is_session and as_json:
        raise UsageError("--json needs PROMPT, --script, or a prompt on stdin")
    script_prompts = read_script(script) if script else ()
    parts = () if is_session or script else read_prompt(prompt, files)
    known = {name: value for name, value in options if name in _OPTION_TYPES}
    further = {name: value for name, value in options if name not in _OPTION_TYPES}
    defaults = ChatOptions()
    chat_options = replace(
        defaults,
        provider=provider,
        model=model or defaults.model,
        system_prompt=system,
        react=True if react else None,
        max_turns=max_turns,
        extra_fields=further,
        **known,
    )
    registry = providers_from_environment(upstreams=_upstreams(upstream))
    _check_provider(registry, provider)
    escapes = is_stdout_terminal()
    # What tools print is no part of the response.  The line editor of a session needs stdout.
    with nullcontext(sys.stdout) if is_session or not tools else reserved_stdout() as stdout:
        display = JsonDisplay(stdout) if as_json else TextDisplay(stdout, escapes=escapes)
        try:
            client = ChatClient(
                registry,
                tools=import_tools(tools),
                options=chat_options,
                token_limits=TokenLimits().extended(dict(token_limit)),
            )
        except ValueError as error:
            raise UsageError(f"--tools: {error}") from None
        prompts = _Prompts(client, display)
        if is_session:
            run_until_signal(prompts.run_session())
        elif script is not None:
            run_until_signal(prompts.run_script(script_prompts))
        else:
            run_until_signal(prompts.run_prompt(parts))


def _upstreams(pairs: Sequence[str]) -> dict[str, str]:
    """The base URLs of `--upstream`.

    Under a proxy, those of the settings are the proxy's: requests must not bypass it.  Raises
    `UsageError` for an unknown provider on the command line; settings may name others.
    """
    source = click.get_current_context().get_parameter_source("upstream")
    if source is not ParameterSource.COMMANDLINE:
        return {} if os.environ.get(URL_VARIABLE) else parse_upstreams(pairs)
    upstreams = parse_upstreams(pairs)
    known = [DEFAULT_PROVIDER, *(provider.name for provider in PROVIDERS)]
    for name in upstreams:
        if name not in known:
            hint = name_hint(name, known)
            raise UsageError(f"--upstream: unknown provider {name!r}; {hint}")
    return upstreams


def _check_provider(registry: ProviderRegistry, name: str | None) -> None:
    """Raise `UsageError` for an unknown provider, and for one that needs a key and has none."""
    provider = registry.get_default() if name is None else registry.get(name)
    if provider is None:
        raise UsageError(f"unknown provider {name!r}; {name_hint(name or '', registry.list())}")
    if isinstance(provider, HttpProvider) and (variable := provider.missing_key_variable):
        raise UsageError(
            f"{variable} is not set; set {variable}, or --upstream for a server without keys"
        )


class _Prompts:
    """Sends prompts, each of which continues the conversation, and prints the responses."""

    def __init__(self, client: ChatClient, display: TextDisplay | JsonDisplay) -> None:
        self._client = client
        self._display = display
        self._history: tuple[Message, ...] = ()

    async def run_prompt(self, prompt: Sequence[Part]) -> None:
        """Send one prompt."""
        async with self._client:
            await self.send(prompt)

    async def run_script(self, prompts: Sequence[str]) -> None:
        """Send prompts one after the other, until one fails."""
        async with self._client:
            for number, prompt in enumerate(prompts, 1):
                self._display.show_prompt(prompt)
                try:
                    await self.send(prompt)
                except LlmProxyError as error:
                    place = f"message {number} of {len(prompts)}"
                    raise type(error)(f"{place}: {error}") from error

    async def run_session(self) -> None:
        """Send the prompts that the user types."""
        async with self._client:
            await run_session(self.send, self.clear)

    def clear(self) -> None:
        """Forget the conversation."""
        self._history = ()

    async def send(self, prompt: str | Sequence[Part], cancel: asyncio.Event | None = None) -> bool:
        """Send a prompt and print the response; return whether it was cancelled.

        A prompt without a complete response is not in the conversation.  Raises `LlmProxyError`.
        """
        client, display = self._client, self._display
        last_error: ErrorEvent | None = None
        response: TurnComplete | None = None
        has_text = False
        chat_events = client.chat(prompt, history=self._history, cancel=cancel)
        try:
            async with aclosing(chat_events) as events:
                async for event in events:
                    display.show(event)
                    match event:
                        case ErrorEvent():
                            last_error = event
                        case TextEvent():
                            has_text = True
                        case ToolCallStart(call) if not client.tools:
                            raise LlmProxyError(
                                f"the model calls the tool {call.name!r}, but chat offers no "
                                "tools; set --tools"
                            )
                        case TurnComplete():
                            response = event
                        case Finish("cancelled"):
                            return True
                        case Finish("max_turns"):
                            raise LlmProxyError(
                                f"no final response after {client.turn_number} turns; raise "
                                "--max-turns"
                            )
                        case _:
                            pass
        except TokenLimitExceeded as error:
            raise LlmProxyError(
                f"{error}; shorten the prompt, or set --token-limit {error.model}=TOKENS"
            ) from error
        except ChatError as error:
            raise LlmProxyError(str(error)) from error
        finally:
            display.end_line()
        if last_error is not None:
            is_usage = last_error.code == "NOT_CONFIGURED"
            raise (UsageError if is_usage else LlmProxyError)(str(last_error))
        end = response.response if response else None
        if end is not None and end.is_blocked:
            raise LlmProxyError(f"the provider stopped the response ({end.raw_reason})")
        if end is not None and end.reason != "length" and not has_text:
            reason = end.raw_reason or end.reason
            raise LlmProxyError(f"the response has no text (finish reason: {reason})")
        self._history = tuple(client.messages)
        return False
