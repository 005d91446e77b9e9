"""The exceptions that Google's SDK for Python raises when a request fails.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/raised_exceptions.py < in.json

Stdin has the proxy's URL and the requests (`asks`), each with an id (the session of its requests),
a model, whether it streams, and a time limit in seconds.  Stdout has, for each id, the module and
the class name of the exception.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import judge_protocol
from google import genai
from google.genai import types


def _generate_params(request: dict[str, Any]) -> dict[str, Any]:
    headers = {"x-llm-proxy-session": request["id"]}
    options = types.HttpOptions(timeout=int(request["limit"] * 1000), headers=headers)
    config = types.GenerateContentConfig(http_options=options)
    return {"model": request["model"], "contents": "Hi", "config": config}


def generate(client: Any, request: dict[str, Any]) -> None:
    """Send a request and read the response to its end."""
    if request["stream"]:
        list(client.models.generate_content_stream(**_generate_params(request)))
    else:
        client.models.generate_content(**_generate_params(request))


def raised_exception(client: Any, request: dict[str, Any]) -> tuple[str, str]:
    """The module and the name of the exception; both are empty if there is none."""
    try:
        generate(client, request)
    except Exception as error:  # applications have to handle any exception of the client
        return type(error).__module__, type(error).__name__
    return "", ""


def main() -> None:
    """Send all requests with a client in its default configuration: it does not retry."""
    document = json.load(sys.stdin)
    options = types.HttpOptions(base_url=document["url"])
    client = genai.Client(api_key=judge_protocol.API_KEY, http_options=options)
    exceptions = {request["id"]: raised_exception(client, request) for request in document["asks"]}
    print(json.dumps(exceptions))


if __name__ == "__main__":
    main()
