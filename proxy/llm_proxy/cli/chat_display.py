"""Prints the events of a chat: as text for people, or as NDJSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any, Final, TextIO

import click

from llm_chat import (
    ChatEvent,
    ErrorEvent,
    Finish,
    ReasoningEvent,
    ResponseEnd,
    Retry,
    TextEvent,
    TokenLimitWarning,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
)
from llm_chat.events import call_args
from llm_proxy import display
from llm_proxy.cli.output import (
    print_json_line,
    print_note,
    write_stdout_bytes,
)
from llm_proxy.errors import printable_excerpt

_MAX_TOOL_CHARS: Final = 200
"""The part of a call, or of its result, that is shown on one line."""


class TextDisplay:
    """Prints text on `stdout`; reasoning, tool calls and notes on stderr."""

    def __init__(self, stdout: TextIO, *, escapes: bool) -> None:
        """With `escapes`, text is printed without control characters."""
        self._stdout = stdout
        self._escapes = escapes
        self._shows_reasoning = sys.stderr.isatty()
        self._is_reasoning = False
        self._is_line_open = False

    def show_prompt(self, prompt: str) -> None:
        """Print a prompt of a script."""
        self._print_dim(f"> {prompt}\n")

    def show(self, event: ChatEvent) -> None:
        """Print one event."""
        match event:
            case TextEvent(text):
                self._print_text(text)
            case ReasoningEvent(text) if self._shows_reasoning:
                self._print_dim(text)
            case ToolCallStart(call):
                self._print_line(f"→ {call.name} {call.arguments}")
            case ToolCallResult(call=call, result=result):
                self._print_line(
                    f"← {call.name} {json.dumps(result, ensure_ascii=False, separators=(',', ':'))}"
                )
            case Retry(wait_s=wait_s, error=error):
                self._print_note(f"{error}; retrying in {wait_s:.1f} s")
            case TokenLimitWarning(model, tokens, limit):
                self._print_note(f"{tokens:,} of {limit:,} tokens of {model} are used")
            case TurnComplete(response=ResponseEnd(reason="length")):
                self._print_note("the response was cut off at its token limit")
            case Finish(reason):
                self._is_line_open |= reason == "cancelled"  # the terminal has printed ^C
                self.end_line()
            case _:
                pass

    def end_line(self) -> None:
        """End the line that was printed last."""
        if self._is_line_open and self._is_reasoning:
            click.echo(err=True)
        elif self._is_line_open:
            write_stdout_bytes(b"\n", self._stdout)
        self._is_line_open = self._is_reasoning = False

    def _print_text(self, text: str) -> None:
        """Print a piece of the response; on a terminal without control characters."""
        if self._is_reasoning:
            self.end_line()
        shown = display.escape_block(text) if self._escapes else text
        encoding = self._stdout.encoding or "ascii"
        write_stdout_bytes(shown.encode(encoding, "backslashreplace"), self._stdout)
        self._is_line_open = not text.endswith("\n")

    def _print_dim(self, text: str) -> None:
        if not self._is_reasoning:
            self.end_line()
        click.echo(click.style(display.escape_block(text), dim=True), nl=False, err=True)
        self._is_reasoning = self._is_line_open = not text.endswith("\n")

    def _print_line(self, text: str) -> None:
        self.end_line()
        self._print_dim(printable_excerpt(text, _MAX_TOOL_CHARS) + "\n")

    def _print_note(self, text: str) -> None:
        self.end_line()
        print_note(text)


class JsonDisplay:
    """Prints each event on `stdout`, as one JSON object on a line of its own."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def show_prompt(self, prompt: str) -> None:
        """Print a prompt of a script."""
        print_json_line({"event": "prompt", "text": prompt}, self._stdout)

    def show(self, event: ChatEvent) -> None:
        """Print one event."""
        print_json_line(_event_document(event), self._stdout)

    def end_line(self) -> None:
        """Do nothing: every line is complete."""


def _event_document(event: ChatEvent) -> dict[str, Any]:
    """The JSON object of an event, which `event` names."""
    match event:
        case TextEvent(text):
            return {"event": "text", "text": text}
        case ReasoningEvent(text):
            return {"event": "reasoning", "text": text}
        case ToolCallStart(call):
            return {
                "event": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments if (args := call_args(call)) is None else args,
            }
        case ToolCallResult(call=call, result=result, failed=failed):
            return {
                "event": "tool_result",
                "id": call.id,
                "name": call.name,
                "result": result,
                "failed": failed,
            }
        case Retry(attempt, wait_s, error):
            return {
                "event": "retry",
                "attempt": attempt,
                "wait_s": wait_s,
                "error": _error_fields(error),
            }
        case ErrorEvent():
            return {"event": "error", **_error_fields(event)}
        case TokenLimitWarning(model, tokens, limit):
            return {
                "event": "token_limit_warning",
                "model": model,
                "tokens": tokens,
                "limit": limit,
            }
        case TurnComplete(turn_number, response):
            usage = response.usage if response else None
            return {
                "event": "turn_complete",
                "turn": turn_number,
                "reason": response.reason if response else None,
                "raw_reason": response.raw_reason if response else None,
                "is_blocked": response is not None and response.is_blocked,
                "usage": asdict(usage) if usage else None,
            }
        case Finish(reason):
            return {"event": "finish", "reason": reason}


def _error_fields(error: ErrorEvent) -> dict[str, str]:
    return {"message": error.message, "code": error.code, "detail": error.detail}
