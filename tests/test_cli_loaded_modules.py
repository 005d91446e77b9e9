"""Commands that only read cassettes start fast: they do not import the server's libraries."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import pytest

import sample_cassettes
from cli_process import environment
from spool_files import EVENTS, encode_body, encode_opening, write_spool

PROBE: Final = """
import json, sys
from llm_proxy.cli import main
sys.argv[0] = "llm-proxy"
try:
    main()
except SystemExit as end:
    code = end.code
    print("\\n" + json.dumps([code, sorted(name for name in sys.modules if "." not in name)]))
"""

VCR: Final = """\
version: 1
interactions:
- request: {method: GET, uri: "https://api.openai.com/v1/models", headers: {}, body: null}
  response: {status: {code: 200, message: OK}, headers: {}, body: {string: "{}"}}
"""
SCENARIO: Final = "{id: a, description: b, turns: [], match: {json: {$.a: {exists: true}}}}"


async def loaded_modules(folder: Path, *arguments: str) -> set[str]:
    """The modules that `llm-proxy` has imported when it exits with code 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROBE,
        *arguments,
        cwd=folder,
        env=environment(folder),
        stdout=asyncio.subprocess.PIPE,
    )
    stdout, _ = await process.communicate()
    code, names = json.loads(stdout.decode().rpartition("\n[")[2].join(("[", "")))
    assert code == 0
    return set(names)


@pytest.mark.parametrize(
    "arguments",
    [
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
        ["recover", "--spool", "spool"],
        ["scenario", "ls"],
        ["scenario", "lint"],
        ["schema"],
        ["verdict", "run.json"],
        ["report", "run.json"],
        ["import", "vcr.yaml"],
    ],
    ids=" ".join,
)
async def test_a_command_that_serves_nothing_loads_no_server(
    tmp_path: Path, arguments: list[str]
) -> None:
    sample_cassettes.write_complete(tmp_path)
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "a.yaml").write_text(SCENARIO)
    (tmp_path / "vcr.yaml").write_text(VCR)
    (tmp_path / "run.json").write_text('{"entries":[]}')

    loaded = await loaded_modules(tmp_path, *arguments)

    assert {"click", "orjson", "llm_proxy"} <= loaded
    assert not {"aiohttp", "rich", "asyncio"} & loaded


async def test_doctor_looks_at_the_parser_and_so_loads_it(tmp_path: Path) -> None:
    assert "aiohttp" in await loaded_modules(tmp_path, "doctor")
