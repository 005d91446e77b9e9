"""A chat in a terminal: prompts are typed, and each response continues the conversation."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from llm_proxy.cli.output import print_error, print_note
from llm_proxy.errors import LlmProxyError

_HELP: Final = (
    "Enter sends, Esc Enter starts a line, Ctrl-C cancels, Ctrl-D ends the chat",
    "/clear starts a new conversation",
)
_COMMAND: Final = re.compile("/[a-zA-Z]*")


SendPrompt = Callable[[str, asyncio.Event], Awaitable[bool]]
"""Sends a prompt and prints the response, until the event is set; returns whether it was.

Raises `LlmProxyError` for a failure."""


async def run_session(send_prompt: SendPrompt, clear: Callable[[], None]) -> None:
    """Read prompts from the terminal and send them, until the user ends the session.

    `clear` starts a new conversation.
    """
    read_prompt = _prompt_reader()
    for line in _HELP:
        print_note(line)
    while True:
        try:
            prompt = (await read_prompt()).strip()
        except KeyboardInterrupt:
            print_note("Ctrl-D ends the chat")
            continue
        except EOFError:
            return
        match prompt:
            case "":
                pass
            case "/clear":
                clear()
                print_note("new conversation")
            case _ if _COMMAND.fullmatch(prompt):
                print_note(f"unknown command {prompt}; {', '.join(_HELP)}")
            case _:
                await _send(send_prompt, prompt)


async def _send(send_prompt: SendPrompt, prompt: str) -> None:
    """Send a prompt; Ctrl-C cancels its response."""
    loop = asyncio.get_running_loop()
    cancel = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, cancel.set)
    try:
        if await send_prompt(prompt, cancel):
            print_note("cancelled; the conversation continues without this prompt")
    except LlmProxyError as error:
        print_error(str(error))
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _prompt_reader() -> Callable[[], Awaitable[str]]:
    """A function that reads a prompt, with the prompts before it as its history."""
    from prompt_toolkit import PromptSession  # noqa: PLC0415 # only for a session
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent  # noqa: PLC0415 # only for a session

    keys = KeyBindings()

    @keys.add("enter")
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def start_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        ">>> ",
        multiline=True,
        prompt_continuation="... ",
        key_bindings=keys,
        enable_suspend=True,
    )
    return session.prompt_async
