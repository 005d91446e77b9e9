"""Talks, held with the SDKs of OpenAI, Anthropic and Ollama, and with Google's in a process."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Final, Protocol

import anthropic
import ollama
import openai

import judge_runner
from conversation_plans import GO_ON, TOOL_SAYS, Heard, Talk, merged, named
from sdk_clients import KEY

GOOGLE: Final = "google-genai"
_AT_ONCE: Final = 4
"""Talks that are held together: more would keep each other waiting for what the proxy says."""


class Speaker(Protocol):
    """One conversation with one SDK, and its history as that SDK keeps it."""

    talk: Talk

    @abstractmethod
    async def ask(self, *, reasons: bool) -> Heard:
        """Ask for an answer, and add it to the history."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Add what the user says."""

    @abstractmethod
    def give(self, result: str) -> None:
        """Add this result of every call of the latest answer."""


async def _held(speaker: Speaker) -> list[Heard]:
    """What is heard in a talk, turn by turn."""
    talk = speaker.talk
    speaker.say(talk.say)
    heard: list[Heard] = []
    for turn in range(1, talk.turns + 1):
        if heard and any(part[0] == "call" for part in heard[-1].parts):
            speaker.give(TOOL_SAYS)
        elif heard:
            speaker.say(GO_ON)
        heard.append(await _asked(speaker, reasons=turn in talk.reasoned))
    return heard


async def _asked(speaker: Speaker, *, reasons: bool) -> Heard:
    raised: list[str] = []
    for _ in range(speaker.talk.tries):
        try:
            heard = await speaker.ask(reasons=reasons)
        except Exception as error:  # whatever an SDK raises is what its users see
            raised.append(named(type(error).__module__, type(error).__name__))
        else:
            heard.parts, heard.raised = merged(heard.parts), raised
            return heard
    return Heard(raised=raised)


class Chat:
    """OpenAI's chat completions."""

    def __init__(self, client: openai.AsyncOpenAI, talk: Talk) -> None:
        self.talk = talk
        self._create: Any = client.chat.completions.create
        self._messages: list[Any] = []
        if talk.system:
            self._messages.append({"role": "system", "content": talk.system})

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def give(self, result: str) -> None:
        for call in self._messages[-1]["tool_calls"]:
            said = {"role": "tool", "tool_call_id": call["id"], "content": result}
            self._messages.append(said)

    async def ask(self, *, reasons: bool) -> Heard:
        talk, heard = self.talk, Heard()
        question = _given(
            model=talk.model, messages=self._messages, metadata=talk.metadata or None,
            temperature=talk.temperature, top_p=talk.top_p,
            tools=[_function(*item) for item in talk.tools.items()] or None,
            reasoning_effort="low" if reasons else None,
            response_format=talk.schema and {
                "type": "json_schema", "json_schema": {"name": "answer", "schema": talk.schema},
            },
            stream_options={"include_usage": True} if talk.stream else None,
        )  # fmt: skip
        answer = await self._create(**question, stream=talk.stream, **_told(talk))
        pieces = [item async for item in answer] if talk.stream else [answer]
        calls: dict[int, dict[str, Any]] = {}
        for piece in pieces:
            if piece.usage:
                heard.usage = (piece.usage.prompt_tokens, piece.usage.completion_tokens)
            for choice in piece.choices:
                heard.finish = choice.finish_reason or heard.finish
                _hear_message(heard, choice.delta if talk.stream else choice.message, calls)
        _parse(heard.parts)
        self._messages.append(_message(heard, calls))
        return heard


def _hear_message(heard: Heard, said: Any, calls: dict[int, dict[str, Any]]) -> None:
    """A message or a delta of one; the calls as they go back, by index."""
    # The SDK passes this name of compatible providers on, typed as nothing.
    heard.parts.append(("reasoning", getattr(said, "reasoning_content", None) or ""))
    heard.parts += [("text", said.content or ""), ("refusal", said.refusal or "")]
    for at, call in enumerate(said.tool_calls or ()):
        index = getattr(call, "index", at)
        if index not in calls:
            calls[index] = {"id": call.id, "type": "function", "function": {"name": ""}}
            heard.parts.append(("call", call.function.name, calls[index]["function"]))
            calls[index]["function"] |= {"name": call.function.name, "arguments": ""}
        calls[index]["function"]["arguments"] += call.function.arguments or ""


def _parse(parts: list[Any]) -> None:
    """Put the arguments themselves where a call has collected them as text."""
    for at, part in enumerate(parts):
        if part[0] == "call":
            parts[at] = ("call", part[1], json.loads(part[2]["arguments"]))


def _message(heard: Heard, calls: dict[int, Any]) -> dict[str, Any]:
    """The answer as it goes back; reasoning as compatible providers want it."""
    text, reasoning = (_joined(heard, kind) for kind in ("text", "reasoning"))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    return message | ({"tool_calls": list(calls.values())} if calls else {})


