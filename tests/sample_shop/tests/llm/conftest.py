"""Starts the shop once for all tests, on a free port."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from shop import Shop


@pytest.fixture(scope="session", autouse=True)
def shop() -> Iterator[Shop]:
    """The shop; its address is in the environment, for the definitions."""
    server = Shop()
    os.environ["SHOP_URL"] = server.url
    if os.environ.get("SHOP_DEFECT") == "down":
        server.server_close()
        yield server
        return
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.stopping.set()
    server.shutdown()
    thread.join()
    server.server_close()
