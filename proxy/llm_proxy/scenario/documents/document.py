"""The structs of scenario documents, and their JSON Schema.

Names are those of documents 000 and 004, in snake_case; `names` accepts other spellings.  A field
without a default is required.  Class docstrings become descriptions in the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from llm_proxy.faults.rule import RuleSpecs

SCHEMA_URI: Final = "https://json-schema.org/draft/2020-12/schema"
_REF_TEMPLATE: Final = "#/$defs/{name}"
_SCHEMA_FIELD_DESCRIPTION: Final = "Where the JSON Schema of this file is, for editors."

FailureStatus = Literal[
    "thrown", "timeout", "invalid_response", "network_error", "rate_limit", "model_error"
]

FAILURE_STATUSES = tuple(status for status in get_args(FailureStatus) if status != "thrown")
"""The documented values of `failure_status`."""


def field_metadata(description: str, **limits: Any) -> Meta:
    """The metadata of a field: its description in the JSON Schema, and its limits."""
    return Meta(description=description, **limits)


NonNegativeInt = Annotated[int, Meta(ge=0)]
TokenCount = NonNegativeInt | None
TurnNumber = Annotated[
    int,
    field_metadata("The number of the turn, from 1: the model's messages so far, and one.", ge=1),
]
SIGNATURE_FIELDS: Final = ("signature", "thoughtSignature", "thought_signature")
"""The names of a signature of reasoning in `provider_metadata`."""
ANY_TURN: Final = "any"
"""The `turn` of a step that answers every turn without a step of its own."""
TurnNumberOrAny = Annotated[
    TurnNumber | Literal["any"],
    field_metadata(
        "The number of the turn, from 1: the model's messages so far, and one; or `any`, for each "
        "turn that no other step is for."
    ),
]
Milliseconds = Annotated[float, field_metadata("Milliseconds.", ge=0)]
MillisecondsOrRange = Annotated[
    # msgspec 0.22 crashes on a union of a limited number and a tuple of fixed length.
    Milliseconds | Annotated[tuple[Milliseconds, ...], Meta(min_length=2, max_length=2)],
    field_metadata("Milliseconds: a number, or [least, most], drawn anew each time."),
]
ProviderMetadata = Annotated[
    Mapping[str, Mapping[str, Any]],
    field_metadata("By provider (anthropic, google, openai, …); told where the dialect can."),
]
ToolArguments = Annotated[
    Mapping[str, Any] | Literal["made"],
    field_metadata("An object; or `made`: one that fits the tool's own JSON Schema."),
]
CallId = Annotated[
    str, field_metadata("The id of the call; `call-1`, `call-2`, … by its place if left out.")
]
ToolName = Annotated[str, field_metadata("The name of the tool, sent as it is.")]
PaceText = Annotated[
    str, field_metadata("A pace, such as 50tps; else that of what holds this, or of the run.")
]
LeadingText = Annotated[str, field_metadata("Text before all else.")]


class ScenarioStruct(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all structs of a document: unknown names are mistakes."""


class UsageSpec(ScenarioStruct, frozen=True):
    """Token counts; what is left out has its default."""

    input: Annotated[TokenCount, field_metadata("Tokens of the request.")] = None
    output: Annotated[TokenCount, field_metadata("Tokens of the answer.")] = None
    total: Annotated[TokenCount, field_metadata("Both; their sum if left out.")] = None
    cache_read: Annotated[TokenCount, field_metadata("Tokens read from a cache.")] = None
    cache_write: Annotated[TokenCount, field_metadata("Tokens written to a cache.")] = None
    reasoning: Annotated[TokenCount, field_metadata("Tokens of reasoning.")] = None


class ReasoningSpec(ScenarioStruct, frozen=True):
    """One part of reasoning."""

    text: Annotated[str, field_metadata("What the model thinks.")] = ""
    provider_metadata: ProviderMetadata = {}


class ChunkSpec(ScenarioStruct, frozen=True):
    """How texts are split for a stream, and the time between the pieces."""

    by: Annotated[
        Literal["whole", "tokens", "words", "characters"], field_metadata("What a piece is cut by.")
    ] = "tokens"
    size: Annotated[int, field_metadata("Tokens, words or characters a piece.", ge=1)] = 1
    delay_ms: Annotated[MillisecondsOrRange, field_metadata("The time between two pieces.")] = 0


class ResponseSpec(ScenarioStruct, frozen=True, kw_only=True):
    """Fields of a response of any kind."""

    reasoning: Annotated[tuple[ReasoningSpec, ...], field_metadata("Reasoning, part by part.")] = ()
    reasoning_content: Annotated[
        str | ReasoningSpec | tuple[str | ReasoningSpec, ...] | None,
        field_metadata("More reasoning, after `reasoning`: text, a part, or a list of either."),
    ] = None
    usage: Annotated[UsageSpec, field_metadata("Tokens: 64 input and 32 output if left out.")] = (
        UsageSpec()
    )
    provider_metadata: ProviderMetadata = {}
    finish_reason: Annotated[
        str, field_metadata("In any provider's word; it follows from the answer if left out.")
    ] = ""


