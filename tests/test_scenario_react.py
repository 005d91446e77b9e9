"""Scripted ReAct answers have the text form of document 002, which its parser reads."""

from __future__ import annotations

import json
import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.scenario import scripting
from llm_proxy.scenario.documents.document import ReActResponse

DOCUMENT_PATTERN: Final = re.compile(
    r"Thought:\s*(.+?)\n(?:Action:\s*(.+?)\n)?"
    r"(?:Action Input:\s*(.+?)\n)?(?:Final Answer:\s*(.+))?",
    re.DOTALL,
)
"""The pattern of document 002, verbatim."""


def parse(text: str) -> dict[str, object]:
    """Return what the parser of document 002 returns (002-42)."""
    match = DOCUMENT_PATTERN.search(text)
    assert match is not None
    thought, action, action_input, final_answer = (
        group and group.strip() for group in match.groups()
    )
    fields = {
        "thought": thought,
        "action": action,
        "action_input": action_input and json.loads(action_input),
        "final_answer": final_answer,
    }
    return {name: value for name, value in fields.items() if value is not None}


@each_row(
    ("response", "text"),
    [
        (
            ReActResponse(
                thought="Look it up.", action="lookup", action_input={"id": 42, "q": "käse"}
            ),
            'Thought: Look it up.\nAction: lookup\nAction Input: {"id":42,"q":"käse"}\n',
        ),
        (
            ReActResponse(thought="I know it.", final_answer="Three days.\n\nNot four."),
            "Thought: I know it.\nFinal Answer: Three days.\n\nNot four.",
        ),
        (ReActResponse(final_answer="Done."), "Final Answer: Done."),
        (ReActResponse(action="now"), "Action: now\nAction Input: {}\n"),
        (
            ReActResponse(thought="a\nb \r\n c", action="x"),
            "Thought: a b c\nAction: x\nAction Input: {}\n",
        ),
        (ReActResponse(thought="Hm."), "Thought: Hm.\n"),
        (ReActResponse(), ""),
    ],
    ids=["action", "answer", "answer alone", "no input", "lines", "thought alone", "nothing"],
)
def test_an_answer_is_written_as_document_002_has_it(response: ReActResponse, text: str) -> None:
    """002-40: Thought, Action, Action Input as JSON, Final Answer."""
    assert scripting.react_text(response) == text


LINE: Final = st.text(min_size=1).filter(lambda text: bool(text.strip()))
NAME: Final = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    thought=LINE,
    action=NAME,
    action_input=st.dictionaries(NAME, JSON, max_size=3),
)
def test_the_parser_of_document_002_reads_every_action(
    thought: str, action: str, action_input: dict[str, object]
) -> None:
    """002-P18 and 002-P19, with the pattern of the document."""
    response = ReActResponse(thought=thought, action=action, action_input=action_input)
    fields = parse(scripting.react_text(response))

    assert fields["action"] == action
    assert fields["action_input"] == action_input


@given(answer=LINE)
def test_the_parser_of_document_002_reads_every_final_answer(answer: str) -> None:
    """002-P21."""
    fields = parse(scripting.react_text(ReActResponse(thought="Done", final_answer=answer)))

    assert fields == {"thought": "Done", "final_answer": answer.strip()}
