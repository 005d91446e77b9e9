"""Five ways to give a rule and what each accepts; the same faults on the same requests."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from fault_matrix import REQUESTS
from in_process_proxy import load_cassettes, proxy
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import read_fault_rules
from raw_http import RawResponse, build_http_request, send_request
from scenario_server import scenario_document, serve_scenarios, text_turn
from stored_cassettes import key_of_request, raw_chat_request, write_cassettes
from stored_cassettes import text_response as chat_answer
from stub_upstream import chunked, upstream
from thoroughness import quick_or_thorough
from wire_capture import WireCapture, capture_response

RESET_RULE: Final = "reset,after=1"
RESET_HEADER: Final = f"x-llm-proxy-fault: {RESET_RULE}"
NO_LIST_ERROR: Final = (
    'expected JSON such as {"faults": ["reset,after=3"]}; to remove all runtime faults, use DELETE'
)
SIMULATED: Final[dict[str, Any]] = {
    "pace": InstantPace(),
    "mock": '{"reply": "The quick brown fox.", "chunk_delay_ms": 0}',
}
"""Settings of a server whose responses have several events."""


async def faults_page(url: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """The status and the document of /_proxy/faults."""
    content = b"" if body is None else json.dumps(body).encode()
    response = await send_request(url, build_http_request("/_proxy/faults", content, method=method))
    return response.status, json.loads(response.body)


# Files


def read_rules(folder: Path, text: str, name: str = "faults.yaml") -> list[str]:
    """The rules of a file with this text."""
    path = folder / name
    path.write_text(text, "utf-8")
    return [read_fault_rule.text for read_fault_rule in read_fault_rules(path)]


RULE_FILES: Final = {
    "a list": ("faults.yaml", "- reset,after=3\n- {fault: stall, for: 2s, after: 1}\n"),
    "a list that has its name": ("f.yml", "faults:\n  - reset,after=3\n  - stall,for=2s,after=1\n"),
    "JSON": ("faults.json", '["reset,after=3", {"fault": "stall", "for": "2s", "after": 1}]'),
    "JSON with a name": (
        "f.json",
        '{"faults": [{"fault": "reset", "after": 3}, "stall,for=2s,after=1"]}',
    ),
}


@each_row(("name", "text"), RULE_FILES.values(), ids=RULE_FILES)
def test_a_file_of_faults_is_a_list_in_yaml_or_json(tmp_path: Path, name: str, text: str) -> None:
    assert read_rules(tmp_path, text, name) == ["reset,after=3", "stall,for=2s,after=1"]


def test_a_file_may_hold_no_rule(tmp_path: Path) -> None:
    assert read_rules(tmp_path, "faults: []\n") == []


FILE_ERRORS: Final = {
    "every mistake": (
        "- rset\n- reset,afer=3\n- {fault: stall, for: 3x}\n- reset\n- 7\n",
        (
            "FILE:1:3: $[0]: fault 'rset': unknown fault 'rset'; did you mean 'reset'?; "
            "FILE:2:3: $[1]: fault 'reset,afer=3': unknown term 'afer'; did you mean 'after'?; "
            "FILE:3:3: $[2]: fault 'stall,for=3x': for=3x is not a duration such as "
            "300ms, 0.5s or 2m; "
            'FILE:5:3: $[4]: expected text or an object, got the number 7; write "7"'
        ),
    ),
    "with its path": (
        "faults:\n  - {after: 1}\n",
        (
            "FILE:2:5: $.faults[0]: the fault name is missing; "
            "add the key fault, as in {fault: reset, after: 3}"
        ),
    ),
    "another name": (
        "fault: [reset]\n",
        "FILE:1:1: $.fault: unknown field 'fault'; did you mean 'faults'?",
    ),
    "a rule alone": (
        "reset\n",
        "FILE: expected a list, or an object whose field 'faults' is a list",
    ),
    "nothing": (
        "# none yet\n",
        "FILE: expected a list, or an object whose field 'faults' is a list",
    ),
    "two documents": (
        "[reset]\n---\n[stall]\n",
        "FILE: expected a list, or an object whose field 'faults' is a list",
    ),
    "no YAML": ("faults: [reset\n", None),
}


@each_row(("text", "message"), FILE_ERRORS.values(), ids=FILE_ERRORS)
def test_an_invalid_file_is_refused_with_line_and_path(
    tmp_path: Path, text: str, message: str | None
) -> None:
    with pytest.raises(UsageError) as error:
        read_rules(tmp_path, text)

    file = str(tmp_path / "faults.yaml")
    if message is None:
        assert str(error.value).startswith(f"{file}:2:1: missing comma or ]")
    else:
        assert str(error.value) == message.replace("FILE", file)


def test_a_file_that_is_not_there_or_far_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read --faults .*none\.yaml: No such file"):
        read_fault_rules(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="larger than 1048576 bytes"):
        read_rules(tmp_path, "- reset\n" * 150_000)


# The header


async def test_the_header_is_refused_unless_enabled(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), chat_answer("a", "b"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as server:
        response = await send_request(server.url, raw_chat_request("hi", RESET_HEADER))

    assert response.status == 400
    assert json.loads(response.body)["error"]["message"] == (
        "the header x-llm-proxy-fault is disabled; to enable it, start llm-proxy "
        "with --fault-header"
    )


async def test_the_header_applies_rules_and_is_not_forwarded(
    tmp_path: Path,
) -> None:
    pieces = [b"".join(data for _, data in chat_answer("a", "b", "c").reads)]
    fault_headers = ("x-llm-proxy-fault: drop,after=1", "X-LLM-Proxy-Fault: reset,after=2")
    async with upstream(chunked(pieces)) as provider:
        async with proxy("record", tmp_path, provider.url, fault_header=True) as server:
            cut = await send_request(server.url, raw_chat_request("hi", *fault_headers))
            whole = await send_request(server.url, raw_chat_request())
    assert (cut.ending, whole.ending) == ("rst", "clean")
    assert cut.body == b"".join(data for _, data in chat_answer("a", "c").reads[:2])
    assert [b"x-llm-proxy" in head.lower() for head, _ in provider.requests] == [False, False]
    assert key_of_request(raw_chat_request("hi", *fault_headers)) == key_of_request(
        raw_chat_request()
    )


HEADER_ERRORS: Final = {
    "no rule": (["rset"], "fault 'rset': unknown fault 'rset'; did you mean 'reset'?"),
    "counts": (
        ["reset,nth=2"],
        (
            "fault 'reset,nth=2': the header x-llm-proxy-fault applies only to the current "
            "request; remove nth=, first=, every=, times=, per= and window= from the rule"
        ),
    ),
    "is no matter of a request": (
        ["refuse,window=1s"],
        (
            "fault 'refuse,window=1s': refuse cannot be set for a single request; use --fault or "
            "PUT /_proxy/faults"
        ),
    ),
    "too many": ([RESET_RULE] * 21, "the request has more than 20 x-llm-proxy-fault headers"),
}


@each_row(("rules", "message"), HEADER_ERRORS.values(), ids=HEADER_ERRORS)
async def test_an_invalid_header_is_refused_with_the_reason(
    tmp_path: Path, rules: list[str], message: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), chat_answer("a"))
    headers = [f"x-llm-proxy-fault: {rule}" for rule in rules]
    async with proxy("replay", tmp_path, fault_header=True) as server:
        response = await send_request(server.url, raw_chat_request("hi", *headers))

    assert (response.status, response.header("x-should-retry")) == (400, "false")
    assert json.loads(response.body)["error"]["message"] == message


@each_row(
    "rule",
    [
        "Own-Key-With-Capitals",
        "reset,Own-Key-With-Capitals=3",
        "reset,after=Own-Key-With-Capitals",
        "status,code=503,message=Own-Key-With-Capitals",
    ],
)
async def test_a_key_in_the_header_reaches_neither_the_log_nor_the_journal(
    tmp_path: Path, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    headers = ("Authorization: Bearer Own-Key-With-Capitals", f"x-llm-proxy-fault: {rule}")
    async with proxy("simulate", tmp_path, fault_header=True, **SIMULATED) as server:
        await send_request(server.url, raw_chat_request("hi", *headers))
        journal = json.dumps(server.journal.to_json_document(), default=asdict)

    assert "[redacted-client]" in journal
    assert "own-key-with-capitals" not in (journal + caplog.text).lower()


# The page


async def test_rules_are_put_and_deleted_while_the_proxy_runs(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), chat_answer("a", "b"))
    startup_rules = parse_rules(["status,code=503,nth=1"])
    async with proxy("replay", tmp_path, pace=InstantPace(), faults=startup_rules) as server:
        refused = await send_request(server.url, raw_chat_request())
        at_start = await faults_page(server.url)
        rules = [RESET_RULE, {"fault": "slice", "size": 7}]
        after_put = await faults_page(server.url, "PUT", {"faults": rules})
        cut = await send_request(server.url, raw_chat_request())
        after_requests = await faults_page(server.url)
        after_delete = await faults_page(server.url, "DELETE")
        whole = await send_request(server.url, raw_chat_request())

    startup_status = {"rule": "status,code=503,nth=1", "matched": 1, "injected": 1}
    assert (refused.status, cut.ending, whole.ending) == (503, "rst", "clean")
    assert at_start == (200, {"configured": [startup_status], "faults": [], "scripted": []})
    texts = [RESET_RULE, "slice,size=7"]
    put_status = [{"rule": text, "matched": 0, "injected": 0} for text in texts]
    assert after_put == (
        200,
        {"configured": [startup_status], "faults": put_status, "scripted": []},
    )
    put_status = [{"rule": text, "matched": 1, "injected": 1} for text in texts]
    assert after_requests == (
        200,
        {"configured": [startup_status | {"matched": 2}], "faults": put_status, "scripted": []},
    )
    assert after_delete == (
        200,
        {"configured": [startup_status | {"matched": 2}], "faults": [], "scripted": []},
    )


@each_row(
    ("body", "error"),
    [
        ({"faults": ["rset"]}, "fault 'rset': unknown fault 'rset'; did you mean 'reset'?"),
        (
            {"faults": [7]},
            "each rule must be a string such as reset,after=3, or a mapping with the key fault",
        ),
        (
            {"faults": RESET_RULE},
            NO_LIST_ERROR,
        ),
        (
            {"faults": [RESET_RULE], "fault": RESET_RULE},
            NO_LIST_ERROR,
        ),
        ({}, NO_LIST_ERROR),
        (
            {"faults": [RESET_RULE] * 1001},
            "expected at most 1000 faults, got 1001",
        ),
    ],
)
async def test_invalid_rules_change_nothing(tmp_path: Path, body: Any, error: str) -> None:
    async with proxy("replay", tmp_path) as server:
        await faults_page(server.url, "PUT", {"faults": [RESET_RULE]})
        refused = await faults_page(server.url, "PUT", body)
        _, current = await faults_page(server.url)

    assert refused == (400, {"error": error})
    assert [rule["rule"] for rule in current["faults"]] == [RESET_RULE]


async def test_a_reset_session_gets_the_same_faults_again(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), chat_answer("a", "b"))
    startup_rules = parse_rules(["reset,after=1,nth=2"])
    async with proxy("replay", tmp_path, pace=InstantPace(), faults=startup_rules) as server:
        before = [(await send_request(server.url, raw_chat_request())).ending for _ in range(3)]
        await send_request(server.url, build_http_request("/_proxy/sessions/default/reset", b""))
        after = [(await send_request(server.url, raw_chat_request())).ending for _ in range(2)]

    assert (before, after) == (["clean", "rst", "clean"], ["clean", "rst"])


# Scenarios


async def test_a_scenario_has_its_own_faults(tmp_path: Path) -> None:
    document = scenario_document(
        text_turn("One two three."),
        text_turn("Four.", faults=[{"fault": "status", "code": 503, "nth": 1}]),
        faults=["reset,after=2,nth=1"],
        chunks={"by": "words"},
    )
    async with serve_scenarios(tmp_path, document) as server:
        first = [await server.send() for _ in range(2)]
        second = [await server.send(texts=("refund", "a", "b")) for _ in range(2)]
        _, faults_document = await faults_page(server.url)

    assert [item.raw_response.ending for item in first] == ["rst", "clean"]
    assert [item.raw_response.status for item in second] == [503, 200]
    assert [[record.rule for record in entry.faults] for entry in server.entries] == [
        ["reset,after=2,nth=1"], [], ["status,code=503,nth=1"], []
    ]  # fmt: skip
    assert faults_document["scripted"] == [
        {"rule": "reset,after=2,nth=1", "matched": 4, "injected": 1},
        {"rule": "status,code=503,nth=1", "matched": 2, "injected": 1},
    ]


async def test_a_scenarios_own_failures_are_sent_without_its_faults(
    tmp_path: Path,
) -> None:
    document = scenario_document(
        text_turn(failuresBeforeSuccess=1, expectedTemperature=1), faults=["reset,after=1"]
    )
    async with serve_scenarios(tmp_path, document) as server:
        wrong_temperature = await server.send()
        failed = await server.send(temperature=1)
        fallback = await server.send(texts=("refund", "a", "b"))
        successful = await server.send(temperature=1)

    endings = [
        item.raw_response.ending for item in (wrong_temperature, failed, fallback, successful)
    ]
    assert endings == ["clean", "clean", "clean", "rst"]
    assert failed.raw_response.status == 500


async def test_a_rule_of_the_run_and_one_of_a_scenario_work_together(tmp_path: Path) -> None:
    document = scenario_document(
        text_turn("One two."), faults=["reset,after=2"], chunks={"by": "words"}
    )
    async with serve_scenarios(tmp_path, document, faults=parse_rules(["drop,after=0"])) as server:
        cut = await server.send()
        server.journal.entries.clear()
        await faults_page(server.url, "PUT", {"faults": ["status,code=503"]})
        refused = await server.send()

    assert (cut.raw_response.ending, cut.raw_response.body.count(b"data:")) == ("rst", 2)
    assert refused.raw_response.status == 503
    [entry] = server.entries
    assert entry.origin == "fault"


# A run, and the same run again


async def test_concurrent_requests_get_the_same_bytes_in_another_order(
    tmp_path: Path,
) -> None:
    rules = parse_rules((
        "drop,after=2,probability=40%",
        "latency,by=1..20ms,probability=50%",
        "reset,after=3,probability=30%",
        "status,code=503,probability=20%",
    ))  # fmt: skip
    numbers = [number % 50 for number in range(quick_or_thorough(75, 200))]
    shuffled = random.Random(7).sample(numbers, len(numbers))

    async def run_requests(order: list[int], seed: int) -> list[tuple[int, str, bytes, str]]:
        async def ask_one(number: int) -> tuple[int, str, bytes, str]:
            session = f"s{number % 3}"
            request = raw_chat_request(f"{number}", f"x-llm-proxy-session: {session}")
            response: RawResponse = await send_request(server.url, request)
            return number, response.ending, response.body, str(response.headers)

        async with proxy("simulate", tmp_path, faults=rules, seed=seed, **SIMULATED) as server:
            return sorted(await asyncio.gather(*map(ask_one, order)))

    first, repeated, other = (
        await run_requests(numbers, 1),
        await run_requests(shuffled, 1),
        await run_requests(numbers, 2),
    )

    assert repeated == first
    assert [item[1:2] for item in other] != [item[1:2] for item in first]
    assert {ending for _, ending, _, _ in first} == {"clean", "rst"}


# Faults that outlast a request


@each_row("framing", REQUESTS)
async def test_a_quota_admits_its_requests_and_counts_down(tmp_path: Path, framing: str) -> None:
    rules = parse_rules(["quota,requests=2,window=1m"])
    async with proxy("simulate", tmp_path, faults=rules, **SIMULATED) as server:
        request = REQUESTS[framing]
        responses = [await capture_response(server.url, request) for _ in range(3)]
        other = await capture_response(server.url, request, ("x-llm-proxy-session", "other"))

    assert [raw.status for raw in (*responses, other)] == [200, 200, 429, 200]
    assert [raw.is_clean for raw in responses] == [True] * 3
    assert [len(entry.faults) for entry in server.journal.entries] == [0, 0, 1, 0]
    remaining_headers = [name for name, _ in responses[0].headers if "remaining" in name]
    assert bool(remaining_headers) is (framing in {"sse", "events", "whole"})


async def test_a_listener_that_refuses_comes_back_on_the_same_port(tmp_path: Path) -> None:
    async with proxy("simulate", tmp_path, **SIMULATED) as server:
        before = await capture_response(server.url, REQUESTS["sse"])
        await faults_page(server.url, "PUT", {"faults": ["refuse,window=300ms"]})
        with pytest.raises(ConnectionRefusedError):
            await capture_response(server.url, REQUESTS["sse"])
        after = await _wire_when_listening(server.url)

    assert (before.status, after.status) == (200, 200)


async def _wire_when_listening(url: str) -> WireCapture:
    """The response as soon as the listener is open."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await capture_response(url, REQUESTS["sse"])
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)


