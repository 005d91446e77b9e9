"""A user's project with tests, in which pytest runs in its own process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any, Final

from cli_process import environment

APP: Final = """
    import json
    import os
    import urllib.request

    URL = os.environ["OPENAI_BASE_URL"]
    KEY = os.environ["OPENAI_API_KEY"]

    def ask(question):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{URL}/chat/completions", data, headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)["choices"][0]["message"]["content"]
"""
"""An application that reads its base URL and its key when it is imported."""

NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})
_OUTCOME_LINE: Final = re.compile(r"(PASSED|FAILED|ERROR|XFAIL|SKIPPED) (\S+::\S+)")


@dataclass(frozen=True, slots=True)
class PytestRun:
    """A run of pytest that has ended."""

    exit_code: int
    output: str

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test by its name without the file; an error prevails."""
        found: dict[str, str] = {}
        for outcome, node_id in _OUTCOME_LINE.findall(self.output):
            name = node_id.partition("::")[2]
            found[name] = "ERROR" if found.get(name) == "ERROR" else outcome
        return found

    @property
    def summary(self) -> str:
        """The first line of the plugin's terminal summary; empty if there is none."""
        lines = self.output.splitlines()
        return next((line for line in lines if line.startswith("llm-proxy: played ")), "")


@dataclass(frozen=True, slots=True)
class PluginProject:
    """A folder with an application and its tests."""

    folder: Path

    def write(self, **files: str) -> None:
        """Write Python files, by name without suffix; `conftest` and `app` are files as well."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(dedent(text))

    def write_ini(self, *lines: str) -> None:
        """Write `pytest.ini`."""
        (self.folder / "pytest.ini").write_text("\n".join(["[pytest]", *lines]))

    def run(
        self,
        *arguments: str,
        plugins: Sequence[str] = (),
        variables: Mapping[str, str] = NO_VARIABLES,
        timeout_s: float = 90,
    ) -> PytestRun:
        """Run pytest in the folder, with these further plugins and environment variables.

        Other installed plugins are not loaded, because each costs time.
        """
        needed_plugins = ["xdist.plugin"] if "-n" in arguments else []
        pytest_variables = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": ",".join(["llm_proxy.pytest_plugin", *needed_plugins, *plugins]),
        }
        command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(self.folder, **{**pytest_variables, **variables}),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return PytestRun(ended.returncode, ended.stdout + ended.stderr)

    def cassettes(self) -> list[str]:
        """The session folder of each cassette, sorted."""
        root = self.folder / "cassettes"
        return sorted(path.relative_to(root).parts[0] for path in root.rglob("*.jsonl"))


@contextmanager
def numbering_provider() -> Iterator[dict[str, str]]:
    """A provider whose nth response is `answer n`; the variables that its user has set.

    The response to the question `cut` is cut off; that to `error` has status 500.
    """
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": f"answer {next(numbers)}"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = json.dumps(
                {"id": "c1", "object": "chat.completion", "created": 1, "choices": [choice]}
            ).encode()
            self.send_response(500 if b'"error"' in request else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            is_cut = b'"cut"' in request
            self.wfile.write(body[:20] if is_cut else body)
            self.close_connection = is_cut

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/v1"
            yield {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-of-the-user"}
        finally:
            server.shutdown()
            thread.join(10)
