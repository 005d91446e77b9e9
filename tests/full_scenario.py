"""A scenario with every field that a scenario can have, in canonical names."""

from __future__ import annotations

from typing import Any, Final

_REASONING: Final = {"text": "Hm.", "provider_metadata": {"anthropic": {"signature": "s"}}}
_COMMON_FIELDS: Final = {
    "reasoning": [_REASONING, {"text": "So."}],
    "usage": {
        "input": 1, "output": 2, "total": 3, "cache_read": 4, "cache_write": 5, "reasoning": 6,
    },
    "provider_metadata": {"openai": {"service_tier": "flex", "toolCalls": None}},
    "finish_reason": "stop",
}  # fmt: skip

RESPONSES: Final[list[dict[str, Any]]] = [
    {
        "kind": "tool-call",
        "assistant_text": "Looking.",
        "tool_calls": [
            {
                "tool_name": "lookup",
                "arguments": {"toolName": "free", "call_id": 1, "n": [1.5, None, {"a": True}]},
                "call_id": "c1",
                "assistant_text": "First.",
            },
            {"tool_name": "search", "arguments": "made"},
        ],
        "reasoning_content": "Hm.",
        **_COMMON_FIELDS,
    },
    {
        "kind": "final-report",
        "report_content": "# Done",
        "assistant_text": "There.",
        "status": "failure",
        "report_format": "markdown",
        "report_content_json": {"reportFormat": [None]},
        "reasoning_content": _REASONING,
    },
    {"kind": "text", "assistant_text": "", "reasoning_content": ["Hm.", _REASONING]},
    {"kind": "structured", "values": {"finalAnswer": None}, "reasoning_content": None},
    {"kind": "react", "thought": "Hm.", "action": "lookup", "action_input": {"actionInput": 1}},
    {"kind": "react", "final_answer": "42"},
    {
        "kind": "parts",
        "parts": [
            {"part": "reasoning", **_REASONING},
            {"part": "text", "text": "One."},
            {"part": "tool-call", "tool_name": "lookup", "arguments": {"a": 1}, "call_id": "x"},
            {"part": "refusal", "text": "No."},
        ],
    },
]

SCENARIO: Final[dict[str, Any]] = {
    "id": "everything",
    "description": "All that there is.",
    "turns": [
        {"turn": number, "response": response} for number, response in enumerate(RESPONSES, 1)
    ]
    + [
        {
            "turn": len(RESPONSES) + 1,
            "response": {"kind": "text", "assistant_text": "Hello."},
            "expected_tools": ["lookup", "agent__final_report"],
            "allow_missing_tools": False,
            "expected_temperature": 0.7,
            "expected_top_p": 1,
            "expected_reasoning": "enabled",
            "failures_before_success": 2,
            "failure_throws": False,
            "failure_status": "rate_limit",
            "failure_message": "Slow down.",
            "failure_retryable": True,
            "failure_retry_after_ms": 1500,
            "failure_error": {"failureError": {"status": 503}},
            "chunks": {"by": "words", "size": 5, "delay_ms": [30, 80.5]},
            "faults": ["reset,after=3", {"fault": "stall", "for": "2s", "nth": 1, "stream": True}],
        },
        {
            "turn": len(RESPONSES) + 2,
            "response": {"kind": "text", "assistant_text": "Bye."},
            "expected_temperature": None,
            "allow_missing_tools": True,
            "expected_reasoning": "disabled",
        },
        {"turn": "any", "response": {"kind": "text", "assistant_text": "Still here."}},
    ],
    "system_prompt_must_include": ["refund"],
    "match": {
        "model": "gpt-*",
        "path": "/v1/*",
        "provider": "openai",
        "dialect": "openai-*",
        "session": "a",
        "user": "(?i)refund",
        "system": "^You",
        "tool_results": False,
        "turn": 1,
        "json": {
            "$.metadata.userId": {"equals": {"userId": None}, "exists": True},
            "$.n": {"matches": "^[0-9]+$"},
        },
    },
    "expect_signature": True,
    "templates": True,
    "chunks": {"by": "whole", "delay_ms": 0},
    "faults": [{"fault": "status", "code": 503, "probability": 0.1}],
}

MOCK: Final[dict[str, Any]] = {
    "name": "helper",
    "reply": "Yes.",
    "replies": [
        "No.",
        {
            "content": "Wait.",
            "tool_calls": [{"id": "1", "name": "lookup", "args": {"toolCalls": 42}}],
            "usage": {"cache_read": 1},
            "stop_reason": "tool_use",
        },
        {},
    ],
    "thinking_ms": [3000, 8000],
    "chunk_delay_ms": 30,
    "stop_reason": "stop",
    "usage": {"input": 1, "cache_write": 2},
}

DOCUMENT: Final[dict[str, Any]] = {"scenarios": [SCENARIO], "mock": MOCK}
