"""Decodes an interaction: its own fields and its steps."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.google import shared_format
from llm_proxy.dialects.google.step_decoder import StepDecoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, Finish, Json, Turn

COMPLETED: Final = ("interaction.completed", "interaction.complete")
"""As it is spelled, and as it was before steps had their name."""

FINISH: Final = {
    "completed": Finish.STOP,
    "requires_action": Finish.TOOL_CALLS,
    "incomplete": Finish.LENGTH,
    "budget_exceeded": Finish.LENGTH,
    "requires_continuation": Finish.PAUSED,
    "failed": Finish.ERROR,
}
"""What each status means that an interaction can end in."""
RUNNING: Final = ("", "in_progress", "queued")
COUNTS: Final = {
    "input": "total_input_tokens",
    "output": "total_output_tokens",
    "total": "total_tokens",
    "cache_read": "total_cached_tokens",
    "reasoning": "total_thought_tokens",
}
"""The counts of a usage, each with the wire's word."""

METADATA: Final = ("agent", "previous_interaction_id", "service_tier", "environment_id")


_DELTAS: Final = ("step.delta", "content.delta")
_SAYS_NOTHING: Final = ("thought_signature", "text_annotation", "text_annotation_delta")
"""The types of deltas that tell what stands beside the words."""


def event_output_chars(event: Fields) -> int:
    """How many characters an event adds to what was said; a delta counts as one at least.

    Seals and annotations add none.
    """
    delta = lenient_json.object_fields(event.get("delta"))
    if event.get("event_type") not in _DELTAS or delta.get("type") in _SAYS_NOTHING:
        return 0
    within = lenient_json.object_fields(delta.get("content"))  # of a thought's summary
    texts = (delta.get("text"), delta.get("arguments"), within.get("text"))
    return max(sum(len(lenient_json.str_or_empty(text)) for text in texts), 1)


class InteractionDecoder:
    """The turn of a response, as its events come."""

    def __init__(self) -> None:
        self._steps: dict[int, StepDecoder] = {}
        self._interaction_fields: dict[str, Json] = {}
        """The fields of the interaction, as they were said last."""
        self._failure: Failure | None = None

    def feed(self, event: Fields) -> None:
        """Read one event; of another kind than these it is left out."""
        if error := event.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        index = lenient_json.first_count(event.get("index"), len(self._steps)) or 0
        match lenient_json.str_or_empty(event.get("event_type")):
            case "step.start" | "content.start":
                self._step_at(index).feed(
                    lenient_json.object_fields(event.get("step") or event.get("content"))
                )
            case kind if kind in _DELTAS:
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
        """What was said."""
        self._feed_steps()
        status = lenient_json.printable_text(self._interaction_fields.get("status"))
        if not (self._steps or status or self._failure):
            return ()
        errors = lenient_json.object_items(self._interaction_fields.get("errors"))
        ordered = [step for _, step in sorted(self._steps.items())]
        turn = Turn(
            tuple(part for step in ordered for part in step.result()),
            finish=None if status in RUNNING else FINISH.get(status, Finish.OTHER),
            finish_raw="" if status in RUNNING else status,
            usage=shared_format.decode_usage(
                lenient_json.object_fields(self._interaction_fields.get("usage")), COUNTS
            ),
            failure=self._failure
            or next((shared_format.decode_failure(dict(error)) for error in errors), None),
            id=lenient_json.printable_text(self._interaction_fields.get("id")),
            model=lenient_json.printable_text(self._interaction_fields.get("model")),
            metadata=lenient_json.named_metadata(self._interaction_fields, METADATA),
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
        """Read the steps of an interaction that was told at once; a stream told them already."""
        if self._steps:
            return
        value = self._interaction_fields.get("steps") or self._interaction_fields.get("outputs")
        for index, step in enumerate(lenient_json.object_items(value)):
            self._step_at(index).feed(step)
