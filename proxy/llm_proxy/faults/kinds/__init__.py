"""All faults, side by side: one file each, one line each in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.faults.kind import Kind
from llm_proxy.faults.kinds import (
    bad_encoding,
    bandwidth,
    bom,
    close,
    coalesce,
    drop,
    empty,
    hang,
    hang_body,
    html,
    latency,
    malformed_chunk,
    overloaded,
    quota,
    rate_limit,
    refuse,
    reset,
    slice_,
    slow_close,
    stall,
    status,
    truncate,
    wrong_length,
)

KINDS: Final[Mapping[str, Kind]] = {
    it.KIND.name: it.KIND
    for it in (
        bad_encoding,
        bandwidth,
        bom,
        close,
        coalesce,
        drop,
        empty,
        hang,
        hang_body,
        html,
        latency,
        malformed_chunk,
        overloaded,
        quota,
        rate_limit,
        refuse,
        reset,
        slice_,
        slow_close,
        stall,
        status,
        truncate,
        wrong_length,
    )
}
"""Each fault by its name."""
