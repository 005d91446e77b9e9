"""Decodes an interaction: its own fields and its steps."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.google import shared_format
from llm_proxy.dialects.google.step_decoder import StepDecoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, FinishReason, Json, Turn

COMPLETED_EVENT_TYPES: Final = ("interaction.completed", "interaction.complete")
"""The type of the last event, and its older spelling."""

FINISH_BY_STATUS: Final = {
    "completed": FinishReason.STOP,
    "requires_action": FinishReason.TOOL_CALLS,
    "incomplete": FinishReason.LENGTH,
    "budget_exceeded": FinishReason.LENGTH,
    "requires_continuation": FinishReason.PAUSED,
    "failed": FinishReason.ERROR,
}
"""Final statuses of an interaction -> `FinishReason`."""
RUNNING_STATUSES: Final = ("", "in_progress", "queued")
USAGE_WIRE_NAMES: Final = {
    "input": "total_input_tokens",
    "output": "total_output_tokens",
    "total": "total_tokens",
    "cache_read": "total_cached_tokens",
    "reasoning": "total_thought_tokens",
}
"""Fields of `Usage` -> fields of `usage`."""

METADATA_FIELDS: Final = ("agent", "previous_interaction_id", "service_tier", "environment_id")


_DELTA_EVENT_TYPES: Final = ("step.delta", "content.delta")
_NON_OUTPUT_DELTA_TYPES: Final = ("thought_signature", "text_annotation", "text_annotation_delta")
"""The types of deltas without output characters: signatures and annotations."""


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; a delta counts as at least one.

    Signatures and annotations count nothing.
    """
    delta = lenient_json.object_fields(event.get("delta"))
    if (
        event.get("event_type") not in _DELTA_EVENT_TYPES
        or delta.get("type") in _NON_OUTPUT_DELTA_TYPES
    ):
        return 0
    summary_content = lenient_json.object_fields(delta.get("content"))  # of a thought's summary
    texts = (delta.get("text"), delta.get("arguments"), summary_content.get("text"))
    return max(sum(len(lenient_json.str_or_empty(text)) for text in texts), 1)


class InteractionDecoder:
    """Decodes a response into at most one turn, event by event."""

    def __init__(self) -> None:
        self._steps: dict[int, StepDecoder] = {}
        self._interaction_fields: dict[str, Json] = {}
        """The latest value of each field of the interaction."""
        self._failure: Failure | None = None

    def feed(self, event: Fields) -> None:
        """Add one event; one of an unknown type is ignored, except for its error."""
        if error := event.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        index = lenient_json.first_integer(event.get("index"), len(self._steps)) or 0
        match lenient_json.str_or_empty(event.get("event_type")):
            case "step.start" | "content.start":
                self._step_at(index).feed(
                    lenient_json.object_fields(event.get("step") or event.get("content"))
                )
            case kind if kind in _DELTA_EVENT_TYPES:
                self._step_at(index).feed(lenient_json.object_fields(event.get("delta")))
                fields = lenient_json.object_fields(event.get("metadata"))
                self._read_interaction_fields({"usage": fields.get("total_usage")})
            case "interaction.status_update":
                self._read_interaction_fields(
                    {"id": event.get("interaction_id"), "status": event.get("status")}
                )
            case kind:
                if kind.startswith("interaction."):
                    self._read_interaction_fields(
                        lenient_json.object_fields(event.get("interaction"))
                    )

    def turns(self) -> tuple[Turn, ...]:
        """One turn; none where the response has no steps, no status and no error."""
        self._feed_steps()
        status = lenient_json.value_as_text(self._interaction_fields.get("status"))
        if not (self._steps or status or self._failure):
            return ()
        errors = lenient_json.array_objects(self._interaction_fields.get("errors"))
        steps = [step for _, step in sorted(self._steps.items())]
        turn = Turn(
            tuple(part for step in steps for part in step.parts()),
            finish=None
            if status in RUNNING_STATUSES
            else FINISH_BY_STATUS.get(status, FinishReason.OTHER),
            finish_raw="" if status in RUNNING_STATUSES else status,
            usage=shared_format.decode_usage(
                lenient_json.object_fields(self._interaction_fields.get("usage")), USAGE_WIRE_NAMES
            ),
            failure=self._failure
            or next((shared_format.decode_failure(dict(error)) for error in errors), None),
            id=lenient_json.value_as_text(self._interaction_fields.get("id")),
            model=lenient_json.value_as_text(self._interaction_fields.get("model")),
            metadata=lenient_json.select_metadata(self._interaction_fields, METADATA_FIELDS),
        )
        return (turn,)

    def _step_at(self, index: int) -> StepDecoder:
        return self._steps.setdefault(index, StepDecoder())

    def _read_interaction_fields(self, interaction: Fields) -> None:
        fields = {
            name: value for name, value in interaction.items() if value not in (None, "", [], {})
        }
        self._interaction_fields.update(fields)

    def _feed_steps(self) -> None:
        """Add the steps of an unstreamed interaction; a stream has added its steps already."""
        if self._steps:
            return
        value = self._interaction_fields.get("steps") or self._interaction_fields.get("outputs")
        for index, step in enumerate(lenient_json.array_objects(value)):
            self._step_at(index).feed(step)
