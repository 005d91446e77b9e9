"""Complete conversations with Google's SDK for Python.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/conversations.py < in.json

Stdin has the proxy's URL and the conversations (`talks`, as `tests/conversation_plans.py` defines
them).  Stdout has the responses of each conversation, turn by turn, with their parts in the order
received.
"""

from __future__ import annotations

import base64
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import judge_protocol
from google import genai
from google.genai import types

CONTINUE_MESSAGE = "Go on."
TOOL_RESULT = "done"
MAX_CONCURRENT_CONVERSATIONS = 8


class Conversation:
    """One conversation, and its history in the client's types."""

    def __init__(self, client: Any, settings: dict[str, Any]) -> None:
        self._client = client
        self._settings = settings
        self._contents: list[Any] = []

    def run(self) -> list[dict[str, Any]]:
        """Run all turns and return their responses."""
        self._add_content("user", [types.Part.from_text(text=self._settings["say"])])
        responses: list[dict[str, Any]] = []
        for turn in range(1, self._settings["turns"] + 1):
            if responses:
                self._add_user_turn(responses[-1])
            responses.append(self._run_turn(turn))
        return responses

    def _add_content(self, role: str, parts: list[Any]) -> None:
        self._contents.append(types.Content(role=role, parts=parts))

    def _add_user_turn(self, previous: dict[str, Any]) -> None:
        """Add the results of the previous response's tool calls, else a message to continue."""
        tool_names = [part[1] for part in previous["parts"] if part[0] == "call"]
        result = {"result": TOOL_RESULT}
        results = [
            types.Part.from_function_response(name=name, response=result) for name in tool_names
        ]
        self._add_content("user", results or [types.Part.from_text(text=CONTINUE_MESSAGE)])

    def _run_turn(self, turn: int) -> dict[str, Any]:
        raised: list[tuple[str, str]] = []
        has_thinking = turn in self._settings["reasoned"]
        for _ in range(self._settings["tries"]):
            try:
                chunks = self._generate(has_thinking=has_thinking)
            except Exception as error:  # whatever a client raises is what its users see
                raised.append((type(error).__module__, type(error).__name__))
            else:
                return self._read_chunks(chunks) | {"raised": raised}
        return {"parts": [], "finish": None, "usage": None, "seals": [], "raised": raised}

    def _generate(self, *, has_thinking: bool) -> list[Any]:
        params = {
            "model": self._settings["model"],
            "contents": self._contents,
            "config": self._config(has_thinking=has_thinking),
        }
        if self._settings["stream"]:
            return list(self._client.models.generate_content_stream(**params))
        return [self._client.models.generate_content(**params)]

    def _config(self, *, has_thinking: bool) -> Any:
        settings = self._settings
        functions = [
            types.FunctionDeclaration(name=name, parameters_json_schema=schema)
            for name, schema in settings["tools"].items()
        ]
        # The client has no argument for metadata; it sends what is in `extra_body`.
        extra_body = {"metadata": settings["metadata"]} if settings["metadata"] else None
        return types.GenerateContentConfig(
            system_instruction=settings["system"] or None,
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            tools=[types.Tool(function_declarations=functions)] if functions else None,
            thinking_config=types.ThinkingConfig(include_thoughts=True) if has_thinking else None,
            response_json_schema=settings["schema"],
            response_mime_type="application/json" if settings["schema"] else None,
            http_options=types.HttpOptions(
                headers=settings["headers"],
                timeout=int(settings["patience"] * 1000),
                extra_body=extra_body,
            ),
        )

    def _read_chunks(self, chunks: list[Any]) -> dict[str, Any]:
        """Read a response and add it to the history."""
        response: dict[str, Any] = {"parts": [], "finish": None, "usage": None, "seals": []}
        history_parts: list[Any] = []
        for chunk in chunks:
            if usage := chunk.usage_metadata:
                response["usage"] = (usage.prompt_token_count, usage.candidates_token_count)
            for candidate in chunk.candidates or ():
                reason = judge_protocol.enum_value(candidate.finish_reason)
                response["finish"] = reason or response["finish"]
                parts = (candidate.content and candidate.content.parts) or ()
                history_parts += parts
                response["parts"] += map(part_as_json, parts)
                signatures = filter(None, (part.thought_signature for part in parts))
                response["seals"] += (
                    base64.b64encode(signature).decode() for signature in signatures
                )
        self._add_content("model", history_parts)
        return response


def part_as_json(part: Any) -> tuple[Any, ...]:
    """A part of a response as it is printed."""
    if part.function_call:
        return ("call", part.function_call.name, part.function_call.args or {})
    return ("reasoning" if part.thought else "text", part.text or "")


def main() -> None:
    """Run all conversations on stdin, several at a time."""
    document = json.load(sys.stdin)
    options = types.HttpOptions(base_url=document["url"])
    client = genai.Client(api_key=judge_protocol.API_KEY, http_options=options)
    conversations = [Conversation(client, settings) for settings in document["talks"]]
    with ThreadPoolExecutor(MAX_CONCURRENT_CONVERSATIONS) as pool:
        print(json.dumps(list(pool.map(Conversation.run, conversations))))


if __name__ == "__main__":
    main()
