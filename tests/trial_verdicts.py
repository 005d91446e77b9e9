"""What became of trials: bytes that are lost, what is wrong, how soon an end was noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from in_process_proxy import cassettes
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending
from llm_proxy.outcome import outcome_of
from trial_runner import IDLE, Field, Moments, Seen
from upstream_endings import Case, How, Trial

SOON: Final = 0.1
"""Seconds in which an upstream must be let go when its client has left."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a trial."""

    trial: Trial
    lost: int = 0
    """Bytes that the upstream sent and that the client or the disk lacks."""
    wrong: str = ""
    """What is not as it must be; empty where all is well."""
    notice: float = 0.0
    """Seconds until it was known that the upstream had ended (a stall: after its limit), or, of a
    client that left, until the upstream was let go; without those in which nobody had a turn."""


def judge(folder: Path, it: Field, trials: Sequence[Trial]) -> list[Verdict]:
    """The verdicts on trials that are over, and whose recordings are in `folder`."""
    stored = {
        json.loads(cassette.request.body)["messages"][0]["content"]: cassette
        for cassette in cassettes(folder)
    }
    verdicts = []
    for trial in trials:
        cassette = stored.get(trial.name)
        if it.seen[trial.name].how == "left":
            verdicts.append(_judge_gone(trial, it, cassette))
        else:
            verdicts.append(_judge_reader(trial, it, cassette))
    return verdicts


def _judge_reader(trial: Trial, it: Field, cassette: Cassette | None) -> Verdict:
    case, seen, moments = trial.case, it.seen[trial.name], it.moments[trial.name]
    _, sent = trial.wire
    status, body, how = dissect(seen)
    faults = [] if status == case.status else [f"status {status}"]
    if how != case.seen:
        faults.append(f"the client saw {how}, not {case.seen}")
    if case.ending is None:
        faults += _refusal_faults(body, cassette)
        notice = _notice(trial, it, seen.at) if trial.client == "fast" else 0.0
        return Verdict(trial, 0, "; ".join(faults), notice)
    lost = _lost(sent, body)
    if cassette is None:
        return Verdict(trial, lost, "; ".join([*faults, "not on disk"]))
    lost += _lost(sent, cassette.body)
    faults += _cassette_faults(case, cassette)
    noticed = seen.at if trial.client == "fast" else moments.asked + cassette.end.at_ms / 1000
    return Verdict(trial, lost, "; ".join(faults), _notice(trial, it, noticed))


def _judge_gone(trial: Trial, it: Field, cassette: Cassette | None) -> Verdict:
    case, seen, moments = trial.case, it.seen[trial.name], it.moments[trial.name]
    _, sent = trial.wire
    took = 0.0 if trial.finishing else _kept(it, moments)
    faults = [f"the upstream was kept for {took * 1000:.0f} ms"] if took > SOON else []
    lost = 0
    if case.ending is None:
        faults += ["a file without a head"] if cassette is not None else []
    elif cassette is None:
        lost = len(dissect(seen)[1])
        asked = trial.finishing and moments.asked  # some leave before anybody could be asked
        faults += ["not on disk"] if lost or asked else []
    elif trial.finishing:
        lost = _lost(sent, cassette.body)
        faults += _cassette_faults(case, cassette)
    else:
        _, body, _ = dissect(seen)
        lost = _lost(body, cassette.body[: len(body)])
        faults += _partial_faults(case, sent, cassette)
    return Verdict(trial, lost, "; ".join(faults), took)


def _kept(it: Field, moments: Moments) -> float:
    """Seconds for which the upstream was kept after its client had left."""
    since = max(moments.left, moments.asked)
    if moments.released <= since:
        return 0.0
    return moments.released - since - it.stolen(since, moments.released)


def _partial_faults(case: Case, sent: bytes, cassette: Cassette) -> list[str]:
    faults = []
    if not sent.startswith(cassette.body):
        faults.append("bytes on disk that were never sent")
    if cassette.end.ending not in {Ending.CLIENT_GONE, case.ending}:
        faults.append(f"ending {cassette.end.ending}")
    if outcome_of(cassette).complete and not (case.whole and cassette.body == sent):
        faults.append("called complete")
    return faults


def _cassette_faults(case: Case, cassette: Cassette) -> list[str]:
    faults = []
    if cassette.end.ending is not case.ending:
        faults.append(f"ending {cassette.end.ending}, not {case.ending}")
    if outcome_of(cassette).complete is not case.whole:
        faults.append(f"outcome {outcome_of(cassette)}")
    return faults


def _refusal_faults(body: bytes, cassette: Cassette | None) -> list[str]:
    faults = ["a file without a head"] if cassette is not None else []
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError):
        return [*faults, f"no error of ours: {body!r}"]
    return faults if error["type"] == "upstream_failed" else [*faults, f"error {error}"]


def _notice(trial: Trial, it: Field, at: float) -> float:
    broke = it.moments[trial.name].broke
    if not broke:  # it was noticed before the upstream was done
        return 0.0
    if trial.case.end == "stall":
        broke += IDLE
    return at - broke - (it.stolen(broke, at) if broke < at else 0.0)


def _lost(sent: bytes, got: bytes) -> int:
    """Bytes of `sent` that are not in `got`; other bytes in their place count as lost, too."""
    same = next(
        (at for at, (mine, its) in enumerate(zip(sent, got, strict=False)) if mine != its),
        min(len(sent), len(got)),
    )
    return max(len(sent), len(got)) - same


def dissect(seen: Seen) -> tuple[int, bytes, How]:
    """Status, body, and how a response ended: `clean` only if its framing's end came."""
    head, _, rest = seen.data.partition(b"\r\n\r\n")
    if not head:
        return 0, b"", "fin" if seen.how == "fin" else "rst"
    how: How = "rst" if seen.how == "rst" else "fin"
    fields = head.lower()
    status = int(head.split(b" ", 2)[1])
    if b"\r\ntransfer-encoding: chunked" in fields:
        body, over = _unchunked(rest)
    elif b"\r\ncontent-length: " in fields:
        length = int(fields.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        body, over = rest, len(rest) == length
    else:
        body, over = rest, False
    return status, body, "clean" if over and seen.how != "rst" else how


def _unchunked(data: bytes) -> tuple[bytes, bool]:
    """The body in chunks that may break off anywhere, and whether the last chunk came."""
    body = bytearray()
    at = 0
    while (line_end := data.find(b"\r\n", at)) != -1:
        start, length = line_end + 2, int(data[at:line_end], 16)
        at = start + length + 2
        if length == 0:
            return bytes(body), data[start:] == b"\r\n"
        body += data[start : start + length]
    return bytes(body), False
