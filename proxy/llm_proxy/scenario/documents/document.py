"""What a scenario document may say: structs that it is read into, and its JSON Schema is made of.

Names are those of the owner's documents 000 and 004, in snake_case; `names` knows their other
spellings.  Every field that has no default must be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from llm_proxy.faults.document import Faults
from llm_proxy.scenario.documents.fields import (
    Arguments,
    Before,
    CallId,
    Count,
    Metadata,
    Ms,
    Paced,
    Span,
    StepTurn,
    ToolName,
    Turn,
    says,
)
from llm_proxy.scenario.scripted_response import FailureStatus

FAILURE_STATUSES = tuple(it for it in get_args(FailureStatus) if it != "thrown")
"""What `failure_status` may say."""


class Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every struct of a document has in common: an unknown name is a mistake."""


class Usage(Said, frozen=True, kw_only=True):
    """Tokens; what is left out has its default."""

    input: Annotated[Count | None, says("Tokens of the request.")] = None
    output: Annotated[Count | None, says("Tokens of the answer.")] = None
    total: Annotated[Count | None, says("Both; their sum if left out.")] = None
    cache_read: Annotated[Count | None, says("Tokens read from a cache.")] = None
    cache_write: Annotated[Count | None, says("Tokens written to a cache.")] = None
    reasoning: Annotated[Count | None, says("Tokens of reasoning.")] = None


class Thought(Said, frozen=True, kw_only=True):
    """One part of reasoning."""

    text: Annotated[str, says("What the model thinks.")] = ""
    provider_metadata: Metadata = {}


class Chunks(Said, frozen=True, kw_only=True):
    """How texts are cut for a stream, and what time passes between the pieces."""

    by: Annotated[
        Literal["whole", "tokens", "words", "characters"], says("What a piece is cut by.")
    ] = "tokens"
    size: Annotated[int, says("Tokens, words or characters a piece.", ge=1)] = 1
    delay_ms: Annotated[Span, says("The time between two pieces.")] = 0


class Answer(Said, frozen=True, kw_only=True):
    """What an answer of any kind may carry."""

    reasoning: Annotated[tuple[Thought, ...], says("Reasoning, part by part.")] = ()
    reasoning_content: Annotated[
        str | Thought | tuple[str | Thought, ...] | None,
        says("More reasoning, after `reasoning`: text, a part, or a list of either."),
    ] = None
    usage: Annotated[Usage, says("Tokens: 64 input and 32 output if left out.")] = Usage()
    provider_metadata: Metadata = {}
    finish_reason: Annotated[
        str, says("In any provider's word; it follows from the answer if left out.")
    ] = ""


class Call(Said, frozen=True, kw_only=True):
    """A call of a tool."""

    tool_name: ToolName
    arguments: Arguments = {}
    call_id: CallId = ""
    assistant_text: Annotated[str, says("Text before the call.")] = ""


