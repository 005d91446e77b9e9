"""`llm-proxy chat` in a terminal: a conversation whose prompts are typed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from stub_upstream import Connection, Script, Upstream, fixed_length, upstream
from terminal import CONTROLLING_TERMINAL, run_on_terminal
from test_cli_chat import variables

PROMPT: Final = ">>>"
ENTER: Final = "\r"
NEW_LINE: Final = "\x1b\r"
CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
_ESCAPE_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def answer(text: str) -> Script:
    message = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return fixed_length(orjson.dumps({"choices": [message]}))


async def one_piece(connection: Connection) -> None:
    """A response that stops after one piece of text."""
    await connection.begin()
    await connection.chunk(b'data: {"choices": [{"index": 0, "delta": {"content": "Piece"}}]}\n\n')
    await connection.reader.read()


async def chat_on_terminal(
    folder: Path, server: Upstream, keys: Sequence[tuple[str, str]]
) -> tuple[int, str]:
    """The exit code and the plain output of a session in which these keys are typed."""
    code, output = await asyncio.to_thread(
        run_on_terminal,
        "chat",
        folder=folder,
        # A real terminal would report the position of its cursor.
        env={**variables(server.url), "PROMPT_TOOLKIT_NO_CPR": "1"},
        preparation=CONTROLLING_TERMINAL,
        keys=keys,
    )
    return code, _ESCAPE_SEQUENCE.sub("", output)


def messages_of(server: Upstream, number: int) -> list[tuple[str, str]]:
    """Role and content of each message in a request."""
    body = orjson.loads(server.requests[number][1])
    return [(message["role"], message["content"]) for message in body["messages"]]


async def test_each_prompt_continues_the_conversation(tmp_path: Path) -> None:
    async with upstream(answer("A river."), answer("A sea.")) as server:
        code, output = await chat_on_terminal(
            tmp_path,
            server,
            [(PROMPT, f"Name{NEW_LINE}one.{ENTER}"), ("A river.", ""), (PROMPT, f"Next?{ENTER}"),
             ("A sea.", ""), (PROMPT, CTRL_D)],
        )  # fmt: skip

    assert code == 0, output
    assert messages_of(server, 1) == [
        ("user", "Name\none."),
        ("assistant", "A river."),
        ("user", "Next?"),
    ]


async def test_ctrl_c_cancels_a_response_and_not_the_session(tmp_path: Path) -> None:
    async with upstream(one_piece, answer("A sea.")) as server:
        code, output = await chat_on_terminal(
            tmp_path,
            server,
            [(PROMPT, f"First?{ENTER}"), ("Piece", CTRL_C), ("cancelled", ""),
             (PROMPT, f"Second?{ENTER}"), ("A sea.", ""), (PROMPT, CTRL_D)],
        )  # fmt: skip

    assert code == 0, output
    assert "cancelled; the conversation continues without this prompt" in output
    assert messages_of(server, 1) == [("user", "Second?")]


async def test_a_failed_prompt_is_reported_and_forgotten(tmp_path: Path) -> None:
    body = b'{"error": {"message": "no\\u001b]0;title\\u0007"}}'
    refused = fixed_length(body, status="400 Bad Request")
    async with upstream(refused, answer("A sea.")) as server:
        code, output = await chat_on_terminal(
            tmp_path,
            server,
            [(PROMPT, f"First?{ENTER}"), ("Bad Request", ""), (PROMPT, f"Second?{ENTER}"),
             ("A sea.", ""), (PROMPT, CTRL_D)],
        )  # fmt: skip

    assert code == 0, output
    assert "llm-proxy: error: HTTP 400: Bad Request: no\\x1b]0;title\\x07" in output
    assert messages_of(server, 1) == [("user", "Second?")]


async def test_clear_starts_a_new_conversation(tmp_path: Path) -> None:
    async with upstream(answer("A river.")) as server:
        code, output = await chat_on_terminal(
            tmp_path,
            server,
            [(PROMPT, f"First?{ENTER}"), ("A river.", ""), (PROMPT, f"/clear{ENTER}"),
             ("new conversation", ""), (PROMPT, f"/exit{ENTER}"), ("unknown command /exit", ""),
             (PROMPT, f"Second?{ENTER}"), ("A river.", ""), (PROMPT, CTRL_D)],
        )  # fmt: skip

    assert code == 0, output
    assert messages_of(server, 1) == [("user", "Second?")]


async def test_ctrl_c_at_the_prompt_explains_how_to_leave(tmp_path: Path) -> None:
    async with upstream(answer("A river.")) as server:
        code, output = await chat_on_terminal(
            tmp_path,
            server,
            [(PROMPT, f"Typed{CTRL_C}"), ("Ctrl-D ends the chat", ""), (PROMPT, ENTER),
             (PROMPT, CTRL_D)],
        )  # fmt: skip

    assert (code, server.requests) == (0, []), output