class Responses:
    """OpenAI's responses, with the whole history sent each time."""

    def __init__(self, client: openai.AsyncOpenAI, talk: Talk) -> None:
        self.talk = talk
        self._create: Any = client.responses.create
        self._items: list[Any] = []
        self._calls: list[str] = []

    def say(self, text: str) -> None:
        self._items.append({"role": "user", "content": text})

    def give(self, result: str) -> None:
        for call in self._calls:
            output = {"type": "function_call_output", "call_id": call, "output": result}
            self._items.append(output)

    async def ask(self, *, reasons: bool) -> Heard:
        talk, heard = self.talk, Heard()
        question = _given(
            model=talk.model, input=self._items, instructions=talk.system or None,
            metadata=talk.metadata or None, temperature=talk.temperature, top_p=talk.top_p,
            tools=[
                _function(*entry)["function"] | {"type": "function"} for entry in talk.tools.items()
            ]
            or None,
            reasoning={"effort": "low"} if reasons else None,
            include=["reasoning.encrypted_content"] if reasons else None,
            text=talk.schema and {
                "format": {"type": "json_schema", "name": "answer", "schema": talk.schema}
            },
        )  # fmt: skip
        answer = await self._create(**question, stream=talk.stream, **_told(talk))
        if talk.stream:
            answer = [event async for event in answer][-1].response
        self._calls = []
        for item in answer.output:
            self._item(heard, item)
        heard.finish = answer.status
        heard.usage = (answer.usage.input_tokens, answer.usage.output_tokens)
        self._items += [item.to_dict() for item in answer.output]
        return heard

    def _item(self, heard: Heard, item: Any) -> None:
        match item.type:
            case "message":
                for block in item.content:
                    is_text = block.type == "output_text"
                    words = block.text if is_text else block.refusal
                    heard.parts.append(("text" if is_text else "refusal", words))
            case "reasoning":
                heard.parts += [("reasoning", entry.text) for entry in item.summary]
                heard.seals += [item.encrypted_content] if item.encrypted_content else []
            case "function_call":
                heard.parts.append(("call", item.name, json.loads(item.arguments)))
                self._calls.append(item.call_id)
            case other:
                heard.parts.append((other, item.to_dict()))


class Messages:
    """Anthropic's messages."""

    def __init__(self, client: anthropic.AsyncAnthropic, talk: Talk) -> None:
        self.talk = talk
        self._client = client
        self._messages: list[Any] = []

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def give(self, result: str) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": block.id, "content": result}
            for block in self._messages[-1]["content"]
            if block.type == "tool_use"
        ]
        self._messages.append({"role": "user", "content": blocks})

    async def ask(self, *, reasons: bool) -> Heard:
        talk, heard = self.talk, Heard()
        question = _given(
            model=talk.model, messages=self._messages, system=talk.system or None,
            max_tokens=2048, metadata=talk.metadata or None,
            tools=[{"name": it, "input_schema": schema} for it, schema in talk.tools.items()]
            or None,
            thinking={"type": "enabled", "budget_tokens": 1024} if reasons else None,
            output_config=talk.schema and {
                "format": {"type": "json_schema", "schema": talk.schema}
            },
            # This SDK has no argument for either; it passes on what stands here.
            extra_body=_given(temperature=talk.temperature, top_p=talk.top_p) or None,
        )  # fmt: skip
        messages: Any = self._client.messages
        if talk.stream:
            async with messages.stream(**question, **_told(talk)) as stream:
                answer = await stream.get_final_message()
        else:
            answer = await messages.create(**question, **_told(talk))
        for block in answer.content:
            _hear_block(heard, block)
        heard.finish = answer.stop_reason
        if answer.stop_details:
            heard.parts.append(("refusal", answer.stop_details.explanation or ""))
        heard.usage = (answer.usage.input_tokens, answer.usage.output_tokens)
        self._messages.append({"role": "assistant", "content": answer.content})
        return heard


def _hear_block(heard: Heard, block: Any) -> None:
    match block.type:
        case "text":
            heard.parts.append(("text", block.text))
        case "thinking":
            heard.parts.append(("reasoning", block.thinking))
            heard.seals += [block.signature] if block.signature else []
        case "redacted_thinking":
            heard.seals.append(block.data)
        case "tool_use":
            heard.parts.append(("call", block.name, block.input))
        case other:
            heard.parts.append((other, block.to_dict()))


