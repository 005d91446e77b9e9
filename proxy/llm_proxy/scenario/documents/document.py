"""The structs of scenario documents; parsing and the JSON Schema use them.

Names are those of documents 000 and 004, in snake_case; `names` accepts other spellings.  A field
without a default is required.  Class docstrings become descriptions in the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from llm_proxy.faults.rule_list_schema import RuleSpecs
from llm_proxy.scenario.documents.fields import (
    CallId,
    LeadingText,
    Milliseconds,
    MillisecondsOrRange,
    NonNegativeInt,
    PaceText,
    ProviderMetadata,
    ToolArguments,
    ToolName,
    TurnNumber,
    TurnNumberOrAny,
    describe_field,
)
from llm_proxy.scenario.scripted_response import FailureStatus

FAILURE_STATUSES = tuple(status for status in get_args(FailureStatus) if status != "thrown")
"""The documented values of `failure_status`."""


class ScenarioStruct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all structs of a document: unknown names are mistakes."""


class UsageSpec(ScenarioStruct, frozen=True, kw_only=True):
    """Token counts; what is left out has its default."""

    input: Annotated[NonNegativeInt | None, describe_field("Tokens of the request.")] = None
    output: Annotated[NonNegativeInt | None, describe_field("Tokens of the answer.")] = None
    total: Annotated[NonNegativeInt | None, describe_field("Both; their sum if left out.")] = None
    cache_read: Annotated[NonNegativeInt | None, describe_field("Tokens read from a cache.")] = None
    cache_write: Annotated[NonNegativeInt | None, describe_field("Tokens written to a cache.")] = (
        None
    )
    reasoning: Annotated[NonNegativeInt | None, describe_field("Tokens of reasoning.")] = None


class ReasoningSpec(ScenarioStruct, frozen=True, kw_only=True):
    """One part of reasoning."""

    text: Annotated[str, describe_field("What the model thinks.")] = ""
    provider_metadata: ProviderMetadata = {}


class ChunkSpec(ScenarioStruct, frozen=True, kw_only=True):
    """How texts are split for a stream, and the time between the pieces."""

    by: Annotated[
        Literal["whole", "tokens", "words", "characters"], describe_field("What a piece is cut by.")
    ] = "tokens"
    size: Annotated[int, describe_field("Tokens, words or characters a piece.", ge=1)] = 1
    delay_ms: Annotated[MillisecondsOrRange, describe_field("The time between two pieces.")] = 0


class ResponseSpec(ScenarioStruct, frozen=True, kw_only=True):
    """Fields of a response of any kind."""

    reasoning: Annotated[tuple[ReasoningSpec, ...], describe_field("Reasoning, part by part.")] = ()
    reasoning_content: Annotated[
        str | ReasoningSpec | tuple[str | ReasoningSpec, ...] | None,
        describe_field("More reasoning, after `reasoning`: text, a part, or a list of either."),
    ] = None
    usage: Annotated[UsageSpec, describe_field("Tokens: 64 input and 32 output if left out.")] = (
        UsageSpec()
    )
    provider_metadata: ProviderMetadata = {}
    finish_reason: Annotated[
        str, describe_field("In any provider's word; it follows from the answer if left out.")
    ] = ""


