"""Google's own client for Python: Gemini, and its interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
from google import genai
from google.genai import types
from judge_protocol import Ask, Heard


def generate(client: Any, ask: Ask) -> Heard:
    """An answer of a model: the first candidate of it."""
    heard = Heard(reasoning="")
    config: dict[str, Any] = {}
    if ask.tools:
        function = types.FunctionDeclaration(
            name=judge_protocol.TOOL, parameters_json_schema=judge_protocol.PARAMETERS
        )
        config["tools"] = [types.Tool(function_declarations=[function])]
    question = {"model": ask.model, "contents": ask.say, "config": config}

    def start() -> Iterable[Any]:
        if ask.stream:
            return client.models.generate_content_stream(**question)
        return [client.models.generate_content(**question)]

    for said in heard.listen(start):
        _piece(heard, said)
    return heard


def _piece(heard: Heard, said: Any) -> None:
    if counts := said.usage_metadata:
        heard.count(counts.prompt_token_count, counts.candidates_token_count)
    if said.prompt_feedback and said.prompt_feedback.block_reason:
        heard.finish = judge_protocol.plain(said.prompt_feedback.block_reason)
    for candidate in said.candidates or ():
        if not candidate.index:
            heard.finish = judge_protocol.plain(candidate.finish_reason) or heard.finish
            for part in (candidate.content and candidate.content.parts) or ():
                _part(heard, part)


def _part(heard: Heard, part: Any) -> None:
    if part.thought:
        heard.think(part.text)
    else:
        heard.say(part.text)
    if called := part.function_call:
        heard.call(called.id, called.name, called.args or {})
    elif code := part.executable_code:
        asked = {"language": judge_protocol.plain(code.language), "code": code.code}
        given = {name: value for name, value in asked.items() if value is not None}
        heard.call(code.id, "code_execution", given)
    elif ran := part.tool_call:
        heard.call(ran.id, judge_protocol.plain(ran.tool_type), ran.args or {})


def interact(client: Any, ask: Ask) -> Heard:
    """An interaction."""
    heard = Heard(reasoning="")
    question: dict[str, Any] = {"model": ask.model, "input": ask.say, "stream": ask.stream}
    if ask.tools:
        parameters = {"parameters": judge_protocol.PARAMETERS}
        question["tools"] = [{"type": "function", "name": judge_protocol.TOOL, **parameters}]

    def start() -> Iterable[Any]:
        said = client.interactions.create(**question)
        return said if ask.stream else [said]

    for said in heard.listen(start):
        if ask.stream:
            _event(heard, said)
        else:
            for number, step in enumerate(said.steps or ()):
                _step(heard, number, step)
            _ended(heard, said)
    return heard


def _event(heard: Heard, event: Any) -> None:
    match event.event_type:
        case "step.start":
            _step(heard, event.index, event.step)
        case "step.delta":
            _delta(heard, event.index, event.delta)
        case "interaction.completed":
            _ended(heard, event.interaction)
        case "error":
            error = event.error
            heard.failed(str(error and error.code), None, str(error and error.message))


def _step(heard: Heard, number: int, step: Any) -> None:
    match step.type:
        case kind if kind.endswith("_call"):  # a client's function, or a tool that Google runs
            name = getattr(step, "name", None) or kind.removesuffix("_call")
            heard.call(step.id, name, _arguments(step), number)
        case "model_output":
            for block in step.content or ():
                heard.say(getattr(block, "text", None))
        case "thought":
            for block in step.summary or ():
                heard.think(getattr(block, "text", None))


def _arguments(step: Any) -> Any:
    """Nothing yet, where they come as text; of Google's own tools a model of theirs."""
    given = getattr(step, "arguments", None)
    return (given.model_dump(exclude_unset=True) if hasattr(given, "model_dump") else given) or ""


def _delta(heard: Heard, number: int, delta: Any) -> None:
    match delta.type:
        case "text":
            heard.say(delta.text)
        case "thought_summary":
            heard.think(getattr(delta.content, "text", None))
        case "arguments_delta":
            heard.call(None, None, delta.arguments, number)
        case kind if kind.endswith("_call"):  # of a tool that Google runs: all of them at once
            (heard.calls or {})[number].arguments = _arguments(delta)


def _ended(heard: Heard, interaction: Any) -> None:
    heard.finish = judge_protocol.plain(interaction.status)
    if counts := interaction.usage:
        heard.count(counts.total_input_tokens, counts.total_output_tokens)


DIALECTS = {"gemini": generate, "gemini-interactions": interact}


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = genai.Client(
        api_key=judge_protocol.KEY,
        http_options=types.HttpOptions(
            base_url=url,
            timeout=int(judge_protocol.TIMEOUT * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )
    return lambda ask: DIALECTS[ask.dialect](client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
