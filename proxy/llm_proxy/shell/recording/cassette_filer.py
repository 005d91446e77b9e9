"""Files a spool as a cassette in the library: complete and durable, or not at all.

The cassette is written to the target folder under a temporary name, synced, read back and
checked, renamed, and the folder synced.  A crash at any moment leaves the old file or the new
one, and the spool until the new one is durable.
"""

from __future__ import annotations

import fcntl
import filecmp
import logging
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

from llm_proxy.cassette import (
    Cassette,
    CassetteMeta,
    StoredRequest,
    encode_cassette,
    parse_cassette,
    spool,
)
from llm_proxy.cassette.spool import INTERRUPTED_END, SpoolEnd
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome
from llm_proxy.display import shell_quoted_path
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Outcome
from llm_proxy.redaction import ResponseRedaction, operator_secrets, split_rule_texts
from llm_proxy.shell.library.library import (
    KEY_PREFIX_CHARS,
    Library,
    locked_folder,
    parse_take_path,
    sync_folder,
    take_file_name,
)
from llm_proxy.shell.recording.spooling import open_spool
from llm_proxy.take_numbers import LogicalRequest, Renumbering, TakeAllocator

log: Final = logging.getLogger("llm_proxy")

TEMPORARY_FILE_NAME: Final = re.compile(r"\.(\d+-\d+(?:\.\d+)?)\.[0-9a-f]{8}\.tmp")
"""The name of a cassette that is being written: the spool's stem and a random token."""


@dataclass(frozen=True, slots=True)
class FiledCassette:
    """A recording that became a cassette."""

    path: Path
    cassette: Cassette
    outcome: Outcome


@dataclass(slots=True)
class SessionHold:
    """A time during which the takes of a session replace none, because a verdict is to come.

    A recording belongs to the hold during which it began, also if it is filed after the verdict.
    """

    replaces_session: bool = False
    """Whether its takes replace all older ones of the session, also those of other requests."""
    is_awaiting_verdict: bool = True
    """Whether the hold has not ended.  Used on the event loop."""
    keep: bool | None = None
    """The verdict that was applied: whether the takes are kept.  Used while filing."""


@dataclass(slots=True)
class _StoredAttempt:
    """The cassette of the latest attempt of a logical request."""

    path: Path
    run_take_number: int
    """Its take number within this run."""
    attempt_index: int
    complete: bool


