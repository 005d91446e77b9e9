"""All faults, side by side: one file each, one line each in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.faults.kind import Kind
from llm_proxy.faults.kinds import close, drop, reset, slice_, stall, status, truncate

KINDS: Final[Mapping[str, Kind]] = {
    it.KIND.name: it.KIND
    for it in (
        close,
        drop,
        reset,
        slice_,
        stall,
        status,
        truncate,
    )
}
"""Each fault by its name."""
