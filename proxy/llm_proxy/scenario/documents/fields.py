"""Field types of scenario documents, with their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta


def field_metadata(description: str, **limits: Any) -> Meta:
    """The metadata of a field: its description in the JSON Schema, and its limits."""
    return Meta(description=description, **limits)


NonNegativeInt = Annotated[int, Meta(ge=0)]
TurnNumber = Annotated[
    int,
    field_metadata("The number of the turn, from 1: the model's messages so far, and one.", ge=1),
]
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
