"""The `Host` check: only loopback names are served."""

from __future__ import annotations

import ipaddress
import re
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import example, given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.errors import RequestRefused
from llm_proxy.shell.server.intake import RequestGuards

PORT = 4777

_PARTS = ["127.0.0.1", "127", "localhost", "::1", "evil.example", "0", "1", "4777", ":4777", "7f",
          ":", "@", ".", "[", "]", "[::1]", ",", " ", "%", "/", "?", "#", "x"]  # fmt: skip
hosts = st.lists(st.sampled_from(_PARTS), max_size=5).map("".join) | st.text(max_size=20)


def _served(host: str) -> bool:
    transport = Mock()
    transport.get_extra_info.return_value = ("127.0.0.1", PORT)
    request = make_mocked_request("GET", "/", headers={"Host": host}, transport=transport)
    try:
        RequestGuards().check(request)
    except RequestRefused as refused:
        return refused.status != 421
    return True


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@given(hosts)
@example(f"127.0.0.1:{PORT}")
@example(f"[127.0.0.1]:{PORT}")
@example(f"[localhost]:{PORT}")
@example(f"127.0.0.1:{PORT}@evil.example:{PORT}")
def test_a_host_that_is_served_is_one_that_leads_to_this_machine(host: str) -> None:
    if _served(host):
        url = urlsplit(f"http://{host}")
        assert _is_loopback(url.hostname or "")
        assert url.port == PORT
        assert url.netloc == host


def test_the_names_of_this_machine_are_served() -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.1.2.3"):
        assert _served(f"{name}:{PORT}")


@each_row(
    ("target", "shown"),
    [
        ("http://evil.example/x?key=AIza-1", "http://evil.example/x"),
        ("http://user:AIza-1@evil.example/x#AIza-1", "http://evil.example/x"),
        ("user:AIza-1@evil.example:443", "evil.example:443"),
        ("*?key=AIza-1", "*"),
    ],
)
def test_a_target_that_is_no_path_is_named_without_its_secrets(target: str, shown: str) -> None:
    request = Mock(raw_path=target)
    with pytest.raises(RequestRefused, match=f"^{re.escape(repr(shown))} is not a path; "):
        RequestGuards().check(request)
