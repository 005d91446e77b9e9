"""A judge for AWS's SDK for Python: Converse, and InvokeModel with the body of Anthropic models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import boto3
import judge_protocol
from botocore.config import Config
from judge_protocol import JudgeRequest, JudgeResponse

MAX_TOKENS: Final = 1024


def converse(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a request to Converse, which has one format for all models."""
    response = JudgeResponse(reasoning="")
    params: dict[str, Any] = {
        "modelId": request.model,
        "messages": [{"role": "user", "content": [{"text": request.prompt}]}],
    }
    if request.has_tools:
        schema = {"inputSchema": {"json": judge_protocol.TOOL_PARAMETERS}}
        tool = {"toolSpec": {"name": judge_protocol.TOOL_NAME, **schema}}
        params["toolConfig"] = {"tools": [tool]}
    if request.is_streaming:
        for event in response.capture_errors(lambda: client.converse_stream(**params)["stream"]):
            _read_event(response, event)
    else:
        for output in response.capture_errors(lambda: [client.converse(**params)]):
            for block in output["output"]["message"]["content"]:
                _read_block(response, block)
            response.finish_reason = output["stopReason"]
            _read_usage(response, output["usage"])
    return response


def _read_event(response: JudgeResponse, event: dict[str, Any]) -> None:
    match event:
        case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": tool_use}}}:
            response.add_tool_call(tool_use["toolUseId"], tool_use["name"], "", index)
        case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": tool_use}}}:
            response.add_tool_call(None, None, tool_use["input"], index)
        case {"contentBlockDelta": {"delta": delta}}:
            response.add_text(delta.get("text"))
            response.add_reasoning(delta.get("reasoningContent", {}).get("text"))
        case {"messageStop": {"stopReason": stop_reason}}:
            response.finish_reason = stop_reason
        case {"metadata": {"usage": usage}}:
            _read_usage(response, usage)


def _read_block(response: JudgeResponse, block: dict[str, Any]) -> None:
    cited_blocks = block.get("citationsContent", {}).get("content", ())
    for text_block in (block, *cited_blocks):
        response.add_text(text_block.get("text"))
    reasoning_text = block.get("reasoningContent", {}).get("reasoningText", {})
    response.add_reasoning(reasoning_text.get("text"))
    if tool_use := block.get("toolUse"):
        response.add_tool_call(tool_use["toolUseId"], tool_use["name"], tool_use["input"])


def _read_usage(response: JudgeResponse, usage: dict[str, Any]) -> None:
    response.set_usage(usage.get("inputTokens"), usage.get("outputTokens"))


def invoke_model(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a request in Anthropic's format; the client returns the JSON of each event unparsed."""
    response = JudgeResponse(reasoning="")
    body: dict[str, Any] = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": MAX_TOKENS,
        "messages": request.messages,
    }
    if request.has_tools:
        schema = {"input_schema": judge_protocol.TOOL_PARAMETERS}
        body["tools"] = [{"name": judge_protocol.TOOL_NAME, **schema}]
    params = {"modelId": request.model, "body": json.dumps(body)}

    def open_stream() -> Iterable[Any]:
        if request.is_streaming:
            stream = client.invoke_model_with_response_stream(**params)["body"]
            return (json.loads(event["chunk"]["bytes"]) for event in stream)
        return [json.loads(client.invoke_model(**params)["body"].read())]

    for document in response.capture_errors(open_stream):
        if request.is_streaming:
            _read_anthropic_event(response, document)
        else:
            _read_anthropic_message(response, document)
    return response


def _read_anthropic_message(response: JudgeResponse, message: dict[str, Any]) -> None:
    response.finish_reason = message["stop_reason"]
    response.set_usage(message["usage"]["input_tokens"], message["usage"]["output_tokens"])
    for block in message["content"]:
        response.add_text(block.get("text"))
        response.add_reasoning(block.get("thinking"))
        if block["type"].endswith("tool_use"):
            response.add_tool_call(block["id"], block["name"], block["input"])


def _read_anthropic_event(response: JudgeResponse, event: dict[str, Any]) -> None:
    match event:
        case {"type": "message_start", "message": {"usage": usage}}:
            response.set_usage(usage["input_tokens"], usage["output_tokens"])
        case {
            "type": "content_block_start",
            "index": index,
            "content_block": {"id": call_id, **block},
        }:
            response.add_tool_call(call_id, block["name"], "", index)
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            response.add_text(delta.get("text"))
            response.add_reasoning(delta.get("thinking"))
            if "partial_json" in delta:
                response.add_tool_call(None, None, delta["partial_json"], index)
        case {"type": "content_block_stop", "index": index} if _has_no_arguments(response, index):
            response.add_tool_call(None, None, "{}", index)
        case {"type": "message_delta", "delta": delta, "usage": usage}:
            response.finish_reason = delta["stop_reason"]
            earlier = response.usage or {"input": None}
            response.set_usage(usage.get("input_tokens", earlier["input"]), usage["output_tokens"])


def _has_no_arguments(response: JudgeResponse, index: int) -> bool:
    """Whether this block is a call that ended without arguments: it began with an empty object."""
    tool_calls = response.tool_calls or {}
    return index in tool_calls and tool_calls[index].arguments == ""


SEND_BY_DIALECT: Final = {"bedrock": converse, "bedrock-invoke": invoke_model}


def make_client(url: str) -> Any:
    """Create a client of the proxy or server at this URL."""
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key=judge_protocol.API_KEY,
        config=Config(
            retries={"total_max_attempts": 1},
            read_timeout=judge_protocol.TIMEOUT_S,
            connect_timeout=judge_protocol.TIMEOUT_S,
        ),
    )


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a sender of requests to the proxy at this URL."""
    client = make_client(url)
    return lambda request: SEND_BY_DIALECT[request.dialect](client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
