"""A small shop over HTTP, which the test definitions of this project test.

`SHOP_DEFECT` breaks it: `error` (status 500), `value` (a wrong total), `field` (no total), `slow`
(each response takes 0.6 s) or `down` (nothing listens).  The last two lines of its log file are in
`SHOP_LOG`, if that is set: one line for each request.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PRODUCTS = {1: ("Tea", 4.5), 2: ("Coffee", 6.0)}
HANGING_S = 30.0
SLOW_S = 0.6


class Shop(ThreadingHTTPServer):
    """The shop: products and carts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.carts: dict[str, list[dict[str, int]]] = {}
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Shop
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Products, a cart, or a response that never comes."""
        match self._parts:
            case ["products"]:
                products = [
                    {"id": number, "name": name, "price": price}
                    for number, (name, price) in PRODUCTS.items()
                ]
                self._respond(200, {"products": products})
            case ["carts", cart] if cart in self.server.carts:
                self._respond(200, self._cart(cart))
            case ["reports"]:
                self.server.stopping.wait(HANGING_S)
            case _:
                self._respond(404, {"error": "not found"})

    def do_POST(self) -> None:
        """A new cart, or products in one."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        match self._parts:
            case ["carts"]:
                cart = str(uuid.uuid4())
                self.server.carts[cart] = []
                self._respond(201, self._cart(cart))
            case ["carts", cart, "items"] if cart in self.server.carts:
                self.server.carts[cart].append(body)
                self._respond(200, self._cart(cart))
            case _:
                self._respond(404, {"error": "not found"})

    def do_DELETE(self) -> None:
        """Remove a cart."""
        match self._parts:
            case ["carts", cart] if self.server.carts.pop(cart, None) is not None:
                self._respond(204, None)
            case _:
                self._respond(404, {"error": "not found"})

    @property
    def _parts(self) -> list[str]:
        return self.path.strip("/").split("/")

    def _cart(self, cart: str) -> dict[str, Any]:
        items = self.server.carts[cart]
        total = sum(PRODUCTS[item["product"]][1] * item["count"] for item in items)
        defect = os.environ.get("SHOP_DEFECT")
        document = {
            "id": cart,
            "changed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "items": items,
            "total": total + 1 if defect == "value" else total,
        }
        if defect == "field":
            del document["total"]
        return document

    def _respond(self, status: int, document: Any) -> None:
        if log := os.environ.get("SHOP_LOG"):
            with Path(log).open("a") as file:
                file.write(f"{self.command} {self.path}\n")
        defect = os.environ.get("SHOP_DEFECT")
        if defect == "slow":
            self.server.stopping.wait(SLOW_S)
        if defect == "error":
            status, document = 500, {"error": "internal error"}
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        if body:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing to stderr."""
