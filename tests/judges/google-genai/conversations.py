"""Whole conversations with Google's own client for Python.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/conversation_plans.py < talks.json

On stdin the proxy's URL and talks, as `tests/conversation_plans.py` has them.  On stdout, for each talk, what
was heard turn by turn; its parts as they came.
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

GO_ON = "Go on."
TOOL_SAYS = "done"
MOST_AT_ONCE = 8


class Talking:
    """One conversation, and its history as the client keeps it."""

    def __init__(self, client: Any, talk: dict[str, Any]) -> None:
        self._client = client
        self._talk = talk
        self._contents: list[Any] = []

    def held(self) -> list[dict[str, Any]]:
        """What is heard, turn by turn."""
        self._say("user", [types.Part.from_text(text=self._talk["say"])])
        heard: list[dict[str, Any]] = []
        for turn in range(1, self._talk["turns"] + 1):
            if heard:
                self._go_on(heard[-1])
            heard.append(self._asked(turn))
        return heard

    def _say(self, role: str, parts: list[Any]) -> None:
        self._contents.append(types.Content(role=role, parts=parts))

    def _go_on(self, heard: dict[str, Any]) -> None:
        names = [part[1] for part in heard["parts"] if part[0] == "call"]
        given = {"result": TOOL_SAYS}
        results = [types.Part.from_function_response(name=it, response=given) for it in names]
        self._say("user", results or [types.Part.from_text(text=GO_ON)])

    def _asked(self, turn: int) -> dict[str, Any]:
        raised: list[tuple[str, str]] = []
        for _ in range(self._talk["tries"]):
            try:
                pieces = self._pieces(reasons=turn in self._talk["reasoned"])
            except Exception as error:  # whatever a client raises is what its users see
                raised.append((type(error).__module__, type(error).__name__))
            else:
                return self._heard(pieces) | {"raised": raised}
        return {"parts": [], "finish": None, "usage": None, "seals": [], "raised": raised}

    def _pieces(self, *, reasons: bool) -> list[Any]:
        question = {
            "model": self._talk["model"],
            "contents": self._contents,
            "config": self._config(reasons=reasons),
        }
        if self._talk["stream"]:
            return list(self._client.models.generate_content_stream(**question))
        return [self._client.models.generate_content(**question)]

    def _config(self, *, reasons: bool) -> Any:
        talk = self._talk
        tools = [
            types.FunctionDeclaration(name=name, parameters_json_schema=schema)
            for name, schema in talk["tools"].items()
        ]
        # The client has no argument for metadata; it passes on what stands in `extra_body`.
        extra = {"metadata": talk["metadata"]} if talk["metadata"] else None
        return types.GenerateContentConfig(
            system_instruction=talk["system"] or None,
            temperature=talk["temperature"],
            top_p=talk["top_p"],
            tools=[types.Tool(function_declarations=tools)] if tools else None,
            thinking_config=types.ThinkingConfig(include_thoughts=True) if reasons else None,
            response_json_schema=talk["schema"],
            response_mime_type="application/json" if talk["schema"] else None,
            http_options=types.HttpOptions(
                headers=talk["headers"], timeout=int(talk["patience"] * 1000), extra_body=extra
            ),
        )

    def _heard(self, pieces: list[Any]) -> dict[str, Any]:
        heard: dict[str, Any] = {"parts": [], "finish": None, "usage": None, "seals": []}
        back: list[Any] = []
        for piece in pieces:
            if counts := piece.usage_metadata:
                heard["usage"] = (counts.prompt_token_count, counts.candidates_token_count)
            for candidate in piece.candidates or ():
                heard["finish"] = judge_protocol.plain(candidate.finish_reason) or heard["finish"]
                parts = (candidate.content and candidate.content.parts) or ()
                back += parts
                heard["parts"] += map(said, parts)
                seals = filter(None, (part.thought_signature for part in parts))
                heard["seals"] += (base64.b64encode(it).decode() for it in seals)
        self._say("model", back)
        return heard


def said(part: Any) -> tuple[Any, ...]:
    """A part of an answer."""
    if part.function_call:
        return ("call", part.function_call.name, part.function_call.args or {})
    return ("reasoning" if part.thought else "text", part.text or "")


def main() -> None:
    """Hold all talks that stdin holds, several at a time."""
    given = json.load(sys.stdin)
    options = types.HttpOptions(base_url=given["url"])
    client = genai.Client(api_key=judge_protocol.KEY, http_options=options)
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        print(json.dumps(list(pool.map(lambda it: Talking(client, it).held(), given["talks"]))))


if __name__ == "__main__":
    main()
