"""AWS's own client for Python: Converse, and InvokeModel with a body as Anthropic's models take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import boto3
import judge_protocol
from botocore.config import Config
from judge_protocol import Ask, Heard

MAX_TOKENS: Final = 1024


def converse(client: Any, ask: Ask) -> Heard:
    """A conversation: the same whatever the model."""
    heard = Heard(reasoning="")
    question: dict[str, Any] = {
        "modelId": ask.model,
        "messages": [{"role": "user", "content": [{"text": ask.say}]}],
    }
    if ask.tools:
        schema = {"inputSchema": {"json": judge_protocol.PARAMETERS}}
        question["toolConfig"] = {"tools": [{"toolSpec": {"name": judge_protocol.TOOL, **schema}}]}
    if ask.stream:
        for event in heard.listen(lambda: client.converse_stream(**question)["stream"]):
            _event(heard, event)
    else:
        for answer in heard.listen(lambda: [client.converse(**question)]):
            for block in answer["output"]["message"]["content"]:
                _block(heard, block)
            heard.finish = answer["stopReason"]
            _count(heard, answer["usage"])
    return heard


def _event(heard: Heard, event: dict[str, Any]) -> None:
    match event:
        case {"contentBlockStart": {"contentBlockIndex": at, "start": {"toolUse": use}}}:
            heard.call(use["toolUseId"], use["name"], "", at)
        case {"contentBlockDelta": {"contentBlockIndex": at, "delta": {"toolUse": use}}}:
            heard.call(None, None, use["input"], at)
        case {"contentBlockDelta": {"delta": delta}}:
            heard.say(delta.get("text"))
            heard.think(delta.get("reasoningContent", {}).get("text"))
        case {"messageStop": {"stopReason": reason}}:
            heard.finish = reason
        case {"metadata": {"usage": usage}}:
            _count(heard, usage)


def _block(heard: Heard, block: dict[str, Any]) -> None:
    cited = block.get("citationsContent", {}).get("content", ())
    for it in (block, *cited):
        heard.say(it.get("text"))
    heard.think(block.get("reasoningContent", {}).get("reasoningText", {}).get("text"))
    if use := block.get("toolUse"):
        heard.call(use["toolUseId"], use["name"], use["input"])


def _count(heard: Heard, usage: dict[str, Any]) -> None:
    heard.count(usage.get("inputTokens"), usage.get("outputTokens"))


def invoke(client: Any, ask: Ask) -> Heard:
    """A model's own API, Anthropic's; the client gives the JSON of each event, unread."""
    heard = Heard(reasoning="")
    body: dict[str, Any] = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": MAX_TOKENS,
        "messages": ask.messages,
    }
    if ask.tools:
        body["tools"] = [{"name": judge_protocol.TOOL, "input_schema": judge_protocol.PARAMETERS}]
    question = {"modelId": ask.model, "body": json.dumps(body)}

    def start() -> Iterable[Any]:
        if ask.stream:
            stream = client.invoke_model_with_response_stream(**question)["body"]
            return (json.loads(event["chunk"]["bytes"]) for event in stream)
        return [json.loads(client.invoke_model(**question)["body"].read())]

    for said in heard.listen(start):
        if ask.stream:
            _claude_event(heard, said)
        else:
            _claude(heard, said)
    return heard


def _claude(heard: Heard, message: dict[str, Any]) -> None:
    heard.finish = message["stop_reason"]
    heard.count(message["usage"]["input_tokens"], message["usage"]["output_tokens"])
    for block in message["content"]:
        heard.say(block.get("text"))
        heard.think(block.get("thinking"))
        if block["type"].endswith("tool_use"):
            heard.call(block["id"], block["name"], block["input"])


def _claude_event(heard: Heard, event: dict[str, Any]) -> None:
    match event:
        case {"type": "message_start", "message": {"usage": usage}}:
            heard.count(usage["input_tokens"], usage["output_tokens"])
        case {"type": "content_block_start", "index": at, "content_block": {"id": of, **block}}:
            heard.call(of, block["name"], "", at)
        case {"type": "content_block_delta", "index": at, "delta": delta}:
            heard.say(delta.get("text"))
            heard.think(delta.get("thinking"))
            if "partial_json" in delta:
                heard.call(None, None, delta["partial_json"], at)
        case {"type": "content_block_stop", "index": at} if _is_bare(heard, at):
            heard.call(None, None, "{}", at)
        case {"type": "message_delta", "delta": delta, "usage": usage}:
            heard.finish = delta["stop_reason"]
            before = heard.usage or {"input": None}
            heard.count(usage.get("input_tokens", before["input"]), usage["output_tokens"])


def _is_bare(heard: Heard, at: int) -> bool:
    """Whether this is a call, and ended without arguments: it began with an empty object."""
    return at in (heard.calls or {}) and (heard.calls or {})[at].arguments == ""


DIALECTS: Final = {"bedrock": converse, "bedrock-invoke": invoke}


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key=judge_protocol.KEY,
        config=Config(
            retries={"total_max_attempts": 1},
            read_timeout=judge_protocol.TIMEOUT,
            connect_timeout=judge_protocol.TIMEOUT,
        ),
    )

    return lambda ask: DIALECTS[ask.dialect](client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
