"""What a fixture answers, as a step of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import COSTS, ENVELOPE, FAILURE, OTHERS, SEARCHES
from llm_proxy.importing.fields import number
from llm_proxy.importing.source import Loss, Unfit
from llm_proxy.scenario.engine.turns import stringified
from llm_proxy.turns import Json

Fields = dict[str, Json]

_SHOWN: Final = 80
_ALWAYS: Final = 1_000_000
"""How often a fixture fails that always does."""
_OFTEN: Final = 429
_BROKEN: Final = 500
_ERRORS: Final = range(400, 600)
_UNSAID: Final[Mapping[str, str]] = {
    "embedding": "an embedding",
    "image": "a picture",
    "images": "pictures",
    "audio": "sound",
    "transcription": "a transcript",
    "video": "a film",
    "json": "JSON of its own",
    "live": "a live session",
}
"""What is answered under a name, and no scenario says."""
_ABOUT: Final = ("type", "code", "param")
"""Fields of an error, beside its message."""
_SAID: Final = (
    "content", "toolCalls", "blocks", "reasoning", "reasoningSignature", "redactedThinking",
    "usage", "finishReason",
)  # fmt: skip
_MADE: Final = ("id", "created", "model", "role", "systemFingerprint", "provider")
_MADE_TOO: Final = "nativeFinishReason"
_TOKENS: Final[Mapping[str, str]] = {
    "prompt_tokens": "input",
    "input_tokens": "input",
    "promptTokenCount": "input",
    "completion_tokens": "output",
    "output_tokens": "output",
    "candidatesTokenCount": "output",
    "total_tokens": "total",
    "totalTokenCount": "total",
}
_DETAILS: Final[Mapping[str, Mapping[str, str]]] = {
    "prompt_tokens_details": {"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    "completion_tokens_details": {"reasoning_tokens": "reasoning"},
}


def step(response: Json) -> tuple[Fields, list[Loss]]:
    """A step without its turn, and what it does not say.  Raises `Unfit`."""
    if not isinstance(response, dict):
        raise Unfit("it has no response")
    if isinstance(response.get("error"), dict):
        return _failure(response), [FAILURE]
    if unsaid := next((it for name, it in _UNSAID.items() if name in response), ""):
        raise Unfit(f"it answers with {unsaid}, and a scenario with what a model says or calls")
    said = _answer(response) | _reasoning(response)
    if isinstance(finish := response.get("finishReason"), str) and finish:
        said["finish_reason"] = finish
    usage, is_all = _usage(response.get("usage"))
    losses = [*([] if is_all else [COSTS]), *_left(response)]
    return {"response": said | ({"usage": usage} if usage else {})}, losses


def _left(response: Fields) -> Iterator[Loss]:
    names = [it for it, value in response.items() if value is not None and it not in _SAID]
    made = [it for it in names if it in _MADE or it == _MADE_TOO]
    if made:
        yield ENVELOPE
    if "webSearches" in names:
        yield SEARCHES
    if len(names) > len(made) + ("webSearches" in names):
        yield OTHERS


def _failure(response: Fields) -> Fields:
    """A step that fails as often as anybody will ask."""
    error = lenient_json.fields(response["error"])
    given = response.get("status")
    status = _BROKEN if given is None else lenient_json.count(given)
    if status is None or status not in _ERRORS:
        raise Unfit("its status is none of an error: from 400 to 599")
    about: Fields = {it: error[it] for it in _ABOUT if error.get(it) is not None}
    failed: Fields = {"failures_before_success": _ALWAYS, "failure_status": "model_error"}
    if status == _OFTEN:
        wait = number(response.get("retryAfter"))
        failed["failure_status"] = "rate_limit"
        failed["failure_retry_after_ms"] = 1000 if wait is None else wait * 1000
    else:
        about = {"status": status, **about}
    if message := lenient_json.text(error.get("message")):
        failed["failure_message"] = message
    if about:
        failed["failure_error"] = about
    return {**failed, "response": {"kind": "text", "assistant_text": ""}}


def _answer(response: Fields) -> Fields:
    """Parts in their order, calls with a text before them, or a text."""
    blocks, calls = (lenient_json.array(response.get(it)) for it in ("blocks", "toolCalls"))
    content = response.get("content")
    text = content if content is None or isinstance(content, str) else stringified(content)
    if blocks:
        return {"kind": "parts", "parts": [_block(it) for it in blocks]}
    if calls:
        before: Fields = {"assistant_text": text} if text else {}
        return {"kind": "tool-call", **before, "tool_calls": [_call(it) for it in calls]}
    if text is None:
        raise Unfit("its response has none of content, toolCalls, blocks and error")
    return {"kind": "text", "assistant_text": text}


def _block(block: Json) -> Fields:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"part": "text", "text": text}
        case {"type": "toolCall"}:
            return {"part": "tool-call", **_call(block)}
        case _:
            raise Unfit("one of its blocks is neither a text nor a toolCall")


def _call(call: Json) -> Fields:
    about = lenient_json.fields(call)
    name, call_id = about.get("name"), about.get("id")
    if not isinstance(name, str) or not name:
        raise Unfit("one of its calls has no name")
    arguments = about.get("arguments")
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(arguments, dict):
        raise Unfit(f"the arguments of {printable(name, _SHOWN)} are no JSON object")
    made: Fields = {"call_id": call_id} if isinstance(call_id, str) and call_id else {}
    return {"tool_name": name, "arguments": arguments, **made}


def _parsed(text: str) -> Json:
    """What JSON in a text says; None where it is none."""
    try:
        found: Json = orjson.loads(text.strip() or "{}")
    except ValueError:
        return None
    return found


def _reasoning(response: Fields) -> Fields:
    """What was redacted, then what was thought aloud, with its signature."""
    sealed = (lenient_json.text(it) for it in lenient_json.array(response.get("redactedThinking")))
    thoughts: list[Json] = [
        {"provider_metadata": {"anthropic": {"redactedData": it}}} for it in sealed if it
    ]
    if text := lenient_json.text(response.get("reasoning")):
        signature = lenient_json.text(response.get("reasoningSignature"))
        sealing: Fields = {"provider_metadata": {"anthropic": {"signature": signature}}}
        thoughts.append({"text": text, **(sealing if signature else {})})
    return {"reasoning": thoughts} if thoughts else {}


def _usage(usage: Json) -> tuple[Fields, bool]:
    """The tokens, and whether it says nothing else."""
    found: Fields = {}
    is_all = True
    for name, value in lenient_json.fields(usage).items():
        known = {_TOKENS[name]: value} if name in _TOKENS else {}
        for detail, meaning in _DETAILS.get(name, {}).items():
            known[meaning] = lenient_json.fields(value).get(detail)
        told = {
            it: count for it, one in known.items() if (count := lenient_json.count(one)) is not None
        }
        found |= {it: count for it, count in told.items() if count >= 0}
        is_all = is_all and bool(known)
    return found, is_all
