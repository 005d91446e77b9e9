"""Plays the model for `llm-proxy simulate --respond`: it calls the tools that each test needs.

A plan is the calls of one definition: functions of the results so far.  A tool is called by the
name under which the client offers it, such as `mcp__llm_pytest__http_get`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_proxy.turns import ToolResult

Results = Sequence[Any]
Call = tuple[str, dict[str, Any]]
Plan = Sequence[Callable[[str, Results], Call]]


def respond(request: Any) -> Any:
    """The next tool call of the plan of the test in the prompt; after the last one, the verdict."""
    conversation = request.conversation
    prompt = conversation.first_user_text
    plan, verdict = next(plan for name, plan in PLANS.items() if name in prompt)
    parts = [part for message in conversation.messages for part in message.parts]
    results = [json.loads(part.content) for part in parts if isinstance(part, ToolResult)]
    if len(results) < len(plan):
        shop = found[0] if (found := re.search(r"http://127\.0\.0\.1:\d+", prompt)) else ""
        name, arguments = plan[len(results)](shop, results)
        offered = [tool.name for tool in conversation.tools if tool.name.endswith(f"__{name}")]
        return {"tool_calls": [{"name": (*offered, name)[0], "args": arguments}]}
    return f"```json\n{json.dumps(verdict)}\n```"


def _verdict(name: str, reason: str, *steps: tuple[str, str]) -> dict[str, Any]:
    return {
        "verdict": name,
        "reason": reason,
        "steps": [{"name": step, "status": status, "details": ""} for step, status in steps],
        "issues": [] if name == "PASS" else [reason],
    }


def _cart(shop: str, results: Results) -> str:
    return f"{shop}/carts/{results[0]['json']['id']}"


def _create(shop: str, _: Results) -> Call:
    return "http_post", {"url": f"{shop}/carts", "step": "setup"}


def _add_teas(shop: str, results: Results) -> Call:
    item = {"product": 1, "count": 2}
    return "http_post", {"url": f"{_cart(shop, results)}/items", "json": item, "step": "1"}


def _delete(shop: str, results: Results) -> Call:
    return "http_delete", {"url": _cart(shop, results), "step": "teardown"}


def _call(name: str, **arguments: Any) -> Callable[[str, Results], Call]:
    return lambda _shop, _results: (name, arguments)


PLANS: Mapping[str, tuple[Plan, dict[str, Any]]] = {
    "two teas cost 9.00": (
        (
            _create,
            _add_teas,
            _call("assert_status", expected=200, step="1"),
            _call("assert_response_time", max_ms=500, step="1"),
            lambda shop, results: ("http_get", {"url": _cart(shop, results), "step": "2"}),
            _call("assert_json_path", path="$.total", expected=9.0, step="2", label="total"),
            _delete,
        ),
        _verdict(
            "PASS", "The total is right.", ("Add two teas", "pass"), ("Read the cart", "pass")
        ),
    ),
    "two teas cost 10.00": (
        (
            _create,
            _add_teas,
            _call("assert_json_path", path="$.total", expected=10.0, step="1"),
        ),
        # The model overlooks the failed assertion.
        _verdict(
            "PASS", "The total is right.", ("Add two teas", "pass"), ("Read the cart", "pass")
        ),
    ),
    "tea is in stock": (
        (
            _call("stock_count", product=1, step="1"),
            _call("stock_assert_available", product=1, step="1"),
        ),
        _verdict("PASS", "There are 12 pieces.", ("Count the tea", "pass")),
    ),
    "coffee is in stock": (
        (_create, _call("stock_assert_available", product=2, step="1"), _delete),
        _verdict(
            "FAIL",
            "Coffee is out of stock.",
            ("Reserve a coffee", "fail"),
            ("Add a coffee", "skip"),
        ),
    ),
    "a report is created": (
        (lambda shop, _: ("http_get", {"url": f"{shop}/reports", "timeout": 20, "step": "1"}),),
        _verdict("PASS", "The report was created.", ("Create the report", "pass")),
    ),
}
