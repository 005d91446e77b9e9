"""Renders ReAct text for models without tools (document 002)."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.dialects import lenient_json
from llm_proxy.scenario.documents.document import ReActResponse


def react_text(react_response: ReActResponse) -> str:
    """The ReAct text that clients parse: one line per field, without empty fields.

    Line ends within thought and action are removed: the client's parser reads only the first line.
    An action always has an input, followed by a line end.
    """
    return "\n".join(_react_lines(react_response))


def _react_lines(react_response: ReActResponse) -> Iterator[str]:
    if thought := _to_single_line(react_response.thought):
        yield f"Thought: {thought}"
    if action := _to_single_line(react_response.action):
        yield f"Action: {action}"
        yield f"Action Input: {lenient_json.compact_json(dict(react_response.action_input))}"
    if react_response.final_answer.strip():
        yield f"Final Answer: {react_response.final_answer.strip()}"
    elif action or thought:
        yield ""


def _to_single_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines()).strip()
