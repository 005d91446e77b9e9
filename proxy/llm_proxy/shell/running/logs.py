"""Configures logging on stderr, as text or JSON lines."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final

import orjson

_OTHER_LOGGERS: Final = ("asyncio", "aiohttp")
"""Loggers that would otherwise write to stderr in another format."""


class JsonFormatter(logging.Formatter):
    """Formats each record as one line with a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(fields).decode()


def configure_logging(log_format: str) -> None:
    """Send the package's log to stderr, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else logging.Formatter("llm-proxy: %(message)s")
    )
    for name, level in (
        ("llm_proxy", logging.INFO),
        *((other, logging.WARNING) for other in _OTHER_LOGGERS),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
