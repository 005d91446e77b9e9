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
REF_TEMPLATE: Final = "#/$defs/{name}"
_SCHEMA_FIELD_DESCRIPTION: Final = (
    "The path or URL of the scenario JSON Schema, for validation in editors."
)

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
    field_metadata("The turn number: 1 plus the number of assistant messages.", ge=1),
]
SIGNATURE_FIELDS: Final = ("signature", "thoughtSignature", "thought_signature")
"""The names of a signature of reasoning in `provider_metadata`."""
ANY_TURN: Final = "any"
"""The `turn` of a step that answers every turn without a step of its own."""
TurnNumberOrAny = Annotated[
    TurnNumber | Literal["any"],
    field_metadata(
        "The turn number (1 plus the number of assistant messages), or `any` for turns not listed."
    ),
]
Milliseconds = Annotated[float, field_metadata("A duration in milliseconds.", ge=0)]
MillisecondsOrRange = Annotated[
    # msgspec 0.22 crashes on a union of a limited number and a tuple of fixed length.
    Milliseconds | Annotated[tuple[Milliseconds, ...], Meta(min_length=2, max_length=2)],
    field_metadata("Milliseconds: a number, or [min, max] for a random value each time."),
]
ProviderMetadata = Annotated[
    Mapping[str, Mapping[str, Any]],
    field_metadata("Provider-specific values, by provider name (anthropic, google, openai, …)."),
]
ToolArguments = Annotated[
    Mapping[str, Any] | Literal["made"],
    field_metadata("The arguments, or `made` to generate them from the tool's JSON Schema."),
]
CallId = Annotated[
    str,
    field_metadata(
        "The ID of the tool call (default: `call-1`, `call-2`, … in turn 1, `call-2-1` in turn 2)."
    ),
]
ToolName = Annotated[str, field_metadata("The name of the tool, sent unchanged.")]
PaceText = Annotated[
    str, field_metadata("The pace, such as 50tps (default: the scenario's pace, or --pace).")
]
LeadingText = Annotated[str, field_metadata("Text sent before the first tool call.")]


def default_call_id(turn: int, number: int) -> str:
    """The id of the tool call with this number, from 1, in a turn, from 1.

    Document 000 has `call-1` in every turn, and so has turn 1.  Later turns have ids of their own,
    because agents may take a call whose id they know for the earlier one.
    """
    return f"call-{number}" if turn == 1 else f"call-{turn}-{number}"


class ScenarioStruct(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all structs of a document: unknown names are mistakes."""


class UsageSpec(ScenarioStruct, frozen=True):
    """Token counts; each has a default."""

    input: Annotated[TokenCount, field_metadata("Input tokens.")] = None
    output: Annotated[TokenCount, field_metadata("Output tokens.")] = None
    total: Annotated[TokenCount, field_metadata("Total tokens (default: input + output).")] = None
    cache_read: Annotated[TokenCount, field_metadata("Tokens read from the prompt cache.")] = None
    cache_write: Annotated[TokenCount, field_metadata("Tokens written to the prompt cache.")] = None
    reasoning: Annotated[TokenCount, field_metadata("Reasoning tokens.")] = None


class ReasoningSpec(ScenarioStruct, frozen=True):
    """One block of reasoning."""

    text: Annotated[str, field_metadata("The reasoning text.")] = ""
    provider_metadata: ProviderMetadata = {}


class ChunkSpec(ScenarioStruct, frozen=True):
    """How texts are split into chunks for a stream, and the delay between chunks."""

    by: Annotated[
        Literal["whole", "tokens", "words", "characters"], field_metadata("The unit of `size`.")
    ] = "tokens"
    size: Annotated[int, field_metadata("Units per chunk.", ge=1)] = 1
    delay_ms: Annotated[
        MillisecondsOrRange, field_metadata("The delay between two chunks, in ms.")
    ] = 0


class ResponseSpec(ScenarioStruct, frozen=True, kw_only=True):
    """Fields of a response of any kind."""

    reasoning: Annotated[
        tuple[ReasoningSpec, ...], field_metadata("Reasoning blocks, sent first.")
    ] = ()
    reasoning_content: Annotated[
        str | ReasoningSpec | tuple[str | ReasoningSpec, ...] | None,
        field_metadata("More reasoning, sent after `reasoning`: text, an object, or a list."),
    ] = None
    usage: Annotated[UsageSpec, field_metadata("Token usage (default: 64 input, 32 output).")] = (
        UsageSpec()
    )
    provider_metadata: ProviderMetadata = {}
    finish_reason: Annotated[
        str,
        field_metadata(
            "The finish reason, as any provider names it (default: derived from the response)."
        ),
    ] = ""


class ToolCallSpec(ScenarioStruct, frozen=True):
    """A tool call."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""
    assistant_text: Annotated[str, field_metadata("Text sent before this tool call.")] = ""


class ToolCallsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="tool-call"):
    """A response that calls tools."""

    tool_calls: Annotated[
        tuple[ToolCallSpec, ...], field_metadata("The tool calls, in order.", min_length=1)
    ]
    assistant_text: LeadingText = ""


class FinalReportResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="final-report"
):
    """A response that calls the tool `agent__final_report`."""

    report_content: Annotated[str, field_metadata("The report.")]
    assistant_text: LeadingText = ""
    status: Annotated[str, field_metadata("The status of the report.")] = "success"
    report_format: Annotated[str, field_metadata("The format of the report, such as markdown.")] = (
        ""
    )
    report_content_json: Annotated[Any, field_metadata("The report as JSON.")] = UNSET


class TextResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """A text response."""

    assistant_text: Annotated[str, field_metadata("The text.")]


class StructuredResponse(
    ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="structured"
):
    """A JSON response that is valid against the response schema of the request."""

    values: Annotated[
        Mapping[str, Any],
        field_metadata("Fixed values, by property name; other values are generated."),
    ] = {}


class ReActResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="react"):
    """A text response in ReAct format, for models without tool calls."""

    thought: Annotated[str, field_metadata("The text after `Thought:`.")] = ""
    action: Annotated[str, field_metadata("The tool name after `Action:`.")] = ""
    action_input: Annotated[Mapping[str, Any], field_metadata("The tool arguments.")] = {}
    final_answer: Annotated[str, field_metadata("The text after `Final Answer:`.")] = ""


class TextPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="text"):
    """A text part."""

    text: Annotated[str, field_metadata("The text.")]


class ReasoningPartSpec(ReasoningSpec, frozen=True, tag_field="part", tag="reasoning"):
    """A reasoning part."""


class RefusalPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="refusal"):
    """A refusal part."""

    text: Annotated[str, field_metadata("The text of the refusal.")]


class ToolCallPartSpec(ScenarioStruct, frozen=True, tag_field="part", tag="tool-call"):
    """A tool call."""

    tool_name: ToolName
    arguments: ToolArguments = {}
    call_id: CallId = ""


