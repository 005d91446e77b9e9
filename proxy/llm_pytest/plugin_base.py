"""The base class of plugins: a family of tools that a project adds for its own tests.

Source: owner's document 003, "Tool Discovery" and "Tool Registration".
"""

from __future__ import annotations

from typing import ClassVar


class ToolError(Exception):
    """A tool that cannot do what the model has requested; the model gets the message only.

    Write the same message for the same problem in every run: it is part of the next request, which
    a replay compares with the recorded one.
    """


class LLMPlugin:
    """A family of tools: every public coroutine method becomes the tool `{name}_{method}`.

    The docstring of a method is the description of its tool, and its annotated parameters are the
    tool's arguments.  `AssertionError` in a method is a failed assertion, which counts as one of
    `assert_*`.  Any other exception is an error that the model gets as the result: the message of
    a `ToolError`, or the type and the message of another one.

    An instance serves one test, and is made without arguments.  With Claude Code there are two of
    them, in two processes; the tools are those of one.
    """

    name: ClassVar[str] = ""
    """The prefix of its tools; by default the name of the file."""

    async def cleanup(self) -> None:
        """Release what the tools have opened; called once, at the end of the test."""
