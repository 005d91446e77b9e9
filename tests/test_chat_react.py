"""ReAct: the instructions, the parser and the incremental parser (document 002)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from time import thread_time
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_row
from linear_time import assert_linear
from llm_chat import react
from llm_chat.react import ReactOutput, ReactPiece, ReactStream
from llm_proxy.conversation import ToolDefinition
from llm_proxy.scenario import scripting
from llm_proxy.scenario.documents.document import ReActResponse
from llm_proxy.turns import Json, Reasoning, Text

WEATHER: Final = ToolDefinition(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string", "description": "Käse & Köln"}}},
)
NOW: Final = ToolDefinition("now", parameters_schema={})

INSTRUCTIONS: Final = """\
You have access to the following tools:

- get_weather: The weather in a city.
  Parameters: {
  "type": "object",
  "properties": {
    "city": {
      "type": "string",
      "description": "Käse & Köln"
    }
  }
}
- now: No description
  Parameters: {}

To use a tool, respond in this exact format:

Thought: [Your reasoning about what to do]
Action: [tool_name]
Action Input: [JSON object with parameters]

After receiving the tool result, you'll see:
Observation: [tool result]

You can then continue with more Thought/Action/Observation cycles.

When you have the final answer, respond with:
Final Answer: [Your response to the user]"""

EXAMPLES: Final = settings(max_examples=200)

JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
JSON_OBJECT: Final = st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=3)
NAME: Final = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True)
LINE: Final = (
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)
    .map(str.strip)
    .filter(lambda line: bool(line) and not line.lstrip(" \t\r").startswith(react._MARKERS))
)
TEXT: Final = st.lists(LINE, min_size=1, max_size=4).map("\n".join)
OUTPUT: Final = st.lists(
    st.sampled_from(react._MARKERS)
    | st.sampled_from(
        ("Thought", "Final Answer", "Action ", "action:", "**", "\n", "\r\n", " ", "\t")
    )
    | st.sampled_from(("\n\n", "{}", '{"a": 1}', "```json\n", "```", "[1]", "\ud800", "\x85", "字"))
    | st.text(max_size=5),
    max_size=30,
).map("".join)
"""Outputs in which markers, and what looks like one, are frequent."""


def streamed(pieces: Iterable[str]) -> tuple[ReactStream, list[ReactPiece]]:
    """A closed stream of these pieces, and what it showed."""
    stream = ReactStream()
    shown = [shown for piece in pieces for shown in stream.feed(piece)]
    return stream, [*shown, *stream.close()]


def parse_repeated(start: str, repeated: str, times: int) -> ReactOutput:
    return react.parse(start + repeated * times)


def shown_text(shown: Iterable[ReactPiece], kind: type[ReactPiece]) -> str:
    return "".join(piece.text for piece in shown if isinstance(piece, kind))


# The instructions


@pytest.mark.shows("002-40", "002-41")
def test_the_instructions_have_the_wording_of_the_document() -> None:
    """002-40 and 002-41."""
    assert react.format_tools([WEATHER, NOW]) == INSTRUCTIONS


@each_row(
    ("tool", "text"),
    [
        (ToolDefinition("t"), "- t: No description\n  Parameters: {}\n"),
        (ToolDefinition("t", "{tools}"), "- t: {tools}\n  Parameters: {}\n"),
        (ToolDefinition("t", "a", {"big": 2**70}), f'  Parameters: {{\n  "big": {2**70}\n}}\n'),
        (ToolDefinition("t", "a", {"x": "\ud800"}), '  Parameters: {\n  "x": "\\ud800"\n}\n'),
    ],
    ids=["002-41 no schema", "002-41 braces", "002-41 a large integer", "002-41 a lone surrogate"],
)
def test_any_tool_is_listed(tool: ToolDefinition, text: str) -> None:
    assert text in react.format_tools([tool])


@pytest.mark.shows("002-P17")
@EXAMPLES
@given(st.lists(st.builds(ToolDefinition, NAME, LINE, JSON_OBJECT), max_size=4))
def test_the_instructions_hold_every_tool(tools: list[ToolDefinition]) -> None:
    # Feature: stage-02-core-provider, Property 17: For any set of tool schemas, the ReAct_Handler
    # should format them as text instructions that include tool names, descriptions, and parameter
    # schemas.
    instructions = react.format_tools(tools)

    for tool in tools:
        _, found, rest = instructions.partition(
            f"- {tool.name}: {tool.description}\n  Parameters: "
        )
        schema, _ = json.JSONDecoder().raw_decode(rest)
        assert found
        assert any(schema == other.parameters_schema for other in tools)
    assert instructions.count("  Parameters: ") >= len(tools)


# The parser


OUTPUTS: Final = {
    "002-40 all fields": (
        'Thought: why\nAction: look\nAction Input: {"id": 1}\nFinal Answer: done',
        ReactOutput("why", "look", {"id": 1}, '{"id": 1}', "done"),
    ),
    "002-42 an action": (
        "Thought: why\nAction: look\nAction Input: {}\n",
        ReactOutput("why", "look", {}, "{}"),
    ),
    "002-42 trimmed": (
        "  Thought:  why \n\tAction:\tlook  \n Action Input:  {}  \n\n",
        ReactOutput("why", "look", {}, "{}"),
    ),
    "002-42 no thought": ("Action: now\nAction Input: {}", ReactOutput(None, "now", {}, "{}")),
    "002-42 no input": ("Action: now\n", ReactOutput(action="now")),
    "002-42 an empty input": ("Action: now\nAction Input:\n", ReactOutput(action="now")),
    "002-42 a thought alone": ("Thought: hm", ReactOutput(thought="hm")),
    "002-42 a thought of lines": ("Thought: a\nb\n\nc\n", ReactOutput(thought="a\nb\n\nc")),
    "002-42 plain text": ("The capital is Paris.", ReactOutput()),
    "002-42 nothing": ("", ReactOutput()),
    "002-42 a marker within a line": ("I do Action: look", ReactOutput()),
    "002-42 a marker in lower case": ("action: look\nfinal answer: x", ReactOutput()),
    "002-42 no colon": ("Final Answer\nAction", ReactOutput()),
    "002-42 an empty action": ("Action:\nFinal Answer: x", ReactOutput(final_answer="x")),
    "002-42 the name alone": (
        "Action: look\nI will look it up.\nAction Input: {}",
        ReactOutput(None, "look", {}, "{}"),
    ),
    "002-P18 input at the very end": (
        'Thought: t\nAction: a\nAction Input: {"b": 2}',
        ReactOutput("t", "a", {"b": 2}, '{"b": 2}'),
    ),
    "002-P18 input of lines": (
        'Action: a\nAction Input: {\n  "b": [\n    1\n  ]\n}\n',
        ReactOutput(None, "a", {"b": [1]}, '{\n  "b": [\n    1\n  ]\n}'),
    ),
    "002-P18 CRLF": (
        "Thought: t\r\nAction: a\r\nAction Input: {}\r\nObservation: 1\r\n",
        ReactOutput("t", "a", {}, "{}"),
    ),
    "002-P18 input in a fence": (
        'Action: a\nAction Input:\n```json\n{"b": 2}\n```\n',
        ReactOutput(None, "a", {"b": 2}, '```json\n{"b": 2}\n```'),
    ),
    "002-P18 a fence on one line": (
        "Action: a\nAction Input: ```{}```",
        ReactOutput(None, "a", {}, "```{}```"),
    ),
    "002-P18 bold markers": (
        "**Thought:** t\n**Action**: a\n**Action Input:** {}\n",
        ReactOutput("t", "a", {}, "{}"),
    ),
    "002-P18 bold text": ("Final Answer: **4**", ReactOutput(final_answer="**4**")),
    "002-P18 text before the format": (
        "Sure!\n\nThought: t\nFinal Answer: x",
        ReactOutput("t", final_answer="x"),
    ),
    "002-P21 an answer alone": ("Final Answer: 42", ReactOutput(final_answer="42")),
    "002-P21 an answer of lines": (
        "Final Answer: a\n\nAction: b\nThought: c\n",
        ReactOutput(final_answer="a\n\nAction: b\nThought: c"),
    ),
    "002-P21 an empty answer": (
        "Action: a\nAction Input: {}\nFinal Answer:\n",
        ReactOutput(None, "a", {}, "{}", ""),
    ),
    "002-P21 an answer after an invented observation": (
        "Thought: t\nAction: a\nAction Input: {}\nObservation: 1\nThought: u\nFinal Answer: x",
        ReactOutput("t", "a", {}, "{}", "x"),
    ),
    "002-40 the first of several cycles": (
        "Thought: t\nAction: a\nAction Input: {}\nObservation: 1\nThought: u\nAction: b\n",
        ReactOutput("t", "a", {}, "{}"),
    ),
    "002-40 a second action takes no input of the first": (
        "Action: a\nAction: b\nAction Input: {}\n",
        ReactOutput(action="a"),
    ),
    "002-40 a repeated observation first": (
        "Observation: 1\nThought: t\nAction: a\nAction Input: {}\n",
        ReactOutput("t", "a", {}, "{}"),
    ),
    "002-40 the first of two thoughts": (
        "Thought: t\nThought: u\nAction: a\n",
        ReactOutput("t", "a"),
    ),
    "002-40 a thought after the action": (
        "Action: a\nAction Input: {}\nThought: late",
        ReactOutput(None, "a", {}, "{}"),
    ),
    "002-40 input without an action": ("Action Input: {}", ReactOutput()),
    "002-43 invalid": ("Action: a\nAction Input: {x}", ReactOutput(None, "a", None, "{x}")),
}


@pytest.mark.shows("002-40", "002-42", "002-43")
@each_row(("output", "fields"), OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_has_its_fields(output: str, fields: ReactOutput) -> None:
    assert react.parse(output) == fields
    assert streamed(output)[0].output == fields


INVALID_JSON: Final = {
    "cut": "{",
    "single quotes": "{'a': 1}",
    "two values": "{} {}",
    "text after it": "{} done",
    "NaN": '{"a": NaN}',
    "Infinity": '{"a": Infinity}',
    "a word": "look",
    "a line end in a string": '{"a": "\n"}',
    "deep arrays": "[" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a huge number": f'{{"a": {"9" * 10_000}}}',
}


@pytest.mark.shows("002-43")
@each_row("text", INVALID_JSON.values(), ids=INVALID_JSON)
def test_invalid_json_leaves_the_input_out(text: str) -> None:
    """002-43."""
    output = react.parse(f"Action: look\nAction Input: {text}\n")

    assert output == ReactOutput(action="look", action_input_text=text)
    assert output.has_invalid_input


@pytest.mark.shows("002-44")
@each_row(
    ("value", "is_valid"),
    [
        ({}, True),
        ({"a": None}, True),
        (None, False),
        ([], False),
        ([{}], False),
        ("{}", False),
        (1, False),
        (True, False),
    ],
)
def test_a_valid_input_is_an_object(value: Json, is_valid: bool) -> None:
    """002-44."""
    output = react.parse(f"Action: a\nAction Input: {json.dumps(value)}")

    assert react.is_valid_input(value) is is_valid
    assert output.has_invalid_input is not is_valid
    assert output.action_input == (value if is_valid else None)


@pytest.mark.shows("002-P18")
@EXAMPLES
@given(TEXT, NAME, JSON_OBJECT, st.sampled_from([None, 2]), TEXT | st.none(), st.booleans())
def test_a_valid_output_is_parsed(
    thought: str,
    action: str,
    action_input: dict[str, Json],
    indent: int | None,
    answer: str | None,
    is_crlf: bool,
) -> None:
    # Feature: stage-02-core-provider, Property 18: For any valid ReAct-formatted string, the
    # ReAct_Handler should correctly extract the Thought, Action, Action Input, and Final Answer
    # fields.
    input_text = json.dumps(action_input, indent=indent, ensure_ascii=False)
    output = f"Thought: {thought}\nAction: {action}\nAction Input: {input_text}"
    if answer is not None:
        output += f"\nFinal Answer: {answer}"
    fields = ReactOutput(thought, action, action_input, input_text, answer)
    if is_crlf:
        output = output.replace("\n", "\r\n")
        crlf_input_text = input_text.replace("\n", "\r\n")
        fields = ReactOutput(
            thought.replace("\n", "\r\n"),
            action,
            action_input,
            crlf_input_text,
            answer and answer.replace("\n", "\r\n"),
        )

    assert react.parse(output) == fields


@pytest.mark.shows("002-P19")
@EXAMPLES
@given(TEXT.filter(lambda text: not text.startswith("```")) | JSON.map(json.dumps))
def test_an_input_is_accepted_if_it_is_a_json_object(text: str) -> None:
    # Feature: stage-02-core-provider, Property 19: For any Action Input string, the ReAct_Handler
    # should validate it as JSON before execution, accepting valid JSON and rejecting invalid JSON.
    try:
        value: Json = json.loads(text)
    except ValueError:
        value = None
    expected = value if isinstance(value, dict) else None
    output = react.parse(f"Action: a\nAction Input: {text}\nObservation: 1")

    assert output.action_input == expected
    assert output.has_invalid_input is (expected is None)


@pytest.mark.shows("002-P20")
@EXAMPLES
@given(JSON)
def test_an_observation_is_the_json_of_the_result(result: Json) -> None:
    # Feature: stage-02-core-provider, Property 20: For any tool result, the ReAct_Handler should
    # format it as "Observation: [JSON result]" for inclusion in the next turn.
    observation = react.format_observation(result)

    assert observation.startswith("Observation: ")
    assert json.loads(observation.removeprefix("Observation: ")) == result
    assert "\n" not in observation


@pytest.mark.shows("002-45")
@each_row(
    ("result", "observation"),
    [
        ({"temp": 21, "unit": "°C"}, 'Observation: {"temp":21,"unit":"°C"}'),
        ("käse", 'Observation: "käse"'),
        (None, "Observation: null"),
        ({"error": 'Tool "x" not found'}, 'Observation: {"error":"Tool \\"x\\" not found"}'),
        ("\ud800", 'Observation: "\\ud800"'),
    ],
)
def test_an_observation_is_compact(result: Json, observation: str) -> None:
    """002-45."""
    assert react.format_observation(result) == observation


@pytest.mark.shows("002-P21")
@EXAMPLES
@given(OUTPUT, OUTPUT)
def test_an_output_with_a_final_answer_calls_no_tool(before: str, after: str) -> None:
    # Feature: stage-02-core-provider, Property 21: For any model output containing "Final Answer",
    # the ReAct_Handler should treat it as the completion of the turn and not attempt further tool
    # calls.
    output = react.parse(f"{before}\nFinal Answer:{after}")

    assert output.final_answer is not None
    assert not output.is_tool_call


@pytest.mark.shows("002-P33")
@EXAMPLES
@given(NAME, LINE.filter(lambda text: not text.startswith(("{", "```"))))
def test_invalid_input_is_reported_for_correction(action: str, text: str) -> None:
    # Feature: stage-02-core-provider, Property 33: For any invalid JSON in ReAct Action Input, the
    # system should add an error message to the conversation requesting the model to correct the
    # format.
    output = react.parse(f"Action: {action}\nAction Input: {text}")

    assert output.is_tool_call
    assert output.has_invalid_input
    assert output.action_input_text == text


@pytest.mark.shows("002-46")
def test_the_message_that_asks_for_a_correction() -> None:
    """002-46."""
    assert react.INVALID_INPUT_MESSAGE == (
        "Error: Action Input must be valid JSON. Please try again with proper JSON formatting."
    )


@given(TEXT, NAME, JSON_OBJECT)
def test_scripted_responses_are_read(
    thought: str, action: str, action_input: Mapping[str, Json]
) -> None:
    """What scenarios send (`scripting.react_text`) is what the parser reads: 002-P18."""
    response = ReActResponse(thought=thought, action=action, action_input=dict(action_input))
    output = react.parse(scripting.react_text(response))

    assert (output.action, output.action_input) == (action, action_input)
    assert output.is_tool_call


# The incremental parser


@pytest.mark.shows("002-42")
@settings(max_examples=500)
@given(OUTPUT, st.data())
def test_a_stream_is_read_as_the_whole_however_it_is_split(
    output: str, data: st.DataObject
) -> None:
    """002-42: the fields; what is shown is the thought and the answer, without markers."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=8)))
    pieces = [
        output[start:end] for start, end in zip([0, *cuts], [*cuts, len(output)], strict=True)
    ]
    stream, shown = streamed(pieces)
    _, shown_at_once = streamed([output])
    _, shown_singly = streamed(output)
    fields = react.parse(output)

    assert stream.output == fields
    assert shown_text(shown, Reasoning) == (fields.thought or "")
    assert shown_text(shown, Text).endswith(fields.final_answer or "")
    for other in (shown_at_once, shown_singly):
        assert shown_text(other, Text) == shown_text(shown, Text)
        assert shown_text(other, Reasoning) == shown_text(shown, Reasoning)
    assert all(piece.text for piece in shown)


