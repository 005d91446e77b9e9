"""Tracks the cassettes of retried requests: a later attempt replaces an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from llm_proxy.take_numbers import LogicalRequest


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """The cassette of the latest attempt."""

    path: Path
    take: int
    """The number that the run gave it."""
    attempt: int
    complete: bool

    def is_replaced_by(self, logical_request: LogicalRequest, *, complete: bool) -> bool:
        """Whether another attempt takes its place: a later one, unless that is worth less."""
        return logical_request.attempt > self.attempt and (complete or not self.complete)


class StoredAttempts:
    """The cassettes of wishes, as they lie by now."""

    def __init__(self) -> None:
        self._by_path: dict[int, StoredAttempt] = {}
        self._by_logical_request: dict[Path, int] = {}

    def attempt_of(self, logical_request: LogicalRequest | None) -> StoredAttempt | None:
        """The cassette of an earlier attempt, or of a later one that was filed before it."""
        return None if logical_request is None else self._by_path.get(logical_request.number)

    def remember(
        self, logical_request: LogicalRequest | None, stored_attempt: StoredAttempt
    ) -> None:
        """Remember where an attempt was put down."""
        if logical_request is not None:
            self._by_path[logical_request.number] = stored_attempt
            self._by_logical_request[stored_attempt.path] = logical_request.number

    def renamed(self, source: Path, target: Path) -> None:
        """A cassette was renumbered."""
        number = self._by_logical_request.pop(source, None)
        if number is not None:
            self._by_path[number] = replace(self._by_path[number], path=target)
            self._by_logical_request[target] = number
