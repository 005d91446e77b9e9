"""Commands that only read cassettes start fast: they do not import the server's libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import sample_cassettes
from cli_process import environment
from spool_files import EVENTS, encode_body, encode_opening, write_spool

PROBE: Final = """
import json, sys
from llm_proxy.cli import main
results, known = [], set()
for command in json.loads(sys.argv[1]):
    sys.argv = ["llm-proxy", *command]
    try:
        main()
    except SystemExit as end:
        loaded = {name for name in sys.modules if "." not in name}
        results.append([end.code, sorted(loaded - known)])
        known |= loaded
print("\\n" + json.dumps(results))
"""

VCR: Final = """\
version: 1
interactions:
- request: {method: GET, uri: "https://api.openai.com/v1/models", headers: {}, body: null}
  response: {status: {code: 200, message: OK}, headers: {}, body: {string: "{}"}}
"""
SCENARIO: Final = "{id: a, description: b, turns: [], match: {json: {$.a: {exists: true}}}}"


READING_COMMANDS: Final = [
    ["ls"],
    ["ls", "--json"],
    ["stats"],
    ["prune", "--older-than", "1d"],
    ["rekey"],
    ["show", "openai"],
    ["show", "openai", "--json"],
    ["diff", "openai", "openai"],
    ["rerecord", "--all", "--dry-run"],
    ["export", "openai", "--format", "curl"],
    ["explain", "openai", "--normalise", "uuids"],
    ["verify"],
    ["scan"],
    ["scrub"],
    ["recover", "--spool", "spool"],
    ["scenario", "ls"],
    ["scenario", "lint"],
    ["schema"],
    ["schema", "llm-test"],
    ["verdict", "run.json"],
    ["report", "run.json"],
    ["import", "vcr.yaml"],
]


def run_in_fresh_process(folder: Path, *commands: list[str]) -> dict[str, tuple[int, set[str]]]:
    """The exit code of each command, and the modules that it was the first to import.

    All run in one process, so a module that two of them import counts for the first alone.
    """
    result = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(commands)],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        check=True,
    )
    loaded = json.loads(result.stdout.decode().rpartition("\n")[0].rpartition("\n")[2])
    return {
        " ".join(command): (code, set(names))
        for command, (code, names) in zip(commands, loaded, strict=True)
    }


def test_a_command_that_serves_nothing_loads_no_server(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "a.yaml").write_text(SCENARIO)
    (tmp_path / "vcr.yaml").write_text(VCR)
    (tmp_path / "run.json").write_text('{"entries":[]}')

    results = run_in_fresh_process(tmp_path, *READING_COMMANDS, ["doctor"])

    assert {command: code for command, (code, _) in results.items() if code} == {}
    assert {"click", "orjson", "llm_proxy"} <= results["ls"][1]
    servers = {"aiohttp", "rich", "asyncio"}
    loaded = {command: servers & modules for command, (_, modules) in results.items()}
    assert loaded.pop("doctor") >= {"aiohttp", "asyncio"}  # it looks at the parser
    assert {command: names for command, names in loaded.items() if names} == {}
