"""Verdicts on trials: lost bytes, problems, and how soon an ended connection was noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from in_process_proxy import load_cassettes
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from trial_runner import STALL_TIMEOUT_S, ClientView, TrialEnvironment, TrialTimes
from upstream_endings import Case, ClientEnding, Trial

MAX_RELEASE_S: Final = 0.1
"""Seconds within which the upstream connection must be released after its client disconnects."""


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The result of one trial."""

    trial: Trial
    lost_bytes: int = 0
    """Number of bytes that the upstream sent and that the client or the cassette lacks."""
    problems: str = ""
    """What is not as expected; empty if the trial passed."""
    notice_s: float = 0.0
    """Seconds until the end of the upstream response was noticed (for a stall: after its timeout).

    If the client disconnected: seconds until the upstream connection was released.  Time in which
    the event loop was blocked does not count.
    """


def judge_trials(
    folder: Path, environment: TrialEnvironment, trials: Sequence[Trial]
) -> list[TrialVerdict]:
    """Return the verdicts on finished trials whose recordings are in `folder`."""
    stored = {
        json.loads(cassette.request.body)["messages"][0]["content"]: cassette
        for cassette in load_cassettes(folder)
    }
    verdicts = []
    for trial in trials:
        cassette = stored.get(trial.name)
        if environment.views_by_trial[trial.name].ending == "left":
            verdicts.append(_judge_disconnect(trial, environment, cassette))
        else:
            verdicts.append(_judge_full_read(trial, environment, cassette))
    return verdicts


def _judge_full_read(
    trial: Trial, environment: TrialEnvironment, cassette: Cassette | None
) -> TrialVerdict:
    case, view, times = (
        trial.case,
        environment.views_by_trial[trial.name],
        environment.times_by_trial[trial.name],
    )
    _, sent_body = trial.upstream_output
    status, body, ending = parse_response(view)
    problems = [] if status == case.status else [f"status {status}"]
    if ending != case.client_ending:
        problems.append(f"the client saw {ending}, not {case.client_ending}")
    if case.stored_ending is None:
        problems += _refusal_problems(body, cassette)
        notice_s = (
            _notice_delay(trial, environment, view.ended_at) if trial.client == "fast" else 0.0
        )
        return TrialVerdict(trial, 0, "; ".join(problems), notice_s)
    lost_bytes = _count_lost_bytes(sent_body, body)
    if cassette is None:
        return TrialVerdict(trial, lost_bytes, "; ".join([*problems, "not on disk"]))
    lost_bytes += _count_lost_bytes(sent_body, cassette.response_body)
    problems += _cassette_problems(case, cassette)
    noticed_at = (
        view.ended_at
        if trial.client == "fast"
        else times.requested_at + cassette.response_end.at_ms / 1000
    )
    return TrialVerdict(
        trial, lost_bytes, "; ".join(problems), _notice_delay(trial, environment, noticed_at)
    )


def _judge_disconnect(
    trial: Trial, environment: TrialEnvironment, cassette: Cassette | None
) -> TrialVerdict:
    case, view, times = (
        trial.case,
        environment.views_by_trial[trial.name],
        environment.times_by_trial[trial.name],
    )
    _, sent_body = trial.upstream_output
    release_s = 0.0 if trial.reads_to_end else _release_delay(environment, times)
    problems = (
        [f"the upstream was kept for {release_s * 1000:.0f} ms"]
        if release_s > MAX_RELEASE_S
        else []
    )
    lost_bytes = 0
    if case.stored_ending is None:
        problems += ["a file without a head"] if cassette is not None else []
    elif cassette is None:
        lost_bytes = len(parse_response(view)[1])
        should_be_stored = (
            trial.reads_to_end and times.requested_at
        )  # may leave before the upstream has it
        problems += ["not on disk"] if lost_bytes or should_be_stored else []
    elif trial.reads_to_end:
        lost_bytes = _count_lost_bytes(sent_body, cassette.response_body)
        problems += _cassette_problems(case, cassette)
    else:
        _, body, _ = parse_response(view)
        lost_bytes = _count_lost_bytes(body, cassette.response_body[: len(body)])
        problems += _partial_problems(case, sent_body, cassette)
    return TrialVerdict(trial, lost_bytes, "; ".join(problems), release_s)