class ToolCallSpec(ScenarioStruct, frozen=True):
    """A call of a tool."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""
    assistant_text: Annotated[str, field_metadata("Text before the call.")] = ""


class ToolCallsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """The model calls tools."""

    tool_calls: Annotated[
        tuple[ToolCallSpec, ...], field_metadata("The calls, in their order.", min_length=1)
    ]
    assistant_text: LeadingText = ""


class FinalReportResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="final-report"
):
    """The model reports by calling `agent__final_report`."""

    report_content: Annotated[str, field_metadata("The report.")]
    assistant_text: LeadingText = ""
    status: Annotated[str, field_metadata("How it went.")] = "success"
    report_format: Annotated[
        str, field_metadata("What the report is written in, such as markdown.")
    ] = ""
    report_content_json: Annotated[Any, field_metadata("The report as JSON of any kind.")] = UNSET


class TextResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """The model answers with text."""

    assistant_text: Annotated[str, field_metadata("What it says.")]


class StructuredResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="structured"
):
    """JSON that is valid against the response schema of the request."""

    values: Annotated[Mapping[str, Any], field_metadata("What is not made up: by property.")] = {}


class ReActResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="react"):
    """Text of Thought, Action and Action Input, or of a Final Answer, for models without tools."""

    thought: Annotated[str, field_metadata("What follows `Thought:`.")] = ""
    action: Annotated[str, field_metadata("The name of a tool.")] = ""
    action_input: Annotated[Mapping[str, Any], field_metadata("The arguments of the tool.")] = {}
    final_answer: Annotated[str, field_metadata("What follows `Final Answer:`.")] = ""


class TextPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="text"):
    """Text."""

    text: Annotated[str, field_metadata("The text.")]


class ReasoningPartSpec(ReasoningSpec, frozen=True, tag_field="part", tag="reasoning"):
    """Reasoning."""


class RefusalPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="refusal"):
    """A refusal text."""

    text: Annotated[str, field_metadata("The words.")]


class ToolCallPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="tool-call"):
    """A call of a tool."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""


class PartsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """Parts of any type, in this order."""

    parts: Annotated[
        tuple[TextPartSpec | ReasoningPartSpec | RefusalPartSpec | ToolCallPartSpec, ...],
        field_metadata("The parts, in their order.", min_length=1),
    ]


Response = (
    ToolCallsResponse
    | FinalReportResponse
    | TextResponse
    | StructuredResponse
    | ReActResponse
    | PartsResponse
)


class ScenarioTurn(ScenarioStruct, frozen=True):
    """A turn: what the request must contain, how often it fails first, and the response."""

    turn: TurnNumberOrAny
    response: Annotated[
        Response, field_metadata("The answer; its `kind` says which fields it has.")
    ]
    expected_tools: Annotated[
        tuple[str, ...], field_metadata("Tools that the request must offer.")
    ] = ()
    allow_missing_tools: Annotated[bool, field_metadata("Whether tools are not looked for.")] = (
        False
    )
    expected_temperature: Annotated[
        float | None, field_metadata("What the request must ask for.")
    ] = None
    expected_top_p: Annotated[float | None, field_metadata("What the request must ask for.")] = None
    expected_reasoning: Annotated[
        Literal["enabled", "disabled"] | None,
        field_metadata("Whether the request must ask for reasoning."),
    ] = None
    failures_before_success: Annotated[
        NonNegativeInt, field_metadata("How often the turn fails first.")
    ] = 0
    failure_throws: Annotated[
        bool, field_metadata("Whether it fails without a status of its own.")
    ] = False
    failure_status: Annotated[
        str,
        Meta(
            description="How it fails; model_error if left out.",
            # Loading accepts any text, only for the documents of other programs.
            extra_json_schema={"enum": ["", *FAILURE_STATUSES]},
        ),
    ] = ""
    failure_message: Annotated[str, field_metadata("What a failure says.")] = ""
    failure_retryable: Annotated[bool, field_metadata("Whether clients may try again.")] = True
    failure_retry_after_ms: Annotated[
        Milliseconds | None, field_metadata("When clients may try again, in ms; for rate_limit.")
    ] = None
    failure_error: Annotated[
        Mapping[str, Any],
        field_metadata("Fields of the error object; `status` is the HTTP status."),
    ] = {}
    chunks: Annotated[
        ChunkSpec | None, field_metadata("How this answer streams; else as the scenario's.")
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, field_metadata("What goes wrong with this answer on its way.")
    ] = ()


class ValueCondition(ScenarioStruct, frozen=True):
    """Conditions on a value of the request; all that are given must hold."""

    equals: Annotated[Any, field_metadata("The value itself, any JSON.")] = UNSET
    matches: Annotated[str, field_metadata("A regular expression, searched in its text.")] = ""
    exists: Annotated[bool | UnsetType, field_metadata("Whether it is there at all.")] = UNSET


