"""Sends requests for contents, and for interactions, by Google's SDK."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import judge_protocol
import request_sender
from google import genai
from google.genai import errors, types
from google.genai._gaos.lib.compat_errors import APIStatusError  # no public module has it
from google.genai.interactions import Interaction


def send(url: str, arguments: dict[str, Any], stream: bool) -> None:
    """Send one request: for an interaction if it has an `input`."""
    client = genai.Client(
        api_key=judge_protocol.API_KEY,
        http_options=types.HttpOptions(
            base_url=url,
            timeout=int(judge_protocol.TIMEOUT_S * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )
    if "input" in arguments:
        create_interaction(client, arguments, stream)
    else:
        generate_content(client, arguments, stream)


def generate_content(client: genai.Client, arguments: dict[str, Any], stream: bool) -> None:
    """Generate a content; a response among the contents is sent back as the SDK has it."""
    contents = [
        types.GenerateContentResponse.model_validate(content["response"]).candidates[0].content
        if "response" in content
        else content
        for content in arguments.pop("contents")
    ]
    with suppress(errors.APIError):
        if stream:
            list(client.models.generate_content_stream(model="m", contents=contents, **arguments))
        else:
            client.models.generate_content(model="m", contents=contents, **arguments)


def create_interaction(client: genai.Client, arguments: dict[str, Any], stream: bool) -> None:
    """Create an interaction; one among the steps is sent back as the steps that the SDK has."""
    steps: list[Any] = []
    for step in arguments.pop("input"):
        if "response" in step:
            steps += Interaction.model_validate(step["response"]).steps or ()
        else:
            steps.append(step)
    options = {"stream": True} if stream else {}
    with suppress(APIStatusError):
        list(client.interactions.create(model="m", input=steps, **arguments, **options))


if __name__ == "__main__":
    request_sender.run(send)
