"""A server with Ollama's API for models: as the real one, it resumes downloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal

from stub_upstream import Connection, Upstream, upstream
from waiting import wait_until

MODIFIED_AT: Final = "2025-08-20T15:47:57.294374123+02:00"
_STEPS: Final = 20
"""The reports of a layer that is downloaded at once."""

Stop = Literal["hold", "close", "reset", "end", "error"]
"""What happens in mid-download: no further report, or an end of the connection or of the body."""


@dataclass(frozen=True)
class Layer:
    """A layer of a model, named by its digest."""

    name: str
    size: int

    @property
    def digest(self) -> str:
        """As in a manifest."""
        return f"sha256:{sha256(self.name.encode()).hexdigest()}"

    @property
    def status(self) -> str:
        """The status of its download."""
        return f"pulling {self.digest[7:19]}"


SMALL_MODEL: Final = (Layer("weights", 2_000_000_000), Layer("template", 1_500))


@dataclass
class OllamaServer:
    """The state of the server: models, and the bytes of each layer that it has downloaded."""

    registry: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    """What can be downloaded, by full name."""
    stops: list[tuple[float, Stop]] = field(default_factory=list)
    """Where the next downloads stop, one each: the fraction of the first layer, and how."""
    report_gap_s: float = 0.0
    """Seconds between two reports."""
    models: dict[str, int] = field(default_factory=dict)
    """The size of each model, by full name."""
    downloaded: dict[str, int] = field(default_factory=dict)
    """By digest; kept when a download is interrupted."""
    upstream: Upstream = field(default_factory=lambda: Upstream(""))
    open_downloads: int = 0

    @property
    def url(self) -> str:
        """The value of `OLLAMA_HOST`."""
        return self.upstream.url

    @property
    def requests(self) -> list[tuple[str, Any]]:
        """The first line and the JSON of each request so far."""
        return [
            (head.split(b" HTTP/")[0].decode(), json.loads(body) if body else None)
            for head, body in self.upstream.requests
        ]

    async def serve(self, connection: Connection) -> None:
        """Respond to a request."""
        fields = json.loads(connection.body) if connection.body else {}
        name = fields.get("model") or fields.get("name") or ""
        name = name if ":" in name else f"{name}:latest"
        match connection.head.split(b" HTTP/")[0]:
            case b"GET /api/tags":
                await _send_json(connection, {"models": list(self._listed())})
            case b"POST /api/pull":
                await self._pull(connection, name, streams=fields.get("stream", True))
            case b"POST /api/show" if name in self.models:
                await _send_json(connection, description(name))
            case b"DELETE /api/delete" if name in self.models:
                del self.models[name]
                await _send_json(connection, None)
            case _:
                error = {"error": f"model '{name.removesuffix(':latest')}' not found"}
                await _send_json(connection, error, "404 Not Found")

    def _listed(self) -> Iterator[dict[str, Any]]:
        for name, size in self.models.items():
            yield {
                "name": name,
                "model": name,
                "modified_at": MODIFIED_AT,
                "size": size,
                "digest": sha256(name.encode()).hexdigest(),
                "details": description(name)["details"],
            }

    async def _pull(self, connection: Connection, name: str, *, streams: bool) -> None:
        stop_at, stop = self.stops.pop(0) if self.stops else (2.0, "end")
        if not streams:
            for layer in self.registry[name]:
                self.downloaded[layer.digest] = layer.size
            self._add(name)
            await _send_json(connection, {"status": "success"})
            return
        await connection.begin(content_type="application/x-ndjson")
        self.open_downloads += 1
        gone = asyncio.ensure_future(connection.reader.read())
        try:
            for line in self._reports(name, stop_at):
                if gone.done():
                    return
                await connection.chunk(json.dumps(line).encode() + b"\n")
                await asyncio.sleep(self.report_gap_s)
                if line.get("status") == "success" or "error" in line:
                    await connection.finish()
                    return
            match stop:
                case "hold":
                    await gone
                case "close":
                    connection.fin()
                case "reset":
                    await connection.rst()
                case "end":
                    await connection.finish()
                case "error":
                    await connection.chunk(b'{"error": "max retries exceeded: EOF"}\n')
                    await connection.finish()
        finally:
            self.open_downloads -= 1
            gone.cancel()
            await asyncio.wait([gone])  # else its read would disturb that of the next request

    def _reports(self, name: str, stop_at: float) -> Iterator[dict[str, Any]]:
        """The reports up to the stop, or to the end."""
        yield {"status": "pulling manifest"}
        layers: Sequence[Layer] = self.registry.get(name, ())
        if not layers:
            yield {"error": "pull model manifest: file does not exist"}
            return
        for layer in layers:
            report = {"status": layer.status, "digest": layer.digest, "total": layer.size}
            completed = self.downloaded.setdefault(layer.digest, 0)
            yield {**report, "completed": completed} if completed else report
            while completed < layer.size:
                completed = min(completed + -(-layer.size // _STEPS), layer.size)
                self.downloaded[layer.digest] = completed
                yield {**report, "completed": completed}
                if completed >= stop_at * layer.size:
                    return
        yield {"status": "verifying sha256 digest"}
        yield {"status": "writing manifest"}
        self._add(name)
        yield {"status": "success"}

    def _add(self, name: str) -> None:
        self.models[name] = sum(layer.size for layer in self.registry[name])

    async def wait_for_no_downloads(self) -> None:
        """Wait until the server has noticed that all clients of downloads are gone."""
        await wait_until(lambda: self.open_downloads == 0)


def description(name: str) -> dict[str, Any]:
    """The response of `/api/show`."""
    return {
        "license": "Apache License\nVersion 2.0, January 2004\n",
        "modelfile": f"FROM {name}\n",
        "parameters": 'stop           "<|im_end|>"\ntemperature    0.6',
        "template": "{{ .System }}\n{{ .Prompt }}",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "3.2B",
            "quantization_level": "Q4_K_M",
        },
        "model_info": {
            "general.architecture": "llama",
            "general.parameter_count": 3_212_749_888,
            "llama.context_length": 131_072,
            "llama.embedding_length": 3_072,
        },
        "capabilities": ["completion", "tools"],
        "modified_at": MODIFIED_AT,
    }


@asynccontextmanager
async def ollama_server(
    *models: str,
    registry: Sequence[str] = ("llama3.2:latest",),
    stops: Sequence[tuple[float, Stop]] = (),
    report_gap_s: float = 0.0,
) -> AsyncIterator[OllamaServer]:
    """Run a server that has these models, and can download those of `registry`."""
    state = OllamaServer(
        dict.fromkeys(registry, SMALL_MODEL),
        [*stops],
        report_gap_s,
        dict.fromkeys(models, sum(layer.size for layer in SMALL_MODEL)),
    )
    async with upstream(state.serve) as stub:
        state.upstream = stub
        yield state


async def _send_json(connection: Connection, document: Any, status: str = "200 OK") -> None:
    if document is None:  # of a model that was deleted
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return
    body = json.dumps(document).encode()
    await connection.begin(
        f"Content-Length: {len(body)}", status=status, content_type="application/json"
    )
    await connection.send(body)
