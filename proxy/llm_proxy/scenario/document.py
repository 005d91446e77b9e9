"""What a scenario document may say: structs that it is read into, and its JSON Schema is made of.

Names are those of the owner's documents 000 and 004, in snake_case; `names` knows their other
spellings.  Every field that has no default must be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Count = Annotated[int, Meta(ge=0)]
Turn = Annotated[
    int, Meta(ge=1, description="Counted from 1: the model's messages so far, and one.")
]
Ms = Annotated[float, Meta(ge=0, description="Milliseconds.")]
Span = Annotated[
    # msgspec 0.22 dies of a limited number beside a tuple of fixed length.
    Ms | Annotated[tuple[Ms, ...], Meta(min_length=2, max_length=2)],
    Meta(description="Milliseconds: a number, or [least, most], drawn anew each time."),
]
Metadata = Annotated[
    Mapping[str, Mapping[str, Any]],
    Meta(description="By provider (anthropic, google, openai, …); told where the dialect can."),
]
Arguments = Annotated[
    Mapping[str, Any] | Literal["made"],
    Meta(description="An object; or `made`: one that fits the tool's own JSON Schema."),
]


class Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every struct of a document has in common: an unknown name is a mistake."""


class Usage(Said, frozen=True, kw_only=True):
    """Tokens; what is left out has its default."""

    input: Count | None = None
    output: Count | None = None
    total: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    reasoning: Count | None = None


class Thought(Said, frozen=True, kw_only=True):
    """One part of reasoning."""

    text: str = ""
    provider_metadata: Metadata = {}


class Chunks(Said, frozen=True, kw_only=True):
    """How texts are cut for a stream, and what time passes between the pieces."""

    by: Literal["whole", "tokens", "words", "characters"] = "tokens"
    size: Annotated[int, Meta(ge=1, description="Tokens, words or characters a piece.")] = 1
    delay_ms: Span = 0


class Answer(Said, frozen=True, kw_only=True):
    """What an answer of any kind may carry."""

    reasoning: tuple[Thought, ...] = ()
    reasoning_content: str | Thought | tuple[str | Thought, ...] | None = None
    usage: Usage = Usage()
    provider_metadata: Metadata = {}
    finish_reason: Annotated[
        str, Meta(description="In any provider's word; else it follows from the answer.")
    ] = ""


class Call(Said, frozen=True, kw_only=True):
    """A call of a tool."""

    tool_name: str
    arguments: Arguments = {}
    call_id: str = ""
    assistant_text: Annotated[str, Meta(description="Text before the call.")] = ""


