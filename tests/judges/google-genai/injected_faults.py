"""What Google's SDK for Python returns or raises when faults are injected into responses.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/injected_faults.py < in.json

Stdin has the proxy's URL and the requests (`asks`), each with an id (the session of its requests),
a model, the user's message, whether it streams, a time limit in seconds, tools, and how many
requests to send before it.  Stdout has, for each id: the module and the name of the exception, the
text, the tool calls, the finish reason, and the number of HTTP requests sent.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import judge_protocol
from google import genai
from google.genai import types

MAX_CONCURRENT_REQUESTS = 6
SESSION_HEADER = "x-llm-proxy-session"


def _generate_params(request: dict[str, Any]) -> dict[str, Any]:
    headers = {SESSION_HEADER: request["id"]}
    options = types.HttpOptions(timeout=int(request["limit"] * 1000), headers=headers)
    functions = [types.FunctionDeclaration(**tool) for tool in request["tools"] or ()]
    tools = [types.Tool(function_declarations=functions)] if functions else None
    config = types.GenerateContentConfig(http_options=options, tools=tools)
    return {"model": request["model"], "contents": request["say"], "config": config}


def generate(client: Any, request: dict[str, Any]) -> list[Any]:
    """Send a request and return all chunks of the response."""
    if request["stream"]:
        return list(client.models.generate_content_stream(**_generate_params(request)))
    return [client.models.generate_content(**_generate_params(request))]


def send_request(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request, after those that precede it, and return the result as printed."""
    result: dict[str, Any] = {"raised": ("", ""), "text": "", "calls": [], "finish": ""}
    try:
        for _ in range(request["before"]):
            generate(client, request)
        chunks = generate(client, request)
    except Exception as error:  # applications have to handle any exception of the client
        result["raised"] = type(error).__module__, type(error).__name__
        return result
    for chunk in chunks:
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            result["finish"] = judge_protocol.enum_value(chunk.prompt_feedback.block_reason)
        for candidate in chunk.candidates or ():
            reason = judge_protocol.enum_value(candidate.finish_reason)
            result["finish"] = reason or result["finish"]
            for part in (candidate.content and candidate.content.parts) or ():
                result["text"] += part.text or ""
                if part.function_call:
                    result["calls"].append((part.function_call.name, part.function_call.args))
    return result


def main() -> None:
    """Send all requests with a client in its default configuration: it does not retry."""
    document = json.load(sys.stdin)
    requests = document["asks"]
    options = types.HttpOptions(base_url=document["url"])
    client = genai.Client(api_key=judge_protocol.API_KEY, http_options=options)
    sent_counts: Counter[str] = Counter()

    def count_http_request(http_request: Any) -> None:
        sent_counts[http_request.headers[SESSION_HEADER]] += 1

    client._api_client._httpx_client.event_hooks = {"request": [count_http_request]}
    with ThreadPoolExecutor(MAX_CONCURRENT_REQUESTS) as pool:
        results = list(pool.map(lambda request: send_request(client, request), requests))
    output = {
        request["id"]: result | {"sent": sent_counts[request["id"]]}
        for request, result in zip(requests, results, strict=True)
    }
    print(json.dumps(output))


if __name__ == "__main__":
    main()