class Ollama:
    """Ollama's chats."""

    def __init__(self, client: ollama.AsyncClient, talk: Talk) -> None:
        self.talk = talk
        self._client = client
        self._messages: list[Any] = []
        if talk.system:
            self._messages.append({"role": "system", "content": talk.system})

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def give(self, result: str) -> None:
        for call in self._messages[-1]["tool_calls"]:
            name = call["function"]["name"]
            self._messages.append({"role": "tool", "tool_name": name, "content": result})

    async def ask(self, *, reasons: bool) -> Heard:
        talk, heard = self.talk, Heard()
        question = _given(
            model=talk.model, messages=self._messages, think=reasons or None, format=talk.schema,
            tools=[_function(*item) for item in talk.tools.items()] or None,
            options=_given(temperature=talk.temperature, top_p=talk.top_p) or None,
        )  # fmt: skip
        chat: Any = self._client.chat
        answer = await chat(**question, stream=talk.stream)
        for line in [item async for item in answer] if talk.stream else [answer]:
            heard.parts.append(("reasoning", line.message.thinking or ""))
            heard.parts.append(("text", line.message.content or ""))
            for call in line.message.tool_calls or ():
                heard.parts.append(("call", call.function.name, dict(call.function.arguments)))
            heard.finish = line.done_reason or heard.finish
            if line.done:
                heard.usage = (line.prompt_eval_count, line.eval_count)
        calls = [part for part in heard.parts if part[0] == "call"]
        told = [{"function": {"name": item[1], "arguments": item[2]}} for item in calls]
        said = {"content": _joined(heard, "text"), "thinking": _joined(heard, "reasoning")}
        self._messages.append({"role": "assistant", **said, "tool_calls": told})
        return heard


def _given(**named_values: Any) -> dict[str, Any]:
    """What is given of these; None is not."""
    return {name: value for name, value in named_values.items() if value is not None}


def _told(talk: Talk) -> dict[str, Any]:
    """What the SDKs of OpenAI and Anthropic are told of a talk."""
    return {"extra_headers": talk.headers, "timeout": talk.patience}


def _function(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def _joined(heard: Heard, kind: str) -> str:
    return "".join(part[1] for part in heard.parts if part[0] == kind)


async def _held_by_openai(url: str, talks: Sequence[Talk], kind: Any) -> list[list[Heard]]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        patient = (client.with_options(max_retries=talk.retries) for talk in talks)
        return await _all(kind(*item) for item in zip(patient, talks, strict=True))


async def _chats(url: str, talks: Sequence[Talk]) -> list[list[Heard]]:
    return await _held_by_openai(url, talks, Chat)


async def _responses(url: str, talks: Sequence[Talk]) -> list[list[Heard]]:
    return await _held_by_openai(url, talks, Responses)


async def _messages(url: str, talks: Sequence[Talk]) -> list[list[Heard]]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        patient = (client.with_options(max_retries=talk.retries) for talk in talks)
        return await _all(Messages(*item) for item in zip(patient, talks, strict=True))


async def _ollama(url: str, talks: Sequence[Talk]) -> list[list[Heard]]:
    async with AsyncExitStack() as stack:
        speakers: list[Speaker] = []
        for it in talks:  # this SDK takes neither headers nor time limits with a question
            client = ollama.AsyncClient(url, headers=it.headers, timeout=it.patience, verify=False)
            speakers.append(Ollama(await stack.enter_async_context(client), it))
        return await _all(speakers)


async def _google(url: str, talks: Sequence[Talk]) -> list[list[Heard]]:
    """In its own environment."""
    program = judge_runner.FOLDER / GOOGLE / "conversation_plans.py"
    given = [asdict(talk) | {"headers": talk.headers} for talk in talks]
    told = json.loads(await judge_runner.run(program, {"url": url, "talks": given}))
    return [[_of_google(turn) for turn in turns] for turns in told]


def _of_google(turn: dict[str, Any]) -> Heard:
    usage = None if turn["usage"] is None else tuple(turn["usage"])
    raised = [named(*item) for item in turn["raised"]]
    return Heard(merged(turn["parts"]), turn["finish"], usage, turn["seals"], raised)


async def _all(speakers: Iterable[Speaker]) -> list[list[Heard]]:
    few = asyncio.Semaphore(_AT_ONCE)

    async def held(speaker: Speaker) -> list[Heard]:
        async with few:
            return await _held(speaker)

    return list(await asyncio.gather(*map(held, speakers)))


SPEAKERS: Final[dict[str, Callable[[str, Sequence[Talk]], Awaitable[list[list[Heard]]]]]] = {
    "openai-chat": _chats,
    "openai-responses": _responses,
    "anthropic": _messages,
    "gemini": _google,
    "ollama": _ollama,
}
"""What holds talks in each dialect: given a proxy's URL, what is heard in each, turn by turn."""


def missing(dialect: str) -> str:
    """Why this dialect's SDK cannot be asked here; empty if it can."""
    return judge_runner.missing(GOOGLE) if dialect == "gemini" else ""