@settings(max_examples=100)
@given(OUTPUT.filter(lambda output: not any(marker in output for marker in react._MARKERS)))
def test_plain_text_is_shown_as_it_comes(output: str) -> None:
    stream, shown = streamed(output)

    assert stream.output == ReactOutput()
    assert shown_text(shown, Text) == output.strip()
    assert not shown_text(shown, Reasoning)


def test_each_piece_is_shown_when_it_arrives() -> None:
    stream = ReactStream()
    shown = [
        (piece, list(stream.feed(piece)))
        for piece in ("Tho", "ught: I", " know", ".\nFi", "nal Ans", "wer:", " ", "4", " is ", "it")
    ]

    assert [(piece, texts) for piece, texts in shown if texts] == [
        ("ught: I", [Reasoning("I")]),
        (" know", [Reasoning(" know")]),
        (".\nFi", [Reasoning(".")]),
        ("4", [Text("4")]),
        (" is ", [Text(" is")]),
        ("it", [Text(" it")]),
    ]
    assert stream.close() == []
    assert stream.output == ReactOutput(thought="I know.", final_answer="4 is it")


@each_row(
    ("output", "shown"),
    [
        ("Thought: t\nAction: a\nAction Input: {}\n", [Reasoning("t")]),
        ("Thought: t\nFinal Answer: x", [Reasoning("t"), Text("x")]),
        ("One moment.\nAction: a\nAction Input: {}", [Text("One moment.")]),
        ("Sure:\nFinal Answer:   4\n", [Text("Sure:"), Text("\n4")]),
        ("Sure:\nFinal Answer: ", [Text("Sure:")]),
        ("Action: a\nObservation: 1\nThought: invented\nAction: b\n", []),
        ("Final Answer", [Text("Final Answer")]),
        ("Final Answer:", []),
        ("A: 1\nB: 2\n", [Text("A: 1\nB: 2")]),
    ],
    ids=[
        "action",
        "answer",
        "text first",
        "text and answer",
        "text and no answer",
        "invented",
        "cut",
        "empty",
        "plain",
    ],
)
def test_markers_and_actions_are_never_shown(output: str, shown: list[ReactPiece]) -> None:
    assert streamed([output])[1] == shown


