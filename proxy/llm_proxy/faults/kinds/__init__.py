"""All fault kinds: one module each, listed in `FAULT_KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.kinds import (
    bad_encoding,
    bad_tool_call,
    bad_utf8,
    bandwidth,
    bom,
    close,
    coalesce,
    content_filter,
    drop,
    duplicate,
    empty,
    error_event,
    finish_length,
    half_event,
    hang,
    hang_body,
    html,
    latency,
    malformed_chunk,
    malformed_json,
    overloaded,
    quota,
    rate_limit,
    refusal,
    refuse,
    reorder,
    reset,
    slice_,
    slow_close,
    stall,
    stall_keepalive,
    status,
    truncate,
    wrong_length,
)

FAULT_KINDS: Final[Mapping[str, FaultKind]] = {
    kind_module.KIND.name: kind_module.KIND
    for kind_module in (
        bad_encoding,
        bad_tool_call,
        bad_utf8,
        bandwidth,
        bom,
        close,
        coalesce,
        content_filter,
        drop,
        duplicate,
        empty,
        error_event,
        finish_length,
        half_event,
        hang,
        hang_body,
        html,
        latency,
        malformed_chunk,
        malformed_json,
        overloaded,
        quota,
        rate_limit,
        refusal,
        refuse,
        reorder,
        reset,
        slice_,
        slow_close,
        stall,
        stall_keepalive,
        status,
        truncate,
        wrong_length,
    )
}
"""The fault kinds by the names that rules use."""