class ToolCallSpec(ScenarioStruct, frozen=True, kw_only=True):
    """A call of a tool."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""
    assistant_text: Annotated[str, describe_field("Text before the call.")] = ""


class ToolCallsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """The model calls tools."""

    tool_calls: Annotated[
        tuple[ToolCallSpec, ...], describe_field("The calls, in their order.", min_length=1)
    ]
    assistant_text: LeadingText = ""


class FinalReportResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="final-report"
):
    """The model reports by calling `agent__final_report`."""

    report_content: Annotated[str, describe_field("The report.")]
    assistant_text: LeadingText = ""
    status: Annotated[str, describe_field("How it went.")] = "success"
    report_format: Annotated[
        str, describe_field("What the report is written in, such as markdown.")
    ] = ""
    report_content_json: Annotated[Any, describe_field("The report as JSON of any kind.")] = UNSET


class TextResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """The model answers with text."""

    assistant_text: Annotated[str, describe_field("What it says.")]


class StructuredResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="structured"
):
    """JSON that is valid against the response schema of the request."""

    values: Annotated[Mapping[str, Any], describe_field("What is not made up: by property.")] = {}


class ReActResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="react"):
    """Text of Thought, Action and Action Input, or of a Final Answer, for models without tools."""

    thought: Annotated[str, describe_field("What follows `Thought:`.")] = ""
    action: Annotated[str, describe_field("The name of a tool.")] = ""
    action_input: Annotated[Mapping[str, Any], describe_field("The arguments of the tool.")] = {}
    final_answer: Annotated[str, describe_field("What follows `Final Answer:`.")] = ""


class TextPartSpec(ScenarioStruct, frozen=True, kw_only=True, tag_field="part", tag="text"):
    """Text."""

    text: Annotated[str, describe_field("The text.")]


class ReasoningPartSpec(
    ReasoningSpec, frozen=True, kw_only=True, tag_field="part", tag="reasoning"
):
    """Reasoning."""


class RefusalPartSpec(ScenarioStruct, frozen=True, kw_only=True, tag_field="part", tag="refusal"):
    """A refusal text."""

    text: Annotated[str, describe_field("The words.")]


class ToolCallPartSpec(
    ScenarioStruct, frozen=True, kw_only=True, tag_field="part", tag="tool-call"
):
    """A call of a tool."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""


class PartsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """Parts of any type, in this order."""

    parts: Annotated[
        tuple[TextPartSpec | ReasoningPartSpec | RefusalPartSpec | ToolCallPartSpec, ...],
        describe_field("The parts, in their order.", min_length=1),
    ]


Response = (
    ToolCallsResponse
    | FinalReportResponse
    | TextResponse
    | StructuredResponse
    | ReActResponse
    | PartsResponse
)


class ScenarioTurn(ScenarioStruct, frozen=True, kw_only=True):
    """A turn: what the request must contain, how often it fails first, and the response."""

    turn: TurnNumberOrAny
    response: Annotated[
        Response, describe_field("The answer; its `kind` says which fields it has.")
    ]
    expected_tools: Annotated[
        tuple[str, ...], describe_field("Tools that the request must offer.")
    ] = ()
    allow_missing_tools: Annotated[bool, describe_field("Whether tools are not looked for.")] = (
        False
    )
    expected_temperature: Annotated[
        float | None, describe_field("What the request must ask for.")
    ] = None
    expected_top_p: Annotated[float | None, describe_field("What the request must ask for.")] = None
    expected_reasoning: Annotated[
        Literal["enabled", "disabled"] | None,
        describe_field("Whether the request must ask for reasoning."),
    ] = None
    failures_before_success: Annotated[
        NonNegativeInt, describe_field("How often the turn fails first.")
    ] = 0
    failure_throws: Annotated[
        bool, describe_field("Whether it fails without a status of its own.")
    ] = False
    failure_status: Annotated[
        str,
        Meta(
            description="How it fails; model_error if left out.",
            # Loading accepts any text, only for the documents of other programs.
            extra_json_schema={"enum": ["", *FAILURE_STATUSES]},
        ),
    ] = ""
    failure_message: Annotated[str, describe_field("What a failure says.")] = ""
    failure_retryable: Annotated[bool, describe_field("Whether clients may try again.")] = True
    failure_retry_after_ms: Annotated[
        Milliseconds | None, describe_field("When clients may try again, in ms; for rate_limit.")
    ] = None
    failure_error: Annotated[
        Mapping[str, Any],
        describe_field("Fields of the error object; `status` is the HTTP status."),
    ] = {}
    chunks: Annotated[
        ChunkSpec | None, describe_field("How this answer streams; else as the scenario's.")
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, describe_field("What goes wrong with this answer on its way.")
    ] = ()


class ValueCondition(ScenarioStruct, frozen=True, kw_only=True):
    """Conditions on a value of the request; all that are given must hold."""

    equals: Annotated[Any, describe_field("The value itself, any JSON.")] = UNSET
    matches: Annotated[str, describe_field("A regular expression, searched in its text.")] = ""
    exists: Annotated[bool | UnsetType, describe_field("Whether it is there at all.")] = UNSET


