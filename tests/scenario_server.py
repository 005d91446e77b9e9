"""Serves scenarios from a server in this process, and encodes one request in each dialect."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from case_tables import each_row
from in_process_proxy import proxy
from llm_proxy import framing
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import DialectResponse, dialect_of_request
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.journal_document import JournalEntry, SimulatedDetails
from llm_proxy.routing import SESSION_HEADER
from llm_proxy.scenario.choosing import ChosenScenario, MatchContext
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.mistakes import Located
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.scenario.scripting import scripted_response
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.shell.server.journal import Journal
from llm_proxy.take_numbers import RequestCounter
from llm_proxy.turns import Reasoning, Text, ToolCall, Turn
from raw_http import RawResponse, build_http_request, send_request

JsonObject = dict[str, Any]

REPORT: Final = "agent__final_report"


def scenario_document(*turns: JsonObject, name: str = "refund", **fields: Any) -> JsonObject:
    """A scenario of these turns, numbered in order."""
    numbered = [{"turn": number} | turn for number, turn in enumerate(turns, 1)]
    return {"id": name, "description": "Of a test.", "turns": numbered} | fields


def text_turn(text: str = "Hello.", /, **fields: Any) -> JsonObject:
    """A turn that responds with this text; `fields` are further fields of the turn."""
    return {"response": {"kind": "text", "assistantText": text}} | fields


def tool_call_turn(*names: str, **fields: Any) -> JsonObject:
    """A turn that calls these tools, each with a city as its argument."""
    tool_calls = [{"toolName": name, "arguments": {"city": "Rome"}} for name in names]
    return {"response": {"kind": "tool-call", "toolCalls": tool_calls}} | fields


def single_turn_scenario(kind: str, **fields: Any) -> JsonObject:
    """A scenario of one turn with a response of this kind."""
    return scenario_document({"response": {"kind": kind} | fields})


# Without HTTP


def parse_scenario(document: JsonObject) -> Scenario:
    """Parse a scenario document."""
    return loading.parse_struct(Scenario, "a test", json.dumps(document))


def locate_scenario(document: JsonObject) -> Located[Scenario]:
    """Parse a scenario document as if it came from a file."""
    return Located(parse_scenario(document), "a.yaml", 1, 1, "$")


def make_match_context(
    *texts: str,
    scenario: str = "",
    seed: str = "s",
    session: str = "default",
    **conversation_fields: Any,
) -> MatchContext:
    """The match context of a chat request in which user and model alternate these texts."""
    messages = tuple(
        RequestMessage("assistant" if number % 2 else "user", (Text(text),))
        for number, text in enumerate(texts)
    )
    conversation_state = Conversation(**{"messages": messages} | conversation_fields)
    request_fields = {"model": "m", "path": "/v1/chat/completions", "provider": "openai"}
    return MatchContext(
        conversation_state,
        {},
        **request_fields,
        dialect="openai-chat",
        session=session,
        seed=seed,
        requested_scenario_id=scenario,
    )


def respond_to(
    document: JsonObject, context: MatchContext, attempts: RequestCounter | None = None
) -> ScriptedResponse:
    """Return a scenario's response."""
    return scripted_response(
        ChosenScenario(locate_scenario(document), ""), context, attempts or RequestCounter()
    )


def turn_of_response(response: ScriptedResponse) -> Turn:
    """Return the only turn of a response."""
    assert isinstance(response.scripted_action, SendTurns)
    [turn] = response.scripted_action.response_turns
    return turn


def report_fields(turn: Turn) -> JsonObject:
    """Return the arguments of a turn's final report, with the turn's text as `said`."""
    *_, call = turn.parts
    assert isinstance(call, ToolCall)
    assert call.name == REPORT
    arguments: JsonObject = json.loads(call.arguments)
    return {"said": turn.text} | arguments


def mismatch_message(response: DecodedResponse) -> str:
    """Return the message of the HTTP error for a request that no scenario expects."""
    assert response.raw_response.header("x-llm-proxy-error") == "scenario_mismatch"
    failure = response.turn.failure
    assert failure is not None
    return failure.message


def check_failure_report(message: str) -> JsonObject:
    """The report of a failed check with this message."""
    return _failure_report("Scenario validation failed.", f"# Test Harness Error\n\n{message}")


def missing_turn_report(message: str) -> JsonObject:
    """The report of a turn that the scenario does not have."""
    return _failure_report("Encountered scenario mismatch.", f"# Scenario Failure\n\n{message}")


def _failure_report(text: str, content: str) -> JsonObject:
    return {
        "said": text,
        "status": "failure",
        "report_format": "markdown",
        "report_content": content,
    }


