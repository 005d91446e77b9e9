"""Scenarios that a server in this process plays, and the same question in the words of dialects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from in_process_proxy import proxy
from llm_proxy import framing
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import DialectResponse, find_dialect
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.routing import SESSION_HEADER
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.choosing import ChosenScenario
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.engine.scenario_set import LocatedScenario
from llm_proxy.scenario.engine.scripting import scripted_response
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server.journal import Journal, JournalEntry, SimulatedDetails
from llm_proxy.turns import Reasoning, Text, ToolCall, Turn
from raw_http import Raw, ask, post

JsonObject = dict[str, Any]

REPORT: Final = "agent__final_report"


def script(*turns: JsonObject, name: str = "refund", **fields: Any) -> JsonObject:
    """A scenario of these turns, numbered by their places."""
    numbered = [{"turn": number} | turn for number, turn in enumerate(turns, 1)]
    return {"id": name, "description": "Of a test.", "turns": numbered} | fields


def says(text: str = "Hello.", /, **fields: Any) -> JsonObject:
    """A turn that says this; `fields` are those of the turn."""
    return {"response": {"kind": "text", "assistantText": text}} | fields


def calls(*names: str, **fields: Any) -> JsonObject:
    """A turn that calls these tools, each with a city."""
    wanted = [{"toolName": name, "arguments": {"city": "Rome"}} for name in names]
    return {"response": {"kind": "tool-call", "toolCalls": wanted}} | fields


def answering(kind: str, **fields: Any) -> JsonObject:
    """A scenario of one turn with this answer."""
    return script({"response": {"kind": kind} | fields})


# In words alone


def read(document: JsonObject) -> Scenario:
    """The scenario that a document spells."""
    return loading.parse_struct(Scenario, "a test", json.dumps(document))


def scripted(document: JsonObject) -> LocatedScenario:
    """The same, as if it stood in a file."""
    return LocatedScenario(read(document), "a.yaml", 1)


def cue(
    *said: str, scenario: str = "", seed: str = "s", session: str = "default", **conversation: Any
) -> MatchContext:
    """A request of chat in which user and model say these in turn."""
    messages = tuple(
        RequestMessage("assistant" if number % 2 else "user", (Text(text),))
        for number, text in enumerate(said)
    )
    asked = Conversation(**{"messages": messages} | conversation)
    about = {"model": "m", "path": "/v1/chat/completions", "provider": "openai"}
    return MatchContext(
        asked, {}, **about, dialect="openai-chat", session=session, seed=seed, scenario=scenario
    )


def directed(
    document: JsonObject, on: MatchContext, attempts: FailureCounter | None = None
) -> ScriptedResponse:
    """What a scenario answers."""
    return scripted_response(
        ChosenScenario(scripted(document), ""), on, attempts or FailureCounter()
    )


def turn_of(direction: ScriptedResponse) -> Turn:
    """The turn that a direction says."""
    assert isinstance(direction.action, SendTurns)
    [turn] = direction.action.turns
    return turn


def reported(turn: Turn) -> JsonObject:
    """What the final report of a turn says, with the text before it as `said`."""
    *_, call = turn.parts
    assert isinstance(call, ToolCall)
    assert call.name == REPORT
    arguments: JsonObject = json.loads(call.arguments)
    return {"said": turn.text} | arguments


def error_turn(message: str) -> JsonObject:
    """What is reported of a check that failed so."""
    return _failure("Scenario validation failed.", f"# Test Harness Error\n\n{message}")


def fallback(message: str) -> JsonObject:
    """What is reported of a turn that a scenario does not have."""
    return _failure("Encountered scenario mismatch.", f"# Scenario Failure\n\n{message}")


def _failure(said: str, content: str) -> JsonObject:
    return {
        "said": said,
        "status": "failure",
        "report_format": "markdown",
        "report_content": content,
    }


# Over HTTP


@dataclass(frozen=True, slots=True)
class Question:
    """A request, before any dialect spells it."""

    said: tuple[str, ...] = ("refund",)
    """What the user and the model said, in turn."""
    system: str = ""
    tools: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    reasons: bool | None = None
    """Whether reasoning is switched on, or off; None where nothing is said of it."""
    stream: bool = True
    more: Mapping[str, Any] | None = None
    """Further fields of the body."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer as it came, and what was said by it."""

    raw: Raw
    turns: tuple[Turn, ...]

    @property
    def turn(self) -> Turn:
        """The only turn."""
        [turn] = self.turns
        return turn

    @property
    def json(self) -> Any:
        """The body of a whole answer."""
        return json.loads(self.raw.body)

    @property
    def events(self) -> list[Any]:
        """The data of each event of a stream."""
        lines = self.raw.body.decode().split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith(("data: ", "{"))]
        return [item if item == "[DONE]" else json.loads(item) for item in data]


