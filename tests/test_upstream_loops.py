"""A proxy that is its own upstream stops after one round trip, and proxy chains work."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from multidict import CIMultiDict

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.shell.upstream import connection
from llm_proxy.shell.upstream.connection import UpstreamProtocol
from raw_http import send_request
from stored_cassettes import raw_chat_request
from stub_upstream import Connection, fixed_length, upstream

OWN_VIA = "1.1 llm-proxy-0123456789abcdef"


async def test_a_request_that_comes_back_through_others_is_answered_508_once(
    tmp_path: Path,
) -> None:
    home: list[str] = []

    async def another_proxy(connection: Connection) -> None:
        lines = [item for item in connection.head.split(b"\r\n") if not item.startswith(b"Host:")]
        raw = await send_request(home[0], b"\r\n".join(lines) + connection.body)
        proxy_headers = [f"{name}: {value}" for name, value in raw.headers if name.startswith("x-")]
        length = f"Content-Length: {len(raw.body)}"
        await connection.begin(*proxy_headers, length, status=f"{raw.status} Loop")
        await connection.send(raw.body)

    async with upstream(another_proxy) as live, proxy("record", tmp_path, live.url) as record_proxy:
        home.append(record_proxy.url)
        raw = await send_request(record_proxy.url, raw_chat_request())

    assert raw.status == 508
    assert (
        b"is a proxy that has already forwarded this request (a loop); set --upstream" in raw.body
    )
    assert raw.header("x-should-retry") == "false"
    assert len(live.requests) == 1
    assert [entry.status for entry in record_proxy.journal.entries] == [508, 508]
    assert load_cassettes(tmp_path) == []


async def test_a_chain_of_two_proxies_records_in_both(tmp_path: Path) -> None:
    async with (
        upstream(fixed_length(b"{}")) as live,
        proxy("record", tmp_path / "far", live.url) as far,
        proxy("record", tmp_path / "near", far.url) as near,
    ):
        raw = await send_request(near.url, raw_chat_request())

    assert (raw.status, raw.body) == (200, b"{}")
    [(head, _)] = live.requests
    assert [line.split(b"-")[:2] for line in head.split(b"\r\n") if line.startswith(b"Via")] == [
        [b"Via: 1.1 llm", b"proxy"]
    ] * 2
    assert [len(load_cassettes(tmp_path / item)) for item in ("near", "far")] == [1, 1]


async def test_a_status_508_of_a_provider_is_a_normal_response(tmp_path: Path) -> None:
    script = fixed_length(b"{}", status="508 Loop Detected")
    async with upstream(script) as live, proxy("record", tmp_path, live.url) as record_proxy:
        raw = await send_request(record_proxy.url, raw_chat_request())
    assert (raw.status, raw.body) == (508, b"{}")
    assert len(load_cassettes(tmp_path)) == 1


@each_row(
    ("identity", "received", "expected"),
    [
        ("llm-proxy-fedcba9876543210", [], ["1.1 llm-proxy-fedcba9876543210"]),
        ("llm-proxy-fedcba9876543210", [OWN_VIA], [OWN_VIA, "1.1 llm-proxy-fedcba9876543210"]),
        ("", [], []),
        ("", [OWN_VIA], []),
        ("", ["1.1 nginx", OWN_VIA], ["1.1 nginx"]),
        ("", ["1.1 a, 1.1 b"], ["1.1 a, 1.1 b"]),
    ],
    ids=["here", "here, behind another", "there", "there, behind one", "with others", "others"],
)
def test_via_entries_of_llm_proxy_stay_on_this_machine(
    identity: str, received: list[str], expected: list[str]
) -> None:
    headers = CIMultiDict([("Accept", "*/*"), *(("via", item) for item in received)])
    connection._set_via(headers, identity)
    assert headers.getall("Via", []) == expected
    assert headers["accept"] == "*/*"


@each_row(
    ("peer", "own", "is_here"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.1", True),
        ("::1", "::1", True),
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("2001:db8::1", "2001:db8::2", False),
    ],
)
async def test_an_upstream_at_an_own_address_is_on_this_machine(
    peer: str, own: str, is_here: bool
) -> None:
    addresses = {"peername": (peer, 80), "sockname": (own, 4777)}
    receiver = UpstreamProtocol(Mock(), Mock())
    receiver.transport = Mock(get_extra_info=addresses.get)
    assert receiver.is_local_upstream() is is_here