class CassetteFiler:
    """Files finished takes in one library.  Safe to use from several threads."""

    def __init__(
        self,
        library: Library,
        *,
        replaces_older: bool,
        skips_existing_copies: bool = False,
        environment_secrets: frozenset[bytes] = frozenset(),
    ) -> None:
        """`environment_secrets` are redacted in recordings whose own secrets are not known.

        With `replaces_older`, this run's takes replace the older ones of their key and session;
        an error response replaces no successful take, and is parked like an incomplete one, or in
        place of an older error with the same status.

        With `skips_existing_copies`, a recording that is in the library already is not added again.
        """
        self._library = library
        self._replaces_older = replaces_older
        self._skips_existing_copies = skips_existing_copies
        self._environment_secrets = environment_secrets
        self._allocators: defaultdict[str, dict[str, TakeAllocator]] = defaultdict(dict)
        """By session and key."""
        self._known_identities: dict[str, tuple[int, int]] = {}
        """Inode and mtime of each take that existed when this run began or that it stored, by
        path."""
        self._attempts: defaultdict[str, dict[int, _StoredAttempt]] = defaultdict(dict)
        """The current cassette of each logical request, by session and the request's number."""
        self._attempts_by_path: dict[Path, _StoredAttempt] = {}
        self._kept_keys: set[tuple[str, str]] = set()
        """Sessions and keys whose older takes an error did not replace, which was logged."""
        self._has_warned_of_foreign = False
        self._lock = threading.Lock()

    def scan_existing(self) -> None:
        """Remember the existing takes, to recognise those that another process adds later.

        Call it before anything is filed; it takes a second for 100,000 takes.
        """
        if self._replaces_older:
            identities = ((path, _file_identity(path)) for path in self._library.unsorted_paths())
            self._known_identities = {path: each for path, each in identities if each}

    def forget_session(self, session: str) -> None:
        """Treat the existing takes of this session as older ones, as if the run began now."""
        with self._lock:
            self._allocators.pop(session, None)
            for attempt in self._attempts.pop(session, {}).values():
                self._attempts_by_path.pop(attempt.path, None)

    def settle_session(
        self, session: str, hold: SessionHold, *, keep: bool
    ) -> dict[Path, Path | None]:
        """Apply the verdict on a session's held takes.

        With `keep`, they replace the older ones as if they had not been held.  Otherwise those of
        keys with a complete older take are deleted.  Returns the new path of each file, None for
        a deleted one.
        """
        new_paths: dict[Path, Path | None] = {}
        with self._lock:
            hold.keep = keep
            if not self._library.root.is_dir():  # nothing was recorded
                return new_paths
            with locked_folder(self._library.root):
                for key, allocator in self._allocators[session].items():
                    if keep:
                        takes = self._library.take_paths(session, key).items()
                        renumbering = allocator.replace_by_parked_takes(
                            {number for number, path in takes if path.exists()}
                        )
                    elif self._has_complete_take(session, key, allocator.older_takes):
                        renumbering = allocator.discard_parked_takes()
                    else:
                        continue
                    new_paths |= self._renumber_takes(session, key, renumbering)
                    if keep:
                        self._warn_of_kept_takes(session, key, allocator)
                if keep and hold.replaces_session and self._replaces_older:
                    self._delete_other_requests(session)
        return new_paths

    def _delete_other_requests(self, session: str) -> None:
        """Delete the takes of requests that this run has not recorded.

        It has recorded others, and each completely and without an error: after an error, the
        requests that would have followed are not sent.
        """
        keys = self._allocators[session]
        outcomes = [
            cassette_outcome(cassette)
            for key in keys
            for _, cassette in self._load_takes(
                session, key, self._library.take_paths(session, key)
            )
        ]
        if not outcomes or any(each.is_error or not each.is_complete for each in outcomes):
            return
        recorded_prefixes = {key[:KEY_PREFIX_CHARS] for key in keys}
        for path in self._library.take_paths_in_session(session):
            take = parse_take_path(self._library.root, path)
            if take is not None and take.key_prefix not in recorded_prefixes:
                self._delete_take(session, take.key_prefix, take.number)
                log.info("%s: deleted, because the test no longer sends the request", path)

    def _has_complete_take(self, session: str, key: str, numbers: Iterable[int]) -> bool:
        takes = self._load_takes(session, key, numbers)
        return any(cassette_outcome(cassette).is_complete for _, cassette in takes)

    def _load_takes(
        self, session: str, key: str, numbers: Iterable[int]
    ) -> Iterator[tuple[int, Cassette]]:
        """Load those of these takes that exist and are valid, with their numbers."""
        paths = self._library.take_paths(session, key)
        for number in numbers:
            if number in paths:
                with suppress(CassetteError):
                    yield number, self._library.load_cassette(paths[number])

    def file_spool(
        self,
        path: Path,
        default_ending: SpoolEnd = INTERRUPTED_END,
        logical_request: LogicalRequest | None = None,
        response_redaction: ResponseRedaction | None = None,
        hold: SessionHold | None = None,
    ) -> FiledCassette | None:
        """File the spool at `path`, in place of an earlier attempt of `logical_request`.

        `default_ending` is used if the spool has no end line.  `response_redaction` knows the
        secrets of its request; without, the rules in its line 1 apply.  `hold` is the hold of its
        session to which it belongs.  None if the spool has no head, or another attempt or the
        older takes are kept instead.

        Raises `SpoolError` if the library cannot be written, and `CassetteError` for an invalid
        spool, which is kept unchanged; `SecretNotReplaced` for one that must not be stored.
        """
        with open_spool(path) as spooled:
            if spooled.head is None:
                return None
            try:
                return self._file_spool_content(
                    path.stem, spooled, default_ending, logical_request, response_redaction, hold
                )
            except CassetteError as error:
                raise SpoolError(
                    f"cannot convert the spool file {path} to a cassette: {error}"
                ) from None
            except OSError as error:
                raise SpoolError(
                    f"cannot write a cassette to {self._library.root}: {error.strerror}; the "
                    f"recording is kept in {path}; to convert it, run llm-proxy recover "
                    f"--cassettes "
                    f"{shell_quoted_path(self._library.root)} --spool "
                    f"{shell_quoted_path(path.parent)}"
                ) from None

    def file_unspooled_exchange(
        self, spooled: spool.SpoolContent, response_redaction: ResponseRedaction
    ) -> FiledCassette:
        """File an exchange that has no spool file, after the existing takes.

        Raises `SpoolError` if the library cannot be written, and `CassetteError` for an exchange
        that a cassette cannot hold.
        """
        try:
            filed = self._file_spool_content(
                f"{os.getpid()}-0", spooled, INTERRUPTED_END, None, response_redaction, None
            )
        except OSError as error:
            raise SpoolError(f"cannot write {self._library.root}: {error.strerror}") from None
        assert filed is not None  # noqa: S101 # only an SDK's attempt can be left out
        return filed

    def _file_spool_content(
        self,
        stem: str,
        spooled: spool.SpoolContent,
        default_ending: SpoolEnd,
        logical_request: LogicalRequest | None,
        response_redaction: ResponseRedaction | None,
        hold: SessionHold | None,
    ) -> FiledCassette | None:
        meta, request = spooled.meta, spooled.request
        folder = self._library.path_for_take(meta, request, 1).parent
        self._library.make_folder(folder)
        temporary = folder / f".{stem}.{token_hex(4)}.tmp"
        content = b"".join(spool.cassette_lines_from_spool(spooled, default_ending))
        cassette = parse_cassette(str(temporary), content)
        if response_redaction is None:
            response_redaction = self._redaction_by_rules(meta)
        redacted = response_redaction.redact(cassette, cassette_dialect(cassette).counted_texts)
        if redacted is not cassette:
            content = encode_cassette(redacted)
            cassette = parse_cassette(str(temporary), content)
        outcome = cassette_outcome(cassette)
        with _temporary_file(self._library, temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            _verify_written(temporary, content)
            with self._lock, locked_folder(self._library.root):
                final_path: Path | None = None
                if self._skips_existing_copies:
                    takes = self._library.take_paths(meta.session, meta.key).values()
                    copies = (take for take in takes if filecmp.cmp(temporary, take, shallow=False))
                    final_path = next(copies, None)
                if hold is not None and self._is_discarded(spooled, hold):
                    return None
                final_path = final_path or self._place_or_replace_attempt(
                    temporary, spooled, logical_request, hold, outcome
                )
        if final_path is None:
            return None
        return FiledCassette(final_path, replace(cassette, file=str(final_path)), outcome)

    def _redaction_by_rules(self, meta: CassetteMeta) -> ResponseRedaction:
        rules = split_rule_texts(meta.match_rules)[1]
        finder = rules.finder(operator_secrets(self._environment_secrets))
        return ResponseRedaction(rules, finder, follows_stream=True)

    def _is_discarded(self, spooled: spool.SpoolContent, hold: SessionHold) -> bool:
        """Whether the verdict, which came before the take, is to keep the older takes of its key.

        That is logged.
        """
        session, key = spooled.meta.session, spooled.meta.key
        if hold.keep is not False or not self._replaces_older:
            return False
        older_takes = self._allocator_of(spooled.meta, spooled.request).older_takes
        if not self._has_complete_take(session, key, older_takes):
            return False
        log.info(
            "session %s: discarded a response that ended after the test had failed, and kept the "
            "older cassettes",
            session,
        )
        return True

    def _place_or_replace_attempt(
        self,
        temporary: Path,
        spooled: spool.SpoolContent,
        logical_request: LogicalRequest | None,
        hold: SessionHold | None,
        outcome: Outcome,
    ) -> Path | None:
        """Move a finished cassette to its place, or in place of another attempt of its request.

        A later attempt replaces an earlier one, unless only the earlier one is complete; None if
        the cassette on disk is kept.
        """
        if logical_request is None:
            return self._place_as_take(temporary, spooled, hold, outcome)
        attempt_index, complete = logical_request.attempt_index, outcome.is_complete
        attempts = self._attempts[spooled.meta.session]
        previous = attempts.get(logical_request.number)
        if previous is not None:
            if attempt_index <= previous.attempt_index or (previous.complete and not complete):
                return None
            allocator = self._allocator_of(spooled.meta, spooled.request)
            if not (allocator.is_replacing and complete):
                temporary.replace(previous.path)
                sync_folder(previous.path.parent)
                self._remember_identity(previous.path)
                self._library.evict_from_cache(previous.path)
                previous.attempt_index, previous.complete = attempt_index, complete
                return previous.path
            # Until the older takes are replaced, a complete attempt gets a new place.
            if take := parse_take_path(self._library.root, previous.path):
                self._delete_take(spooled.meta.session, spooled.meta.key, take.number)
                allocator.forget_take(previous.run_take_number, take.number)
        final_path = self._place_as_take(temporary, spooled, hold, outcome)
        attempt = _StoredAttempt(final_path, spooled.target_line.take, attempt_index, complete)
        attempts[logical_request.number] = attempt
        self._attempts_by_path[final_path] = attempt
        return final_path

    def _place_as_take(
        self,
        temporary: Path,
        spooled: spool.SpoolContent,
        hold: SessionHold | None,
        outcome: Outcome,
    ) -> Path:
        """Move a finished cassette to its take number; a failure leaves the allocator unchanged."""
        meta, request = spooled.meta, spooled.request
        allocator = self._allocator_of(meta, request)
        allocator_before = copy(allocator)
        is_held = hold is not None and not hold.keep
        may_replace_older, same_errors = outcome.is_complete, set[int]()
        if allocator.is_replacing and outcome.is_complete and outcome.is_error:
            assert spooled.head is not None  # noqa: S101 # it has an outcome
            for number, older in self._load_takes(meta.session, meta.key, allocator.older_takes):
                older_outcome = cassette_outcome(older)
                if older_outcome.is_error:
                    if older.response_head.status == spooled.head.status:
                        same_errors.add(number)
                elif older_outcome.is_complete:
                    # An expired API key, for example, must not cost good recordings.
                    may_replace_older = False
        placement = allocator.place_take(
            spooled.target_line.take,
            may_replace_older=may_replace_older,
            same_errors=frozenset(same_errors),
            is_held=is_held,
        )
        target = self._library.path_for_take(meta, request, placement.initial_number)
        try:
            self._rename_take(temporary, target, meta.session, meta.key, placement.initial_number)
            sync_folder(target.parent)
        except OSError:
            if self._replaces_older:
                self._allocators[meta.session][meta.key] = allocator_before
            raise
        # The new take is durable by now: a failure here loses no recording.
        new_paths = self._renumber_takes(
            meta.session, meta.key, Renumbering(placement.moves, placement.removals)
        )
        if outcome.is_complete and not is_held:
            self._warn_of_kept_takes(meta.session, meta.key, allocator)
        return new_paths.get(target) or target

    def _warn_of_kept_takes(self, session: str, key: str, allocator: TakeAllocator) -> None:
        """Warn, once for a key, of a complete take that is parked because it is an error."""
        if (session, key) in self._kept_keys:
            return
        for _, cassette in self._load_takes(session, key, allocator.lasting_parked_takes):
            if cassette_outcome(cassette).is_complete:
                self._kept_keys.add((session, key))
                log.warning(
                    "%s: kept the older takes because this response is an error (HTTP %d); to "
                    "replay only the older takes, delete this file",
                    cassette.file,
                    cassette.response_head.status,
                )
                return

    def _allocator_of(self, meta: CassetteMeta, request: StoredRequest) -> TakeAllocator:
        """The take allocator of this key and session: the run's, or a new one from the disk."""
        allocators = self._allocators[meta.session]
        if meta.key in allocators:
            return allocators[meta.key]
        bare_request = replace(request, headers=(), body=b"")  # kept as long as the run
        allocator = TakeAllocator(
            self._library.take_paths(meta.session, meta.key),
            replace_older=self._replaces_older,
            is_foreign_take=lambda number: self._is_foreign_take(meta, bare_request, number),
        )
        if self._replaces_older:
            allocators[meta.key] = allocator
        return allocator

    def _is_foreign_take(self, meta: CassetteMeta, request: StoredRequest, number: int) -> bool:
        """Whether another process has written a take of that number since this run began."""
        path = self._library.take_paths(meta.session, meta.key).get(number)
        if path is None:
            path = self._library.path_for_take(meta, request, number)
            if meta.match_rules:  # they may ignore the model: the folder is that of any
                path = next(path.parent.parent.glob(f"*/{path.name}"), path)
        identity = _file_identity(str(path))
        is_foreign = identity is not None and identity != self._known_identities.get(str(path))
        if is_foreign and self._replaces_older and not self._has_warned_of_foreign:
            self._has_warned_of_foreign = True
            log.warning(
                "another process added the take %s during this run, so this run does not replace "
                "that take; to keep takes separate, give each recording process its own "
                "--session or --cassettes folder",
                path,
            )
        return is_foreign

    def _renumber_takes(
        self, session: str, key: str, renumbering: Renumbering
    ) -> dict[Path, Path | None]:
        """Move and delete takes; returns the new path of each take, None for a deleted one.

        A failure is logged.  Without changes, the result is empty.
        """
        if not renumbering.moves and not renumbering.removals:
            return {}
        old_paths = self._library.take_paths(session, key)
        new_paths: dict[Path, Path | None] = dict.fromkeys(old_paths.values())
        folders = {path.parent for path in new_paths}
        try:
            for source_number, target_number in renumbering.moves:
                source = self._library.take_paths(session, key).get(source_number)
                if source is None or not source.exists():  # deleted by hand
                    self._delete_take(session, key, target_number)
                    old_paths.pop(target_number, None)
                else:
                    target = source.with_name(take_file_name(key, target_number))
                    self._rename_take(source, target, session, key, target_number)
                    old_paths[target_number] = old_paths.pop(source_number)
                self._library.remove_take_from_index(session, key, source_number)
            for number in renumbering.removals:
                self._delete_take(session, key, number)
            for folder in folders:
                sync_folder(folder)
        except OSError as error:
            log.warning(
                "cannot rename or delete takes in %s: %s",
                ", ".join(sorted(map(str, folders))),
                error.strerror,
            )
        for number, path in self._library.take_paths(session, key).items():
            new_paths[old_paths[number]] = path
        return new_paths

    def _delete_take(self, session: str, key: str, number: int) -> None:
        path = self._library.remove_take_from_index(session, key, number)
        if path is not None:
            path.unlink(missing_ok=True)

    def _rename_take(self, source: Path, target: Path, session: str, key: str, number: int) -> None:
        """Move `source` to `target`, in place of the take of that number in any folder."""
        source.replace(target)
        self._remember_identity(target)
        if (attempt := self._attempts_by_path.pop(source, None)) is not None:
            attempt.path = target
            self._attempts_by_path[target] = attempt
        replaced = self._library.remove_take_from_index(session, key, number)
        if replaced is not None and replaced != target:
            replaced.unlink(missing_ok=True)
        self._library.add_take_to_index(target, session, key, number)

    def _remember_identity(self, path: Path) -> None:
        """Remember that this run stored the file."""
        if self._replaces_older and (identity := _file_identity(str(path))) is not None:
            self._known_identities[str(path)] = identity


def _file_identity(path: str) -> tuple[int, int] | None:
    """Inode and mtime (in ns) of a file; None if it does not exist."""
    try:
        stat_result = os.stat(path)  # noqa: PTH116 # 100,000 times at the start: no `Path` for each
    except OSError:
        return None
    return stat_result.st_ino, stat_result.st_mtime_ns


def timestamp_now() -> str:
    """The current time in the format of a cassette's line 1: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _temporary_file(library: Library, temporary: Path) -> Iterator[BinaryIO]:
    """A new file, locked while it is written, and deleted afterwards unless it was renamed."""
    # An existing file is not ours, to write or to delete.
    with library.create_file(temporary) as file:
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            with suppress(OSError):  # it was renamed; else `recover` deletes it
                temporary.unlink()


def _verify_written(temporary: Path, content: bytes) -> None:
    if temporary.read_bytes() != content:
        raise CassetteError(str(temporary), None, "another process overwrote the file")