class ScenarioMatch(ScenarioStruct, frozen=True, kw_only=True):
    """Which requests a scenario answers beside those that name it; all conditions must hold.

    Patterns are shell patterns: `gpt-4*`.
    """

    model: Annotated[str, describe_field("A pattern of the model's name.")] = ""
    path: Annotated[str, describe_field("A pattern of the URL's path.")] = ""
    provider: Annotated[str, describe_field("A pattern of the provider's name.")] = ""
    dialect: Annotated[str, describe_field("A pattern of the dialect's name.")] = ""
    session: Annotated[str, describe_field("A pattern of the session's name.")] = ""
    user: Annotated[str, describe_field("A regular expression: the latest user text.")] = ""
    system: Annotated[str, describe_field("A regular expression: the system prompt.")] = ""
    tool_results: Annotated[
        bool | UnsetType, describe_field("Whether results of tools came last.")
    ] = UNSET
    turn: TurnNumber | UnsetType = UNSET
    json: Annotated[
        Mapping[str, ValueCondition], describe_field("By JSONPath into the request's body.")
    ] = {}


class MockReply(ScenarioStruct, frozen=True, kw_only=True):
    """One response of a mock; what is left out is empty."""

    content: Annotated[str, describe_field("What it says.")] = ""
    tool_calls: Annotated[tuple[MockCall, ...], describe_field("The calls, in their order.")] = ()
    usage: Annotated[
        UsageSpec | None, describe_field("Tokens of this answer; else the mock's.")
    ] = None
    stop_reason: Annotated[str, describe_field("Why it ends; else the mock's.")] = ""


class MockCall(ScenarioStruct, frozen=True, kw_only=True):
    """A tool call, with the field names of document 004."""

    name: ToolName
    args: Annotated[Mapping[str, Any], describe_field("Its arguments.")] = {}
    id: Annotated[str, describe_field("The id of the call.")] = ""


class MockSpec(ScenarioStruct, frozen=True, kw_only=True):
    """A model that answers any request: with `replies`, else `reply`, else the last user text."""

    name: Annotated[str, describe_field("What the log calls it.")] = "mock"
    reply: Annotated[str | UnsetType, describe_field("What every answer says.")] = UNSET
    replies: Annotated[
        tuple[str | MockReply, ...] | UnsetType,
        describe_field("One answer a call; one call too many fails."),
    ] = UNSET
    thinking_ms: Annotated[
        MillisecondsOrRange | UnsetType,
        describe_field("The time before each answer, in ms: a number, or [least, most]."),
    ] = UNSET
    delay_ms: Annotated[
        MillisecondsOrRange | UnsetType, describe_field("The old name of thinking_ms.")
    ] = UNSET
    chunk_delay_ms: Annotated[
        MillisecondsOrRange,
        describe_field(
            "The time between two pieces of a stream, in ms: a number, or [least, most]."
        ),
    ] = 30
    stop_reason: Annotated[str, describe_field("Why answers end; `stop` if left out.")] = ""
    usage: Annotated[UsageSpec, describe_field("Tokens; else one for four characters.")] = (
        UsageSpec()
    )


class Scenario(ScenarioStruct, frozen=True, kw_only=True):
    """A scripted conversation."""

    id: Annotated[
        str, describe_field("What the first user message says to ask for it.", min_length=1)
    ]
    description: Annotated[str, describe_field("What it is for, for people.")]
    turns: Annotated[tuple[ScenarioTurn, ...], describe_field("The answers, by turn.")]
    system_prompt_must_include: Annotated[
        tuple[str, ...], describe_field("What the system prompt must hold, to the letter.")
    ] = ()
    match: Annotated[ScenarioMatch | None, describe_field("Which other requests it answers.")] = (
        None
    )
    expect_signature: Annotated[
        bool | None,
        describe_field("Whether reasoning in the history needs a seal; else by the dialect."),
    ] = None
    templates: Annotated[
        bool, describe_field("Whether {{ JSONPath }} in its texts stands for the request's.")
    ] = False
    chunks: Annotated[
        ChunkSpec | None, describe_field("How answers stream; else in whole texts.")
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, describe_field("What goes wrong with every answer on its way.")
    ] = ()


class ScenarioDocument(ScenarioStruct, frozen=True, kw_only=True):
    """A file with several scenarios, or with a mock."""

    scenarios: Annotated[tuple[Scenario, ...], describe_field("The scenarios.")] = ()
    mock: Annotated[MockSpec | None, describe_field("What answers where no scenario does.")] = None