FLOODS: Final = {
    "plain": "x",
    "short lines": "x\n",
    "spaces": " ",
    "line ends": "\n",
    "spaces between lines": "x\n \n",
    "observations": "Observation:\n",
    "actions": "Action: a\nAction Input: {\n",
    "thoughts": "Thought: T\n",
    "an answer": "Final Answer: y ",
    "almost markers": "Final Answe",
    "almost markers on lines": "**Action Input\n",
    "open fences": "Action: a\nAction Input: ```\n",
    "backticks": "`",
    "lone surrogates": "\ud800\n",
}


@each_row("repeated", FLOODS.values(), ids=FLOODS)
def test_hostile_outputs_take_linear_time(repeated: str) -> None:
    for start in ("", "Action: a\nAction Input: ", "Thought: ", "Final Answer: "):
        assert_linear(partial(parse_repeated, start, repeated), 20_000)


@each_row("repeated", FLOODS.values(), ids=FLOODS)
def test_single_characters_take_linear_time(repeated: str) -> None:
    assert_linear(lambda size: streamed((repeated * size)[:size]), 40_000)


def test_a_megabyte_of_single_characters_takes_less_than_two_seconds() -> None:
    output = "Final Answer: " + "a word, " * 125_000
    times_s: list[float] = []
    while len(times_s) < 4 and min(times_s, default=2) >= 2:  # the best, on a busy machine
        began_s = thread_time()
        stream, shown = streamed(output)
        times_s.append(thread_time() - began_s)
        assert stream.output.final_answer == shown_text(shown, Text)

    assert min(times_s) < 2