class PartsResponse(ResponseSpec, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """A response of parts of any type, in this order."""

    parts: Annotated[
        tuple[TextPartSpec | ReasoningPartSpec | RefusalPartSpec | ToolCallPartSpec, ...],
        field_metadata("The parts, in order.", min_length=1),
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
    """A turn: expectations of the request, failures before success, and the response."""

    turn: TurnNumberOrAny
    response: Annotated[
        Response, field_metadata("The response; `kind` determines which other fields are allowed.")
    ]
    expected_tools: Annotated[
        tuple[str, ...], field_metadata("Tools that the request must define.")
    ] = ()
    allow_missing_tools: Annotated[bool, field_metadata("Skip the check of `expected_tools`.")] = (
        False
    )
    expected_temperature: Annotated[
        float | None, field_metadata("The temperature that the request must contain.")
    ] = None
    expected_top_p: Annotated[
        float | None, field_metadata("The top_p that the request must contain.")
    ] = None
    expected_reasoning: Annotated[
        Literal["enabled", "disabled"] | None,
        field_metadata("Whether the request must have reasoning enabled or disabled."),
    ] = None
    failures_before_success: Annotated[
        NonNegativeInt, field_metadata("The number of attempts that fail before the turn succeeds.")
    ] = 0
    failure_throws: Annotated[
        bool, field_metadata("Fail with HTTP 500, regardless of `failure_status`.")
    ] = False
    failure_status: Annotated[
        str,
        Meta(
            description="The kind of failure (default: model_error).",
            # Loading accepts any text, only for the documents of other programs.
            extra_json_schema={"enum": ["", *FAILURE_STATUSES]},
        ),
    ] = ""
    failure_message: Annotated[
        str, field_metadata("The error message (default: Simulated failure).")
    ] = ""
    failure_retryable: Annotated[bool, field_metadata("Whether clients may retry.")] = True
    failure_retry_after_ms: Annotated[
        Milliseconds | None, field_metadata("The value of `retry-after` for rate_limit, in ms.")
    ] = None
    failure_error: Annotated[
        Mapping[str, Any],
        field_metadata("Extra fields for the error object; `status` sets the HTTP status."),
    ] = {}
    chunks: Annotated[
        ChunkSpec | None,
        field_metadata(
            "How this response is split into chunks (default: the scenario's `chunks`)."
        ),
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, field_metadata("Faults that are injected into this response.")
    ] = ()


class ValueCondition(ScenarioStruct, frozen=True):
    """Conditions on a value in the request; all must hold."""

    equals: Annotated[Any, field_metadata("The expected value, of any JSON type.")] = UNSET
    matches: Annotated[str, field_metadata("A regular expression that the value must match.")] = ""
    exists: Annotated[
        bool | UnsetType,
        field_metadata("Whether the value must exist (true) or must be absent (false)."),
    ] = UNSET


class ScenarioMatch(ScenarioStruct, frozen=True):
    """Conditions for requests that do not name the scenario; all must hold.

    Patterns are shell patterns such as `gpt-4*`.
    """

    model: Annotated[str, field_metadata("A pattern for the model name.")] = ""
    path: Annotated[str, field_metadata("A pattern for the URL path.")] = ""
    provider: Annotated[str, field_metadata("A pattern for the provider name.")] = ""
    dialect: Annotated[str, field_metadata("A pattern for the dialect name.")] = ""
    session: Annotated[str, field_metadata("A pattern for the session name.")] = ""
    user: Annotated[str, field_metadata("A regular expression for the latest user text.")] = ""
    system: Annotated[str, field_metadata("A regular expression for the system prompt.")] = ""
    tool_results: Annotated[
        bool | UnsetType,
        field_metadata(
            "Whether the request must end with tool results (true) or must not (false)."
        ),
    ] = UNSET
    turn: TurnNumber | UnsetType = UNSET
    json: Annotated[
        Mapping[str, ValueCondition], field_metadata("Conditions on the request body, by JSONPath.")
    ] = {}


class MockReply(ScenarioStruct, frozen=True):
    """One reply of a mock; all fields are optional."""

    content: Annotated[str, field_metadata("The text.")] = ""
    tool_calls: Annotated[tuple[MockCall, ...], field_metadata("The tool calls, in order.")] = ()
    usage: Annotated[
        UsageSpec | None, field_metadata("Token usage (default: the mock's `usage`).")
    ] = None
    stop_reason: Annotated[
        str, field_metadata("The stop reason (default: the mock's `stop_reason`).")
    ] = ""


class MockCall(ScenarioStruct, frozen=True):
    """A tool call of a mock."""

    name: ToolName
    args: Annotated[Mapping[str, Any], field_metadata("The arguments.")] = {}
    id: CallId = ""


class MockSpec(ScenarioStruct, frozen=True):
    """A mock that responds to any request with `replies`, `reply`, or the last user text."""

    name: Annotated[str, field_metadata("The name in logs and error messages.")] = "mock"
    reply: Annotated[
        str | MockReply | UnsetType,
        field_metadata("The reply to every request, if `replies` is not set."),
    ] = UNSET
    replies: Annotated[
        tuple[str | MockReply, ...] | UnsetType,
        field_metadata("The replies, in order; after the last reply, requests fail."),
    ] = UNSET
    thinking_ms: Annotated[
        MillisecondsOrRange | UnsetType,
        field_metadata("The delay before each response, in ms: a number, or [min, max]."),
    ] = UNSET
    delay_ms: Annotated[
        MillisecondsOrRange | UnsetType, field_metadata("Alias of thinking_ms.")
    ] = UNSET
    chunk_delay_ms: Annotated[
        MillisecondsOrRange,
        field_metadata("The delay between two chunks, in ms: a number, or [min, max]."),
    ] = 30
    stop_reason: Annotated[str, field_metadata("The stop reason (default: `stop`).")] = ""
    usage: Annotated[
        UsageSpec, field_metadata("Token usage (default: one token per 4 characters).")
    ] = UsageSpec()


class Scenario(ScenarioStruct, frozen=True):
    """A scripted conversation."""

    id: Annotated[
        str, field_metadata("The first user message that selects the scenario.", min_length=1)
    ]
    description: Annotated[str, field_metadata("The purpose of the scenario.")]
    turns: Annotated[tuple[ScenarioTurn, ...], field_metadata("The turns of the conversation.")]
    system_prompt_must_include: Annotated[
        tuple[str, ...], field_metadata("Strings that the system prompt must contain.")
    ] = ()
    match: Annotated[
        ScenarioMatch | None,
        field_metadata("Conditions that select the scenario if the request does not name one."),
    ] = None
    expect_signature: Annotated[
        bool | None,
        field_metadata(
            "Whether reasoning in earlier messages needs a signature (default: by dialect)."
        ),
    ] = None
    templates: Annotated[
        bool,
        field_metadata("Replace each `{{ JSONPath }}` in texts with the value from the request."),
    ] = False
    chunks: Annotated[
        ChunkSpec | None,
        field_metadata("How responses are split into chunks (default: one chunk per text)."),
    ] = None
    pace: PaceText = ""
    faults: Annotated[
        RuleSpecs, field_metadata("Faults that are injected into every response.")
    ] = ()


class ScenarioDocument(ScenarioStruct, frozen=True):
    """A file with several scenarios, or a mock."""

    scenarios: Annotated[tuple[Scenario, ...], field_metadata("The scenarios.")] = ()
    mock: Annotated[
        MockSpec | None, field_metadata("The mock that responds when no scenario matches.")
    ] = None


def scenario_schema() -> dict[str, Any]:
    """The schema of a file: a scenario, a list of them, or an object of scenarios and a mock.

    It has only the canonical names; loading accepts camelCase too.
    """
    (scenario_ref, document_ref), definitions = msgspec.json.schema_components(
        (Scenario, ScenarioDocument), ref_template=REF_TEMPLATE
    )
    for name in ("Scenario", "ScenarioDocument"):
        definitions[name]["properties"]["$schema"] = {
            "type": "string",
            "description": _SCHEMA_FIELD_DESCRIPTION,
        }
    return {
        "$schema": SCHEMA_URI,
        "title": "llm-proxy scenarios",
        "description": "Scenarios and mocks for llm-proxy.",
        "anyOf": [scenario_ref, {"type": "array", "items": scenario_ref}, document_ref],
        "$defs": dict(sorted(definitions.items())),
    }