def _release_delay(environment: TrialEnvironment, times: TrialTimes) -> float:
    """Seconds for which the upstream connection stayed open after its client disconnected."""
    kept_since = max(times.client_left_at, times.requested_at)
    if times.released_at <= kept_since:
        return 0.0
    return (
        times.released_at - kept_since - environment.loop_blocked_s(kept_since, times.released_at)
    )


def _partial_problems(case: Case, sent_body: bytes, cassette: Cassette) -> list[str]:
    problems = []
    if not sent_body.startswith(cassette.response_body):
        problems.append("bytes on disk that were never sent")
    if cassette.response_end.ending not in {Ending.CLIENT_GONE, case.stored_ending}:
        problems.append(f"ending {cassette.response_end.ending}")
    if cassette_outcome(cassette).is_complete and not (
        case.is_complete and cassette.response_body == sent_body
    ):
        problems.append("called complete")
    return problems


def _cassette_problems(case: Case, cassette: Cassette) -> list[str]:
    problems = []
    if cassette.response_end.ending is not case.stored_ending:
        problems.append(f"ending {cassette.response_end.ending}, not {case.stored_ending}")
    if cassette_outcome(cassette).is_complete is not case.is_complete:
        problems.append(f"outcome {cassette_outcome(cassette)}")
    return problems


def _refusal_problems(body: bytes, cassette: Cassette | None) -> list[str]:
    problems = ["a file without a head"] if cassette is not None else []
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError):
        return [*problems, f"no error of ours: {body!r}"]
    return problems if error["type"] == "upstream_failed" else [*problems, f"error {error}"]


def _notice_delay(trial: Trial, environment: TrialEnvironment, noticed_at: float) -> float:
    ended_at = environment.times_by_trial[trial.name].ended_at
    if not ended_at:  # the end was noticed before the upstream had finished
        return 0.0
    if trial.case.stalls:
        ended_at += STALL_TIMEOUT_S
    return (
        noticed_at
        - ended_at
        - (environment.loop_blocked_s(ended_at, noticed_at) if ended_at < noticed_at else 0.0)
    )


def _count_lost_bytes(sent_body: bytes, received: bytes) -> int:
    """Count the bytes of `sent` that are not in `received`; replaced bytes count as lost, too."""
    common_length = next(
        (
            at
            for at, (expected, actual) in enumerate(zip(sent_body, received, strict=False))
            if expected != actual
        ),
        min(len(sent_body), len(received)),
    )
    return max(len(sent_body), len(received)) - common_length


def parse_response(view: ClientView) -> tuple[int, bytes, ClientEnding]:
    """Return status, body and ending of a response: `clean` only if its framing was complete."""
    head, _, rest = view.data.partition(b"\r\n\r\n")
    if not head:
        return 0, b"", "fin" if view.ending == "fin" else "rst"
    ending: ClientEnding = "rst" if view.ending == "rst" else "fin"
    headers = head.lower()
    status = int(head.split(b" ", 2)[1])
    if b"\r\ntransfer-encoding: chunked" in headers:
        body, is_complete = _decode_chunks(rest)
    elif b"\r\ncontent-length: " in headers:
        length = int(headers.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        body, is_complete = rest, len(rest) == length
    else:
        body, is_complete = rest, False
    return status, body, "clean" if is_complete and view.ending != "rst" else ending


def _decode_chunks(data: bytes) -> tuple[bytes, bool]:
    """Decode a chunked body, possibly cut off; also return whether the last chunk came."""
    body = bytearray()
    position = 0
    while (line_end := data.find(b"\r\n", position)) != -1:
        start, length = line_end + 2, int(data[position:line_end], 16)
        position = start + length + 2
        if length == 0:
            return bytes(body), data[start:] == b"\r\n"
        body += data[start : start + length]
    return bytes(body), False
