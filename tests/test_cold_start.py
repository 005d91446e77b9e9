"""In a fresh process, several threads read their first cassettes at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scratch_checkout import ROOT
from thoroughness import quick_or_thorough

READ_AT_ONCE = """
import sys, threading
from pathlib import Path
from llm_proxy.cassette import parse_cassette

content = Path(sys.argv[1]).read_bytes()
together = threading.Barrier(16)
read = []

def one():
    together.wait()
    read.append(parse_cassette("it", content).response_end.sha256)

threads = [threading.Thread(target=one) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(read), len(set(read)))
"""


@pytest.mark.parametrize("trial", range(quick_or_thorough(2, 8)))
def test_sixteen_threads_of_a_fresh_process_read_their_first_cassette_together(trial: int) -> None:
    cassette = next(iter(sorted((ROOT / "cassettes").rglob("*.jsonl"))))
    command = [sys.executable, "-c", READ_AT_ONCE, str(Path(cassette))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "16 1"), (
        f"trial {trial}: {result.stderr}"
    )
