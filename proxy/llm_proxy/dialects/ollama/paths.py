"""The paths of Ollama's API."""

from __future__ import annotations

from typing import Final

CHAT: Final = "/api/chat"
GENERATE: Final = "/api/generate"

PULL: Final = "/api/pull"
PUSH: Final = "/api/push"
CREATE: Final = "/api/create"

SHOW: Final = "/api/show"
COPY: Final = "/api/copy"
DELETE: Final = "/api/delete"
EMBED: Final = "/api/embed"
EMBEDDINGS: Final = "/api/embeddings"

TAGS: Final = "/api/tags"
RUNNING: Final = "/api/ps"
VERSION: Final = "/api/version"