class ToolCalls(Answer, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """The model asks for tools."""

    tool_calls: Annotated[tuple[Call, ...], Meta(min_length=1)]
    assistant_text: str = ""


class FinalReport(Answer, frozen=True, kw_only=True, tag_field="kind", tag="final-report"):
    """The model reports by calling `agent__final_report`."""

    report_content: str
    assistant_text: str = ""
    status: str = "success"
    report_format: str = ""
    report_content_json: Any = UNSET


class TextAnswer(Answer, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """The model says something."""

    assistant_text: str


class Structured(Answer, frozen=True, kw_only=True, tag_field="kind", tag="structured"):
    """JSON that fits the schema which the request asks for."""

    values: Annotated[Mapping[str, Any], Meta(description="What is not made up: by property.")] = {}


class ReAct(Answer, frozen=True, kw_only=True, tag_field="kind", tag="react"):
    """Text of Thought, Action and Action Input, or of a Final Answer, for models without tools."""

    thought: str = ""
    action: str = ""
    action_input: Mapping[str, Any] = {}
    final_answer: str = ""


class SaidText(Said, frozen=True, kw_only=True, tag_field="part", tag="text"):
    """Text."""

    text: str


class SaidReasoning(Thought, frozen=True, kw_only=True, tag_field="part", tag="reasoning"):
    """Reasoning."""


class SaidRefusal(Said, frozen=True, kw_only=True, tag_field="part", tag="refusal"):
    """A refusal, in words."""

    text: str


class SaidCall(Said, frozen=True, kw_only=True, tag_field="part", tag="tool-call"):
    """A call of a tool."""

    tool_name: str
    arguments: Arguments = {}
    call_id: str = ""


class Parts(Answer, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """Anything, in just this order."""

    parts: Annotated[
        tuple[SaidText | SaidReasoning | SaidRefusal | SaidCall, ...], Meta(min_length=1)
    ]


Response = ToolCalls | FinalReport | TextAnswer | Structured | ReAct | Parts


class Step(Said, frozen=True, kw_only=True):
    """A turn: what is expected of the request, how often it fails first, and the answer."""

    turn: Turn
    response: Response
    expected_tools: tuple[str, ...] = ()
    allow_missing_tools: bool = False
    expected_temperature: float | None = None
    expected_top_p: float | None = None
    expected_reasoning: Literal["enabled", "disabled"] | None = None
    failures_before_success: Count = 0
    failure_throws: bool = False
    failure_status: Annotated[
        str,
        Meta(description="timeout, invalid_response, network_error, rate_limit or model_error."),
    ] = ""
    failure_message: str = ""
    failure_retryable: bool = True
    failure_retry_after_ms: Ms | None = None
    failure_error: Mapping[str, Any] = {}
    chunks: Chunks | None = None


class Condition(Said, frozen=True, kw_only=True):
    """What a value of the request must be; all that is given must hold."""

    equals: Any = UNSET
    matches: Annotated[str, Meta(description="A regular expression, searched in its text.")] = ""
    exists: bool | UnsetType = UNSET


class Match(Said, frozen=True, kw_only=True):
    """Which requests a scenario answers beside those that name it; all that is given must hold.

    Patterns are those of a shell: `gpt-4*`.
    """

    model: str = ""
    path: str = ""
    provider: str = ""
    dialect: str = ""
    session: str = ""
    user: Annotated[str, Meta(description="A regular expression: the latest user text.")] = ""
    system: Annotated[str, Meta(description="A regular expression: the system prompt.")] = ""
    tool_results: Annotated[
        bool | UnsetType, Meta(description="Whether results of tools came last.")
    ] = UNSET
    turn: Turn | UnsetType = UNSET
    json: Annotated[
        Mapping[str, Condition], Meta(description="By JSONPath into the request's body.")
    ] = {}


class Reply(Said, frozen=True, kw_only=True):
    """One answer of a mock; what is left out is empty."""

    content: str = ""
    tool_calls: tuple[MockCall, ...] = ()
    usage: Usage | None = None
    stop_reason: str = ""


class MockCall(Said, frozen=True, kw_only=True):
    """A call of a tool, as document 004 spells it."""

    name: str
    args: Mapping[str, Any] = {}
    id: str = ""


class Mock(Said, frozen=True, kw_only=True):
    """A model that answers whatever is asked: `replies`, else `reply`, else what was said last."""

    name: str = "mock"
    reply: str | UnsetType = UNSET
    replies: tuple[str | Reply, ...] | UnsetType = UNSET
    thinking_ms: Span | UnsetType = UNSET
    delay_ms: Annotated[Span | UnsetType, Meta(description="The old name of thinking_ms.")] = UNSET
    chunk_delay_ms: Span = 30
    stop_reason: str = ""
    usage: Usage = Usage()


class Scenario(Said, frozen=True, kw_only=True):
    """A scripted conversation."""

    id: Annotated[str, Meta(min_length=1, description="What the first user message says.")]
    description: Annotated[str, Meta(description="For people.")]
    turns: tuple[Step, ...]
    system_prompt_must_include: tuple[str, ...] = ()
    match: Match | None = None
    expect_signature: Annotated[
        bool | None,
        Meta(description="Whether reasoning in the history needs a seal; else by the dialect."),
    ] = None
    templates: Annotated[
        bool, Meta(description="Whether {{ JSONPath }} in its texts stands for the request's.")
    ] = False
    chunks: Chunks | None = None


class Document(Said, frozen=True, kw_only=True):
    """A file of several."""

    scenarios: tuple[Scenario, ...] = ()
    mock: Mock | None = None
