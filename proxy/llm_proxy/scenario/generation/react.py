"""ReAct: calls of tools spelled out as text, for models that are offered none (document 002)."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.dialects import lenient_json
from llm_proxy.scenario.documents.document import ReAct


def text(said: ReAct) -> str:
    """The answer as its client parses it: a line each, those left out that have nothing to say.

    Thought and action are one line each, whatever line ends they hold: the owner's parser reads
    no further than the first.  An action always has an input, and a line end behind it.
    """
    return "\n".join(_lines(said))


def _lines(said: ReAct) -> Iterator[str]:
    if thought := _one_line(said.thought):
        yield f"Thought: {thought}"
    if action := _one_line(said.action):
        yield f"Action: {action}"
        yield f"Action Input: {lenient_json.compact(dict(said.action_input))}"
    if said.final_answer.strip():
        yield f"Final Answer: {said.final_answer.strip()}"
    elif action or thought:
        yield ""


def _one_line(text: str) -> str:
    """The text in one line, its other blanks kept."""
    return " ".join(line.strip() for line in text.splitlines()).strip()