class ToolCalls(Answer, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """The model asks for tools."""

    tool_calls: Annotated[tuple[Call, ...], says("The calls, in their order.", min_length=1)]
    assistant_text: Before = ""


class FinalReport(Answer, frozen=True, kw_only=True, tag_field="kind", tag="final-report"):
    """The model reports by calling `agent__final_report`."""

    report_content: Annotated[str, says("The report.")]
    assistant_text: Before = ""
    status: Annotated[str, says("How it went.")] = "success"
    report_format: Annotated[str, says("What the report is written in, such as markdown.")] = ""
    report_content_json: Annotated[Any, says("The report as JSON of any kind.")] = UNSET


class TextAnswer(Answer, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """The model says something."""

    assistant_text: Annotated[str, says("What it says.")]


class Structured(Answer, frozen=True, kw_only=True, tag_field="kind", tag="structured"):
    """JSON that fits the schema which the request asks for."""

    values: Annotated[Mapping[str, Any], says("What is not made up: by property.")] = {}


class ReAct(Answer, frozen=True, kw_only=True, tag_field="kind", tag="react"):
    """Text of Thought, Action and Action Input, or of a Final Answer, for models without tools."""

    thought: Annotated[str, says("What follows `Thought:`.")] = ""
    action: Annotated[str, says("The name of a tool.")] = ""
    action_input: Annotated[Mapping[str, Any], says("The arguments of the tool.")] = {}
    final_answer: Annotated[str, says("What follows `Final Answer:`.")] = ""


class SaidText(Said, frozen=True, kw_only=True, tag_field="part", tag="text"):
    """Text."""

    text: Annotated[str, says("The text.")]


class SaidReasoning(Thought, frozen=True, kw_only=True, tag_field="part", tag="reasoning"):
    """Reasoning."""


class SaidRefusal(Said, frozen=True, kw_only=True, tag_field="part", tag="refusal"):
    """A refusal, in words."""

    text: Annotated[str, says("The words.")]


class SaidCall(Said, frozen=True, kw_only=True, tag_field="part", tag="tool-call"):
    """A call of a tool."""

    tool_name: ToolName
    arguments: Arguments = {}
    call_id: CallId = ""


class Parts(Answer, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """Anything, in just this order."""

    parts: Annotated[
        tuple[SaidText | SaidReasoning | SaidRefusal | SaidCall, ...],
        says("The parts, in their order.", min_length=1),
    ]


Response = ToolCalls | FinalReport | TextAnswer | Structured | ReAct | Parts


class Step(Said, frozen=True, kw_only=True):
    """A turn: what is expected of the request, how often it fails first, and the answer."""

    turn: StepTurn
    response: Annotated[Response, says("The answer; its `kind` says which fields it has.")]
    expected_tools: Annotated[tuple[str, ...], says("Tools that the request must offer.")] = ()
    allow_missing_tools: Annotated[bool, says("Whether tools are not looked for.")] = False
    expected_temperature: Annotated[float | None, says("What the request must ask for.")] = None
    expected_top_p: Annotated[float | None, says("What the request must ask for.")] = None
    expected_reasoning: Annotated[
        Literal["enabled", "disabled"] | None, says("Whether the request must ask for reasoning.")
    ] = None
    failures_before_success: Annotated[Count, says("How often the turn fails first.")] = 0
    failure_throws: Annotated[bool, says("Whether it fails without a status of its own.")] = False
    failure_status: Annotated[
        str,
        Meta(
            description="How it fails; model_error if left out.",
            # That loading takes any word is for the documents of other programs alone.
            extra_json_schema={"enum": ["", *FAILURE_STATUSES]},
        ),
    ] = ""
    failure_message: Annotated[str, says("What a failure says.")] = ""
    failure_retryable: Annotated[bool, says("Whether clients may try again.")] = True
    failure_retry_after_ms: Annotated[
        Ms | None, says("When clients may try again, in ms; for rate_limit.")
    ] = None
    failure_error: Annotated[
        Mapping[str, Any], says("Fields of the error object; `status` is the HTTP status.")
    ] = {}
    chunks: Annotated[Chunks | None, says("How this answer streams; else as the scenario's.")] = (
        None
    )
    pace: Paced = ""
    faults: Annotated[Faults, says("What goes wrong with this answer on its way.")] = ()


class Condition(Said, frozen=True, kw_only=True):
    """What a value of the request must be; all that is given must hold."""

    equals: Annotated[Any, says("The value itself, any JSON.")] = UNSET
    matches: Annotated[str, says("A regular expression, searched in its text.")] = ""
    exists: Annotated[bool | UnsetType, says("Whether it is there at all.")] = UNSET


class Match(Said, frozen=True, kw_only=True):
    """Which requests a scenario answers beside those that name it; all that is given must hold.

    Patterns are those of a shell: `gpt-4*`.
    """

    model: Annotated[str, says("A pattern of the model's name.")] = ""
    path: Annotated[str, says("A pattern of the URL's path.")] = ""
    provider: Annotated[str, says("A pattern of the provider's name.")] = ""
    dialect: Annotated[str, says("A pattern of the dialect's name.")] = ""
    session: Annotated[str, says("A pattern of the session's name.")] = ""
    user: Annotated[str, says("A regular expression: the latest user text.")] = ""
    system: Annotated[str, says("A regular expression: the system prompt.")] = ""
    tool_results: Annotated[bool | UnsetType, says("Whether results of tools came last.")] = UNSET
    turn: Turn | UnsetType = UNSET
    json: Annotated[Mapping[str, Condition], says("By JSONPath into the request's body.")] = {}


class Reply(Said, frozen=True, kw_only=True):
    """One answer of a mock; what is left out is empty."""

    content: Annotated[str, says("What it says.")] = ""
    tool_calls: Annotated[tuple[MockCall, ...], says("The calls, in their order.")] = ()
    usage: Annotated[Usage | None, says("Tokens of this answer; else the mock's.")] = None
    stop_reason: Annotated[str, says("Why it ends; else the mock's.")] = ""


class MockCall(Said, frozen=True, kw_only=True):
    """A call of a tool, as document 004 spells it."""

    name: ToolName
    args: Annotated[Mapping[str, Any], says("Its arguments.")] = {}
    id: Annotated[str, says("The id of the call.")] = ""


class Mock(Said, frozen=True, kw_only=True):
    """A model that answers whatever is asked: `replies`, else `reply`, else what was said last."""

    name: Annotated[str, says("What the log calls it.")] = "mock"
    reply: Annotated[str | UnsetType, says("What every answer says.")] = UNSET
    replies: Annotated[
        tuple[str | Reply, ...] | UnsetType, says("One answer a call; one call too many fails.")
    ] = UNSET
    thinking_ms: Annotated[
        Span | UnsetType, says("The time before each answer, in ms: a number, or [least, most].")
    ] = UNSET
    delay_ms: Annotated[Span | UnsetType, says("The old name of thinking_ms.")] = UNSET
    chunk_delay_ms: Annotated[
        Span, says("The time between two pieces of a stream, in ms: a number, or [least, most].")
    ] = 30
    stop_reason: Annotated[str, says("Why answers end; `stop` if left out.")] = ""
    usage: Annotated[Usage, says("Tokens; else one for four characters.")] = Usage()


class Scenario(Said, frozen=True, kw_only=True):
    """A scripted conversation."""

    id: Annotated[str, says("What the first user message says to ask for it.", min_length=1)]
    description: Annotated[str, says("What it is for, for people.")]
    turns: Annotated[tuple[Step, ...], says("The answers, by turn.")]
    system_prompt_must_include: Annotated[
        tuple[str, ...], says("What the system prompt must hold, to the letter.")
    ] = ()
    match: Annotated[Match | None, says("Which other requests it answers.")] = None
    expect_signature: Annotated[
        bool | None, says("Whether reasoning in the history needs a seal; else by the dialect.")
    ] = None
    templates: Annotated[
        bool, says("Whether {{ JSONPath }} in its texts stands for the request's.")
    ] = False
    chunks: Annotated[Chunks | None, says("How answers stream; else in whole texts.")] = None
    pace: Paced = ""
    faults: Annotated[Faults, says("What goes wrong with every answer on its way.")] = ()


class Document(Said, frozen=True, kw_only=True):
    """A file of several."""

    scenarios: Annotated[tuple[Scenario, ...], says("The scenarios.")] = ()
    mock: Annotated[Mock | None, says("What answers where no scenario does.")] = None
