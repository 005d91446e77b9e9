"""A proxy that is its own upstream stops after one round, and chains of proxies work."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from multidict import CIMultiDict

from in_process_proxy import cassettes, proxy
from llm_proxy.shell.upstream import connector
from llm_proxy.shell.upstream.connection import UpstreamProtocol
from raw_http import ask
from stored_cassettes import chat
from stub_upstream import Connection, upstream, whole

OURS = "1.1 llm-proxy-0123456789abcdef"


async def test_a_request_that_comes_back_through_others_is_answered_508_once(
    tmp_path: Path,
) -> None:
    home: list[str] = []

    async def another_proxy(connection: Connection) -> None:
        lines = [item for item in connection.head.split(b"\r\n") if not item.startswith(b"Host:")]
        raw = await ask(home[0], b"\r\n".join(lines) + connection.body)
        ours = [f"{name}: {value}" for name, value in raw.headers if name.startswith("x-")]
        length = f"Content-Length: {len(raw.body)}"
        await connection.begin(*ours, length, status=f"{raw.status} Loop")
        await connection.send(raw.body)

    async with upstream(another_proxy) as live, proxy("record", tmp_path, live.url) as it:
        home.append(it.url)
        raw = await ask(it.url, chat())

    assert raw.status == 508
    assert b"leads back to a proxy that it was asked through: give the provider's own" in raw.body
    assert raw.header("x-should-retry") == "false"
    assert len(live.requests) == 1
    assert [entry.status for entry in it.journal.entries] == [508, 508]
    assert cassettes(tmp_path) == []


async def test_a_chain_of_two_proxies_records_in_both(tmp_path: Path) -> None:
    async with (
        upstream(whole(b"{}")) as live,
        proxy("record", tmp_path / "far", live.url) as far,
        proxy("record", tmp_path / "near", far.url) as near,
    ):
        raw = await ask(near.url, chat())

    assert (raw.status, raw.body) == (200, b"{}")
    [(head, _)] = live.requests
    assert [line.split(b"-")[:2] for line in head.split(b"\r\n") if line.startswith(b"Via")] == [
        [b"Via: 1.1 llm", b"proxy"]
    ] * 2
    assert [len(cassettes(tmp_path / item)) for item in ("near", "far")] == [1, 1]


async def test_a_status_508_of_a_provider_is_an_answer_like_any_other(tmp_path: Path) -> None:
    script = whole(b"{}", status="508 Loop Detected")
    async with upstream(script) as live, proxy("record", tmp_path, live.url) as it:
        raw = await ask(it.url, chat())
    assert (raw.status, raw.body) == (508, b"{}")
    assert len(cassettes(tmp_path)) == 1


@pytest.mark.parametrize(
    ("identity", "came", "goes"),
    [
        ("llm-proxy-fedcba9876543210", [], ["1.1 llm-proxy-fedcba9876543210"]),
        ("llm-proxy-fedcba9876543210", [OURS], [OURS, "1.1 llm-proxy-fedcba9876543210"]),
        ("", [], []),
        ("", [OURS], []),
        ("", ["1.1 nginx", OURS], ["1.1 nginx"]),
        ("", ["1.1 a, 1.1 b"], ["1.1 a, 1.1 b"]),
    ],
    ids=["here", "here, behind another", "there", "there, behind one", "with others", "others"],
)
def test_our_names_stay_on_this_machine(identity: str, came: list[str], goes: list[str]) -> None:
    headers = CIMultiDict([("Accept", "*/*"), *(("via", item) for item in came)])
    connector._append_via(headers, identity)
    assert headers.getall("Via", []) == goes
    assert headers["accept"] == "*/*"


@pytest.mark.parametrize(
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
async def test_an_upstream_at_an_address_of_ours_is_on_this_machine(
    peer: str, own: str, is_here: bool
) -> None:
    addresses = {"peername": (peer, 80), "sockname": (own, 4777)}
    receiver = UpstreamProtocol(Mock(), Mock())
    receiver.transport = Mock(get_extra_info=addresses.get)
    assert receiver.is_local_upstream() is is_here
