"""Tracks the cassettes of retried requests: a later attempt replaces an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from llm_proxy.take_numbers import LogicalRequest


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """The cassette of the latest attempt of a logical request."""

    path: Path
    run_take_number: int
    """Its take number within this run."""
    attempt_index: int
    complete: bool

    def is_replaced_by(self, logical_request: LogicalRequest, *, complete: bool) -> bool:
        """Whether an attempt replaces this one: a later one, unless only this one is complete."""
        return logical_request.attempt_index > self.attempt_index and (
            complete or not self.complete
        )


class StoredAttempts:
    """The current cassette of each logical request."""

    def __init__(self) -> None:
        self._by_request_number: dict[int, StoredAttempt] = {}
        self._request_number_by_path: dict[Path, int] = {}

    def attempt_of(self, logical_request: LogicalRequest | None) -> StoredAttempt | None:
        """The cassette of an earlier attempt, or of a later one that was filed first."""
        return (
            None if logical_request is None else self._by_request_number.get(logical_request.number)
        )

    def remember(
        self, logical_request: LogicalRequest | None, stored_attempt: StoredAttempt
    ) -> None:
        """Remember the cassette of an attempt."""
        if logical_request is not None:
            self._by_request_number[logical_request.number] = stored_attempt
            self._request_number_by_path[stored_attempt.path] = logical_request.number

    def update_path(self, source: Path, target: Path) -> None:
        """Update the path of a cassette that was renumbered."""
        request_number = self._request_number_by_path.pop(source, None)
        if request_number is not None:
            self._by_request_number[request_number] = replace(
                self._by_request_number[request_number], path=target
            )
            self._request_number_by_path[target] = request_number