# Over HTTP


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A request, independent of any dialect."""

    texts: tuple[str, ...] = ("refund",)
    """Message texts; user and model alternate."""
    system: str = ""
    tools: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    reasoning: bool | None = None
    """Whether reasoning is switched on or off; None if the request does not specify it."""
    stream: bool = True
    more: Mapping[str, Any] | None = None
    """Further fields of the body."""


@dataclass(frozen=True, slots=True)
class DecodedResponse:
    """A response as received, and the turns decoded from it."""

    raw_response: RawResponse
    turns: tuple[Turn, ...]

    @property
    def turn(self) -> Turn:
        """The only turn."""
        [turn] = self.turns
        return turn

    @property
    def json(self) -> Any:
        """The parsed body of a response that is not streamed."""
        return json.loads(self.raw_response.body)

    @property
    def events(self) -> list[Any]:
        """The data of each event of a stream."""
        lines = self.raw_response.body.decode().split("\n")
        events_data = [
            line.removeprefix("data: ") for line in lines if line.startswith(("data: ", "{"))
        ]
        return [item if item == "[DONE]" else json.loads(item) for item in events_data]


@dataclass(frozen=True, slots=True)
class ScenarioServer:
    """A running server that serves scenarios, and its journal."""

    url: str
    journal: Journal

    async def send(
        self,
        dialect: str = "openai-chat",
        *,
        session: str = "",
        header: str = "",
        **spec_fields: Any,
    ) -> DecodedResponse:
        """Send a `RequestSpec` of these fields in this dialect; `header` is one more header."""
        proxy_headers = [header] if header else []
        if session:
            proxy_headers.append(f"{SESSION_HEADER}: {session}")
        return await self.send_encoded(
            encode_request(dialect, RequestSpec(**spec_fields)), *proxy_headers
        )

    async def send_encoded(self, request: Request, *proxy_headers: str) -> DecodedResponse:
        """Send a request with further headers."""
        target = f"{request.path}?{request.query}" if request.query else request.path
        request_headers = [f"{name}: {value}" for name, value in request.headers]
        raw = await send_request(
            self.url, build_http_request(target, request.body, *request_headers, *proxy_headers)
        )
        return DecodedResponse(raw, _decode_turns(request, raw))

    async def request_proxy_page(self, path: str, body: bytes = b"", method: str = "GET") -> Any:
        """Request one of the proxy's own pages and parse its JSON."""
        raw = await send_request(
            self.url, build_http_request(f"/_proxy/{path}", body, method=method)
        )
        return json.loads(raw.body)

    @property
    def entries(self) -> list[JournalEntry]:
        """The journal entries of all requests, in order of arrival."""
        return list(self.journal.entries)

    @property
    def last_simulated(self) -> SimulatedDetails:
        """The simulation details of the latest request."""
        simulated = self.journal.entries[-1].simulated
        assert simulated is not None
        return simulated


def part_tuples(response: DecodedResponse) -> list[tuple[str, ...]]:
    """Return a response's parts as tuples, without dialect-specific fields."""
    tuples: list[tuple[str, ...]] = []
    for part in response.turn.parts:
        match part:
            case Text(text=text):
                tuples.append(("text", text))
            case Reasoning(text=text):
                tuples.append(("reasoning", text))
            case ToolCall(id=call_id, name=name, arguments=arguments):
                tuples.append(("call", call_id, name, arguments))
            case _:
                tuples.append((type(part).__name__,))
    return tuples


@asynccontextmanager
async def serve_scenarios(
    folder: Path, *documents: JsonObject, mode: ModeName = "simulate", **options: Any
) -> AsyncIterator[ScenarioServer]:
    """Serve these scenarios; `options` are settings."""
    if documents:
        options["scenarios"] = write_scenarios(folder, *documents)
    async with proxy(mode, folder, **options) as running_proxy:
        yield ScenarioServer(running_proxy.url, running_proxy.journal)


def write_scenarios(folder: Path, *documents: JsonObject) -> Path:
    """Write scenarios into the file that a server of this folder loads."""
    path = folder / "scenarios.json"
    path.write_text(json.dumps(documents), "utf-8")
    return path


def encode_request(dialect: str, spec: RequestSpec) -> Request:
    """Encode the request as this dialect's own client sends it."""
    path, body = _REQUEST_ENCODERS[dialect](spec)
    path, _, query = path.partition("?")
    content = json.dumps(body | dict(spec.more or {})).encode()
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    if dialect == "anthropic":
        headers += (("anthropic-version", "2023-06-01"),)
    return Request("POST", path, query, headers, content)