class ScenarioMatch(ScenarioStruct, frozen=True):
    """Which requests a scenario answers beside those that name it; all conditions must hold.

    Patterns are shell patterns: `gpt-4*`.
    """

    model: Annotated[str, field_metadata("A pattern of the model's name.")] = ""
    path: Annotated[str, field_metadata("A pattern of the URL's path.")] = ""
    provider: Annotated[str, field_metadata("A pattern of the provider's name.")] = ""
    dialect: Annotated[str, field_metadata("A pattern of the dialect's name.")] = ""
    session: Annotated[str, field_metadata("A pattern of the session's name.")] = ""
    user: Annotated[str, field_metadata("A regular expression: the latest user text.")] = ""
    system: Annotated[str, field_metadata("A regular expression: the system prompt.")] = ""
    tool_results: Annotated[
        bool | UnsetType, field_metadata("Whether results of tools came last.")
    ] = UNSET
    turn: TurnNumber | UnsetType = UNSET
    json: Annotated[
        Mapping[str, ValueCondition], field_metadata("By JSONPath into the request's body.")
    ] = {}


class MockReply(ScenarioStruct, frozen=True):
    """One response of a mock; what is left out is empty."""

    content: Annotated[str, field_metadata("What it says.")] = ""
    tool_calls: Annotated[tuple[MockCall, ...], field_metadata("The calls, in their order.")] = ()
    usage: Annotated[
        UsageSpec | None, field_metadata("Tokens of this answer; else the mock's.")
    ] = None
    stop_reason: Annotated[str, field_metadata("Why it ends; else the mock's.")] = ""


class MockCall(ScenarioStruct, frozen=True):
    """A tool call, with the field names of document 004."""

    name: ToolName
    args: Annotated[Mapping[str, Any], field_metadata("Its arguments.")] = {}
    id: Annotated[str, field_metadata("The id of the call.")] = ""


class MockSpec(ScenarioStruct, frozen=True):
    """A model that answers any request: with `replies`, else `reply`, else the last user text."""

    name: Annotated[str, field_metadata("What the log calls it.")] = "mock"
    reply: Annotated[str | UnsetType, field_metadata("What every answer says.")] = UNSET
    replies: Annotated[
        tuple[str | MockReply, ...] | UnsetType,
        field_metadata("One answer a call; one call too many fails."),
    ] = UNSET
    thinking_ms: Annotated[
        MillisecondsOrRange | UnsetType,
        field_metadata("The time before each answer, in ms: a number, or [least, most]."),
    ] = UNSET
    delay_ms: Annotated[
        MillisecondsOrRange | UnsetType, field_metadata("The old name of thinking_ms.")
    ] = UNSET
    chunk_delay_ms: Annotated[
        MillisecondsOrRange,
        field_metadata(
            "The time between two pieces of a stream, in ms: a number, or [least, most]."
        ),
    ] = 30
    stop_reason: Annotated[str, field_metadata("Why answers end; `stop` if left out.")] = ""
    usage: Annotated[UsageSpec, field_metadata("Tokens; else one for four characters.")] = (
        UsageSpec()
    )


class Scenario(ScenarioStruct, frozen=True):
    """A scripted conversation."""

    id: Annotated[
        str, field_metadata("What the first user message says to ask for it.", min_length=1)
    ]
    description: Annotated[str, field_metadata("What it is for, for people.")]
    turns: Annotated[tuple[ScenarioTurn, ...], field_metadata("The answers, by turn.")]
    system_prompt_must_include: Annotated[
        tuple[str, ...], field_metadata("What the system prompt must hold, to the letter.")
    ] = ()
    match: Annotated[ScenarioMatch | None, field_metadata("Which other requests it answers.")] = (
        None
    )
    expect_signature: Annotated[
        bool | None,
        field_metadata("Whether reasoning in the history needs a seal; else by the dialect."),
    ] = None
    templates: Annotated[
        bool, field_metadata("Whether {{ JSONPath }} in its texts stands for the request's.")
    ] = False
    chunks: Annotated[
        ChunkSpec | None, field_metadata("How answers stream; else in whole texts.")
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, field_metadata("What goes wrong with every answer on its way.")
    ] = ()


class ScenarioDocument(ScenarioStruct, frozen=True):
    """A file with several scenarios, or with a mock."""

    scenarios: Annotated[tuple[Scenario, ...], field_metadata("The scenarios.")] = ()
    mock: Annotated[MockSpec | None, field_metadata("What answers where no scenario does.")] = None


def scenario_schema() -> dict[str, Any]:
    """The schema of a file: a scenario, a list of them, or an object of scenarios and a mock.

    It has only the canonical names; loading accepts camelCase too.
    """
    (scenario_ref, document_ref), definitions = msgspec.json.schema_components(
        (Scenario, ScenarioDocument), ref_template=_REF_TEMPLATE
    )
    for name in ("Scenario", "ScenarioDocument"):
        definitions[name]["properties"]["$schema"] = {
            "type": "string",
            "description": _SCHEMA_FIELD_DESCRIPTION,
        }
    return {
        "$schema": SCHEMA_URI,
        "title": "llm-proxy scenarios",
        "description": "Scripted conversations that llm-proxy answers with.",
        "anyOf": [scenario_ref, {"type": "array", "items": scenario_ref}, document_ref],
        "$defs": dict(sorted(definitions.items())),
    }
