"""What Google's own client for Python makes of answers that faults are injected into.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/faults.py < asks.json

On stdin the proxy's URL and asks, each with an id (the session of its requests), a model, what the
user says, whether it streams, a time limit in s, tools, and how often it asks before.  On stdout by
id what was heard: module and name of what was raised, the text, the calls, and why it finished; and
how many requests were sent.
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

AT_ONCE = 6
SESSION = "x-llm-proxy-session"


def _question(it: dict[str, Any]) -> dict[str, Any]:
    headers = {SESSION: it["id"]}
    options = types.HttpOptions(timeout=int(it["limit"] * 1000), headers=headers)
    functions = [types.FunctionDeclaration(**tool) for tool in it["tools"] or ()]
    tools = [types.Tool(function_declarations=functions)] if functions else None
    config = types.GenerateContentConfig(http_options=options, tools=tools)
    return {"model": it["model"], "contents": it["say"], "config": config}


def ask(client: Any, it: dict[str, Any]) -> list[Any]:
    """Ask, and hear the answer to its end."""
    if it["stream"]:
        return list(client.models.generate_content_stream(**_question(it)))
    return [client.models.generate_content(**_question(it))]


def heard(client: Any, it: dict[str, Any]) -> dict[str, Any]:
    """What comes of an ask."""
    told: dict[str, Any] = {"raised": ("", ""), "text": "", "calls": [], "finish": ""}
    try:
        for _ in range(it["before"]):
            ask(client, it)
        pieces = ask(client, it)
    except Exception as error:  # whatever it is, it is what an application has to do with
        told["raised"] = type(error).__module__, type(error).__name__
        return told
    for piece in pieces:
        if piece.prompt_feedback and piece.prompt_feedback.block_reason:
            told["finish"] = judge_protocol.plain(piece.prompt_feedback.block_reason)
        for candidate in piece.candidates or ():
            told["finish"] = judge_protocol.plain(candidate.finish_reason) or told["finish"]
            for part in (candidate.content and candidate.content.parts) or ():
                told["text"] += part.text or ""
                if part.function_call:
                    told["calls"].append((part.function_call.name, part.function_call.args))
    return told


def main() -> None:
    """Ask all that stdin holds, of a client as it comes: it does not ask again."""
    given = json.load(sys.stdin)
    options = types.HttpOptions(base_url=given["url"])
    client = genai.Client(api_key=judge_protocol.KEY, http_options=options)
    sent: Counter[str] = Counter()

    def note(request: Any) -> None:
        sent[request.headers[SESSION]] += 1

    client._api_client._httpx_client.event_hooks = {"request": [note]}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        all_heard = list(threads.map(lambda it: heard(client, it), given["asks"]))
    told = zip((it["id"] for it in given["asks"]), all_heard, strict=True)
    print(json.dumps({name: it | {"sent": sent[name]} for name, it in told}))


if __name__ == "__main__":
    main()