@dataclass(frozen=True, slots=True)
class Stage:
    """A server that plays, and what happened on it."""

    url: str
    journal: Journal

    async def ask(
        self, dialect: str = "openai-chat", *, session: str = "", header: str = "", **about: Any
    ) -> Heard:
        """Ask in this dialect; `about` is a `LastMessage`'s, `header` one more of HTTP's."""
        request = spelled(dialect, Question(**about))
        ours = [header] if header else []
        if session:
            ours.append(f"{SESSION_HEADER}: {session}")
        target = f"{request.path}?{request.query}" if request.query else request.path
        theirs = [f"{name}: {value}" for name, value in request.headers]
        raw = await ask(self.url, post(target, request.body, *theirs, *ours))
        return Heard(raw, _turns(request, raw))

    async def page(self, path: str, body: bytes = b"", method: str = "GET") -> Any:
        """One of the proxy's own pages."""
        raw = await ask(self.url, post(f"/_proxy/{path}", body, method=method))
        return json.loads(raw.body)

    @property
    def entries(self) -> list[JournalEntry]:
        """The requests, in the order in which they came."""
        return list(self.journal.entries)

    @property
    def last(self) -> SimulatedDetails:
        """What the latest answer followed."""
        simulated = self.journal.entries[-1].simulated
        assert simulated is not None
        return simulated


def plain(heard: Heard) -> list[tuple[str, ...]]:
    """What was said, without what a wire adds to it."""
    told: list[tuple[str, ...]] = []
    for part in heard.turn.parts:
        match part:
            case Text(text=text):
                told.append(("text", text))
            case Reasoning(text=text):
                told.append(("reasoning", text))
            case ToolCall(id=call_id, name=name, arguments=arguments):
                told.append(("call", call_id, name, arguments))
            case _:
                told.append((type(part).__name__,))
    return told


@asynccontextmanager
async def playing(
    folder: Path, *documents: JsonObject, mode: ModeName = "simulate", **about: Any
) -> AsyncIterator[Stage]:
    """A server that plays these scenarios; `about`: settings, or fields of `SimulationOptions`."""
    fields = SimulationOptions.__dataclass_fields__
    simulating = {name: about.pop(name) for name in list(about) if name in fields}
    if documents:
        simulating["scenarios"] = write(folder, *documents)
    async with proxy(mode, folder, simulating=SimulationOptions(**simulating), **about) as it:
        yield Stage(it.url, it.journal)


def write(folder: Path, *documents: JsonObject) -> Path:
    """Write scenarios into the file that a server of this folder plays."""
    path = folder / "scenarios.json"
    path.write_text(json.dumps(documents), "utf-8")
    return path


def spelled(dialect: str, question: Question) -> Request:
    """The question as this dialect's own client asks it."""
    path, body = _SPELLED[dialect](question)
    path, _, query = path.partition("?")
    content = json.dumps(body | dict(question.more or {})).encode()
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    if dialect == "anthropic":
        headers += (("anthropic-version", "2023-06-01"),)
    return Request("POST", path, query, headers, content)