def _decode_turns(request: Request, raw: RawResponse) -> tuple[Turn, ...]:
    dialect = dialect_of_request(request)
    length = raw.header("content-length")
    body_framing: Framing = "chunked" if length is None else "length"
    head = ResponseHead(raw.status, raw.reason, tuple(raw.headers), body_framing)
    codec = dialect.codec_name(request, head)
    return dialect.decode_response(
        DialectResponse(head, codec, tuple(framing.split_messages(codec, raw.body)))
    )


def _without_empty(**fields: Any) -> JsonObject:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, [], "", {})}


def _messages(spec: RequestSpec, model: str = "assistant") -> list[JsonObject]:
    roles = ("user", model)
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(spec.texts)]


def _function_tools(spec: RequestSpec) -> list[JsonObject]:
    return [{"type": "function", "function": {"name": tool}} for tool in spec.tools]


def _reasoning_field(spec: RequestSpec, when_enabled: Any, when_disabled: Any) -> Any:
    return None if spec.reasoning is None else when_enabled if spec.reasoning else when_disabled


def _chat_body(spec: RequestSpec) -> tuple[str, JsonObject]:
    system = [{"role": "system", "content": spec.system}] if spec.system else []
    usage = {"include_usage": True} if spec.stream else None
    body = {"model": "m", "messages": system + _messages(spec), "stream": spec.stream}
    return "/v1/chat/completions", body | _without_empty(
        tools=_function_tools(spec),
        temperature=spec.temperature,
        top_p=spec.top_p,
        reasoning_effort=_reasoning_field(spec, "low", "none"),
        stream_options=usage,
    )


def _responses_body(spec: RequestSpec) -> tuple[str, JsonObject]:
    tools = [{"type": "function", "name": name, "parameters": {}} for name in spec.tools]
    body = {"model": "m", "input": _messages(spec), "stream": spec.stream}
    return "/v1/responses", body | _without_empty(
        instructions=spec.system,
        tools=tools,
        temperature=spec.temperature,
        top_p=spec.top_p,
        reasoning=_reasoning_field(spec, {"effort": "low"}, {"effort": "none"}),
    )


def _anthropic_body(spec: RequestSpec) -> tuple[str, JsonObject]:
    body = {"model": "m", "max_tokens": 2048, "messages": _messages(spec), "stream": spec.stream}
    enabled = {"type": "enabled", "budget_tokens": 1024}
    return "/v1/messages", body | _without_empty(
        system=spec.system,
        tools=[{"name": name, "input_schema": {"type": "object"}} for name in spec.tools],
        temperature=spec.temperature,
        top_p=spec.top_p,
        thinking=_reasoning_field(spec, enabled, {"type": "disabled"}),
    )


def _gemini_body(spec: RequestSpec) -> tuple[str, JsonObject]:
    contents = [
        {"role": message["role"], "parts": [{"text": message["content"]}]}
        for message in _messages(spec, "model")
    ]
    function_declarations = [{"name": name} for name in spec.tools]
    config = _without_empty(
        temperature=spec.temperature,
        topP=spec.top_p,
        thinkingConfig=_reasoning_field(spec, {"thinkingBudget": 1024}, {"thinkingBudget": 0}),
    )
    method_and_query = "streamGenerateContent?alt=sse" if spec.stream else "generateContent"
    return f"/v1beta/models/m:{method_and_query}", {"contents": contents} | _without_empty(
        systemInstruction={"parts": [{"text": spec.system}]} if spec.system else None,
        tools=[{"functionDeclarations": function_declarations}] if function_declarations else None,
        generationConfig=config,
    )


def _ollama_body(spec: RequestSpec) -> tuple[str, JsonObject]:
    system = [{"role": "system", "content": spec.system}] if spec.system else []
    body = {"model": "m", "messages": system + _messages(spec), "stream": spec.stream}
    return "/api/chat", body | _without_empty(
        tools=_function_tools(spec),
        options=_without_empty(temperature=spec.temperature, top_p=spec.top_p),
        think=_reasoning_field(spec, when_enabled=True, when_disabled=False),
    )


_REQUEST_ENCODERS: Final[Mapping[str, Callable[[RequestSpec], tuple[str, JsonObject]]]] = {
    "openai-chat": _chat_body,
    "openai-responses": _responses_body,
    "anthropic": _anthropic_body,
    "gemini": _gemini_body,
    "ollama": _ollama_body,
}
DIALECTS: Final = tuple(_REQUEST_ENCODERS)
PROVIDERS: Final = {dialect: dialect.partition("-")[0] for dialect in DIALECTS}
"""The provider's name, by dialect."""

in_every_dialect = each_row("dialect", DIALECTS)
in_every_form = each_row("stream", [True, False], ids=["stream", "whole"])
