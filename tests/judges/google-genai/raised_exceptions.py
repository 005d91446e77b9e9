"""What Google's own client for Python raises where it is failed.

    PYTHONPATH=tests/judges/protocol python tests/judges/google-genai/failures.py < asks.json

On stdin the proxy's URL and asks, each with an id (the session of its requests), a model, whether
it streams, and a time limit in s.  On stdout the module and the name of what was raised, by id.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import judge_protocol
from google import genai
from google.genai import types


def _question(it: dict[str, Any]) -> dict[str, Any]:
    headers = {"x-llm-proxy-session": it["id"]}
    options = types.HttpOptions(timeout=int(it["limit"] * 1000), headers=headers)
    config = types.GenerateContentConfig(http_options=options)
    return {"model": it["model"], "contents": "Hi", "config": config}


def ask(client: Any, it: dict[str, Any]) -> None:
    """Ask, and hear the answer to its end."""
    if it["stream"]:
        list(client.models.generate_content_stream(**_question(it)))
    else:
        client.models.generate_content(**_question(it))


def raised(client: Any, it: dict[str, Any]) -> tuple[str, str]:
    """Where what was raised is from, and its name."""
    try:
        ask(client, it)
    except Exception as error:  # whatever it is, it is what an application has to do with
        return type(error).__module__, type(error).__name__
    return "", ""


def main() -> None:
    """Ask all that stdin holds, of a client as it comes: it does not ask again."""
    given = json.load(sys.stdin)
    options = types.HttpOptions(base_url=given["url"])
    client = genai.Client(api_key=judge_protocol.KEY, http_options=options)
    print(json.dumps({it["id"]: raised(client, it) for it in given["asks"]}))


if __name__ == "__main__":
    main()
