"""SARIF 2.1.0: the findings of a scan for GitHub code scanning and other tools."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from llm_proxy.errors import CassetteError
from llm_proxy.scanning import RULE_DESCRIPTIONS, SecretFinding
from llm_proxy.version import __version__

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif_document(
    findings: Sequence[SecretFinding], errors: Iterable[CassetteError]
) -> dict[str, Any]:
    """The findings, and the files that could not be read; no secret is in it."""
    rule_names = sorted({finding.rule for finding in findings})
    rules = [
        {
            "id": name,
            "shortDescription": {"text": f"Secret: {RULE_DESCRIPTIONS.get(name, name)}"},
            "defaultConfiguration": {"level": "error"},
            "properties": {"tags": ["security"], "security-severity": "8.0"},
        }
        for name in rule_names
    ]
    seen: Counter[tuple[str, ...]] = Counter()
    results: list[dict[str, Any]] = []
    for finding in findings:
        identity = (finding.file, finding.rule, finding.place)
        seen[identity] += 1
        place = f" at {finding.place}" if finding.place else ""
        text = f"{finding.rule}: {finding.secret_start}… ({finding.secret_chars} characters){place}"
        results.append(
            {
                "ruleId": finding.rule,
                "ruleIndex": rule_names.index(finding.rule),
                "level": "error",
                "message": {"text": text},
                "locations": [_location(finding.file, finding.line)],
                "partialFingerprints": {
                    "secretPlace/v1": _digest((*identity, str(seen[identity])))
                },
            }
        )
    notifications = [
        {
            "level": "error",
            "message": {"text": error.reason},
            "locations": [_location(error.file, error.line or 1)],
        }
        for error in errors
    ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "llm-proxy", "version": __version__, "rules": rules}},
                "invocations": [
                    {
                        "executionSuccessful": not notifications,
                        "toolExecutionNotifications": notifications,
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }


def _location(file: str, line: int) -> dict[str, Any]:
    path = Path(file)
    uri = (
        path.as_uri()
        if path.is_absolute()
        else quote(path.as_posix().encode(errors="surrogateescape"))
    )
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _digest(parts: Iterable[str]) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()
