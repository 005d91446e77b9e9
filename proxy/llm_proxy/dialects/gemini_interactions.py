"""Google's Interactions API: a server that keeps the conversation, and says it step by step.

Here events have names, and a stream ends in `[DONE]`; Gemini's own streams have neither.  What
was said is a list of steps: thoughts, text, calls, and the tools that Google runs itself.  The
event `interaction.completed` ends a stream too, with whatever status the interaction has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import google_api, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.gemini_steps import Step
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Failure, Finish, Json, Turn, Usage

_PATH: Final = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?"
    r"/interactions(?P<of>/[^/]+(?P<cancel>/cancel)?)?\Z"
)
_DONE: Final = b"[DONE]"
_COMPLETED: Final = ("interaction.completed", "interaction.complete")
"""As it is spelled, and as it was before steps had their name."""

_FINISH: Final = {
    "completed": Finish.STOP,
    "requires_action": Finish.TOOL_CALLS,
    "incomplete": Finish.LENGTH,
    "budget_exceeded": Finish.LENGTH,
    "requires_continuation": Finish.PAUSED,
    "failed": Finish.ERROR,
}
_RUNNING: Final = ("", "in_progress", "queued")
_METADATA: Final = ("agent", "previous_interaction_id", "service_tier", "environment_id")


class GeminiInteractions:
    """The dialect `gemini-interactions`."""

    name = "gemini-interactions"

    def claims(self, request: Request) -> bool:
        """Interactions, on Google's own API and on Vertex AI."""
        if (asked := _PATH.search(request.path)) is None:
            return False
        if request.method == "POST":
            return asked["of"] is None or asked["cancel"] is not None
        return request.method in ("GET", "DELETE") and asked["of"] is not None

    def model(self, request: Request) -> str:
        """The model that is asked, or the agent."""
        asked = reading.document(request.body)
        return reading.words(asked.get("model") or asked.get("agent")).removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """Where the body says so, or the query of one that is taken up again."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return reading.document(request.body).get("stream") is True

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type; where there is none, by what was asked for."""
        return plain.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by the event that completes it, or by an error."""
        if response.codec != "sse" or not plain.succeeded(response.head):
            return plain.judge(response)
        for message in reversed(google_api.messages(response)):
            if _is_done(message):
                return Judgement(whole=True, reason=_DONE.decode())
            event = _event(message)
            if event.get("event_type") in _COMPLETED:
                return Judgement(whole=True, reason="interaction completed")
            if error := event.get("error"):
                return plain.in_band(google_api.failure(error))
        empty = not plain.body(response).strip()
        reason = "empty stream" if empty else "no [DONE], interaction not completed"
        return Judgement(whole=False, reason=reason)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing of an interaction can be read."""
        if not plain.succeeded(response.head):
            return (Turn((), failure=google_api.http_failure(response)),)
        interaction = _Interaction()
        for event in _events(response):
            interaction.take(event)
        return interaction.turns()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Google's shape."""
        return google_api.error_body(status, kind, message)


def _is_done(message: bytes) -> bool:
    return _DONE in message and (read_event(message).data or b"").strip() == _DONE


def _event(message: bytes) -> Fields:
    """The document of one event, or what stands in an event's place."""
    data = read_event(message).data
    return reading.document(message if data is None else data)


def _events(response: Response) -> Iterator[Fields]:
    """The events of a stream; the one document of a body is read as the event that ends one."""
    if response.codec == "sse":
        yield from map(_event, google_api.messages(response))
        return
    for document in google_api.documents(plain.body(response)):
        yield {"event_type": _COMPLETED[0], "interaction": dict(document)}


class _Interaction:
    """The turn of a response, as its events come."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._about: dict[str, Json] = {}
        """The fields of the interaction, as they were said last."""
        self._failure: Failure | None = None

    def take(self, event: Fields) -> None:
        """Read one event; of another kind than these it is left out."""
        if error := event.get("error"):
            self._failure = self._failure or google_api.failure(error)
        index = reading.count(event.get("index"), len(self._steps)) or 0
        match reading.text(event.get("event_type")):
            case "step.start" | "content.start":
                self._step(index).take(reading.fields(event.get("step") or event.get("content")))
            case "step.delta" | "content.delta":
                self._step(index).take(reading.fields(event.get("delta")))
                said = reading.fields(event.get("metadata"))
                self._describe({"usage": said.get("total_usage")})
            case "interaction.status_update":
                self._describe({"id": event.get("interaction_id"), "status": event.get("status")})
            case kind:
                if kind.startswith("interaction."):
                    self._describe(reading.fields(event.get("interaction")))

    def turns(self) -> tuple[Turn, ...]:
        """What was said."""
        self._take_steps()
        status = reading.words(self._about.get("status"))
        if not (self._steps or status or self._failure):
            return ()
        errors = reading.objects(self._about.get("errors"))
        ordered = [step for _, step in sorted(self._steps.items())]
        turn = Turn(
            tuple(part for step in ordered for part in step.parts()),
            finish=None if status in _RUNNING else _FINISH.get(status, Finish.OTHER),
            finish_raw="" if status in _RUNNING else status,
            usage=_usage(reading.fields(self._about.get("usage"))),
            failure=self._failure or next((google_api.failure(dict(it)) for it in errors), None),
            id=reading.words(self._about.get("id")),
            model=reading.words(self._about.get("model")),
            metadata=reading.metadata(self._about, _METADATA),
        )
        return (turn,)

    def _step(self, index: int) -> Step:
        return self._steps.setdefault(index, Step())

    def _describe(self, interaction: Fields) -> None:
        self._about.update({name: value for name, value in interaction.items() if value})

    def _take_steps(self) -> None:
        """Read the steps of an interaction that was told at once; a stream told them already."""
        if self._steps:
            return
        told = self._about.get("steps") or self._about.get("outputs")
        for index, step in enumerate(reading.objects(told)):
            self._step(index).take(step)


def _usage(counts: Fields) -> Usage | None:
    """As Google counts: what was thought is no part of the output."""
    usage = Usage(
        input=reading.count(counts.get("total_input_tokens")),
        output=reading.count(counts.get("total_output_tokens")),
        total=reading.count(counts.get("total_tokens")),
        cache_read=reading.count(counts.get("total_cached_tokens")),
        reasoning=reading.count(counts.get("total_thought_tokens")),
    )
    return None if usage == Usage() else usage