def _turns(request: Request, raw: Raw) -> tuple[Turn, ...]:
    dialect = find_dialect(request)
    length = raw.header("content-length")
    framed: Framing = "chunked" if length is None else "length"
    head = ResponseHead(raw.status, raw.reason, tuple(raw.headers), framed)
    codec = dialect.codec(request, head)
    return dialect.decode(
        DialectResponse(head, codec, tuple(framing.split_messages(codec, raw.body)))
    )


def _given(**fields: Any) -> JsonObject:
    """Those fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, [], "", {})}


def _messages(question: Question, model: str = "assistant") -> list[JsonObject]:
    roles = ("user", model)
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(question.said)]


def _functions(question: Question) -> list[JsonObject]:
    return [{"type": "function", "function": {"name": tool}} for tool in question.tools]


def _switch(question: Question, on: Any, off: Any) -> Any:
    return None if question.reasons is None else on if question.reasons else off


def _chat(it: Question) -> tuple[str, JsonObject]:
    system = [{"role": "system", "content": it.system}] if it.system else []
    usage = {"include_usage": True} if it.stream else None
    body = {"model": "m", "messages": system + _messages(it), "stream": it.stream}
    return "/v1/chat/completions", body | _given(
        tools=_functions(it),
        temperature=it.temperature,
        top_p=it.top_p,
        reasoning_effort=_switch(it, "low", "none"),
        stream_options=usage,
    )


def _responses(it: Question) -> tuple[str, JsonObject]:
    tools = [{"type": "function", "name": name, "parameters": {}} for name in it.tools]
    body = {"model": "m", "input": _messages(it), "stream": it.stream}
    return "/v1/responses", body | _given(
        instructions=it.system,
        tools=tools,
        temperature=it.temperature,
        top_p=it.top_p,
        reasoning=_switch(it, {"effort": "low"}, {"effort": "none"}),
    )


def _anthropic(it: Question) -> tuple[str, JsonObject]:
    body = {"model": "m", "max_tokens": 2048, "messages": _messages(it), "stream": it.stream}
    on = {"type": "enabled", "budget_tokens": 1024}
    return "/v1/messages", body | _given(
        system=it.system,
        tools=[{"name": name, "input_schema": {"type": "object"}} for name in it.tools],
        temperature=it.temperature,
        top_p=it.top_p,
        thinking=_switch(it, on, {"type": "disabled"}),
    )


def _gemini(it: Question) -> tuple[str, JsonObject]:
    contents = [
        {"role": message["role"], "parts": [{"text": message["content"]}]}
        for message in _messages(it, "model")
    ]
    declared = [{"name": name} for name in it.tools]
    config = _given(
        temperature=it.temperature,
        topP=it.top_p,
        thinkingConfig=_switch(it, {"thinkingBudget": 1024}, {"thinkingBudget": 0}),
    )
    how = "streamGenerateContent?alt=sse" if it.stream else "generateContent"
    return f"/v1beta/models/m:{how}", {"contents": contents} | _given(
        systemInstruction={"parts": [{"text": it.system}]} if it.system else None,
        tools=[{"functionDeclarations": declared}] if declared else None,
        generationConfig=config,
    )


def _ollama(it: Question) -> tuple[str, JsonObject]:
    system = [{"role": "system", "content": it.system}] if it.system else []
    body = {"model": "m", "messages": system + _messages(it), "stream": it.stream}
    return "/api/chat", body | _given(
        tools=_functions(it),
        options=_given(temperature=it.temperature, top_p=it.top_p),
        think=_switch(it, on=True, off=False),
    )


_SPELLED: Final[Mapping[str, Callable[[Question], tuple[str, JsonObject]]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}
DIALECTS: Final = tuple(_SPELLED)
PROVIDERS: Final = {item: item.partition("-")[0] for item in DIALECTS}
"""Who is asked, by dialect."""

in_every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
in_every_form = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