# Limits


async def test_an_http_1_0_client_gets_no_malformed_chunk(tmp_path: Path) -> None:
    settings = {"faults": parse_rules(["malformed-chunk,after=1"]), **SIMULATED}
    async with proxy("simulate", tmp_path, **settings) as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
        head = (
            f"POST /v1/chat/completions HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        received = bytearray()
        try:
            while data := await reader.read(65536):
                received += data
        except ConnectionResetError:
            received += b"RST"
        writer.close()
    assert received.startswith(b"HTTP/1.1 200")
    assert b"data: " in received
    assert b"zz" not in received


async def test_a_live_response_whose_rules_are_too_expensive_is_cut_and_recorded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_proxy.faults.rewriting._MAX_REWRITTEN_ACTIONS", 3_000)
    pieces = [b"data: {}\n\n" * 40]
    rules = parse_rules(["slice,size=1,delay=0ms"] * 5)
    async with upstream(chunked(pieces)) as provider:
        async with proxy("record", tmp_path, provider.url, faults=rules) as server:
            response = await send_request(server.url, raw_chat_request())
    assert response.ending == "rst"
    [cassette] = load_cassettes(tmp_path)
    assert b"".join(read.received_bytes for read in cassette.reads) == pieces[0]
    assert cassette.response_end.ending is Ending.CLEAN
