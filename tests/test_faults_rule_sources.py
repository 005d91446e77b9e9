"""Five ways to give a rule, and what each takes; the same faults on the same requests."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from fault_matrix import REQUESTS
from in_process_proxy import cassettes, proxy
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.fault_rules import read_fault_rules
from llm_proxy.shell.running.settings import SimulationOptions
from raw_http import Raw, ask, post
from scenario_server import playing, says, script
from stored_cassettes import chat, key_of, put
from stored_cassettes import says as told
from stub_upstream import chunked, upstream
from wire_capture import Wire, wire

ONE: Final = "reset,after=1"
HEADER: Final = f"x-llm-proxy-fault: {ONE}"
MADE: Final[dict[str, Any]] = {
    "pace": InstantPace(),
    "simulating": SimulationOptions(mock='{"reply": "The quick brown fox.", "chunk_delay_ms": 0}'),
}
"""A server whose answers have several events."""


async def page(url: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """The page of the faults."""
    content = b"" if body is None else json.dumps(body).encode()
    raw = await ask(url, post("/_proxy/faults", content, method=method))
    return raw.status, json.loads(raw.body)


# Files


def read(folder: Path, text: str, name: str = "faults.yaml") -> list[str]:
    """The rules of a file that holds this."""
    path = folder / name
    path.write_text(text, "utf-8")
    return [read_fault_rule.text for read_fault_rule in read_fault_rules(path)]


FILES: Final = {
    "a list": ("faults.yaml", "- reset,after=3\n- {fault: stall, for: 2s, after: 1}\n"),
    "a list that has its name": ("f.yml", "faults:\n  - reset,after=3\n  - stall,for=2s,after=1\n"),
    "JSON": ("faults.json", '["reset,after=3", {"fault": "stall", "for": "2s", "after": 1}]'),
    "JSON with a name": (
        "f.json",
        '{"faults": [{"fault": "reset", "after": 3}, "stall,for=2s,after=1"]}',
    ),
}


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_a_file_of_faults_is_a_list_in_yaml_or_json(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path, text, name) == ["reset,after=3", "stall,for=2s,after=1"]


def test_a_file_may_hold_no_rule(tmp_path: Path) -> None:
    assert read(tmp_path, "faults: []\n") == []


WRONG: Final = {
    "every mistake": (
        "- rset\n- reset,afer=3\n- {fault: stall, for: 3x}\n- reset\n- 7\n",
        (
            "FILE:1:3: $[0]: fault 'rset': there is no fault rset; did you mean reset?; "
            "FILE:2:3: $[1]: fault 'reset,afer=3': there is no afer; did you mean after?; "
            "FILE:3:3: $[2]: fault 'stall,for=3x': for=3x is not a span of time such as "
            "300ms, 0.5s or 2m; "
            'FILE:5:3: $[4]: 7 is a number: write text or an object in quotes, "7"'
        ),
    ),
    "with its path": (
        "faults:\n  - {after: 1}\n",
        "FILE:2:5: $.faults[0]: a fault is given by its name: {fault: reset, after: 3}",
    ),
    "another name": (
        "fault: [reset]\n",
        "FILE:1:1: $.fault: there is no such field; did you mean faults?",
    ),
    "a rule alone": ("reset\n", "FILE: write one list, called faults"),
    "nothing": ("# none yet\n", "FILE: write one list, called faults"),
    "two documents": ("[reset]\n---\n[stall]\n", "FILE: write one list, called faults"),
    "no YAML": ("faults: [reset\n", None),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_file_is_told_with_its_place(
    tmp_path: Path, text: str, message: str | None
) -> None:
    with pytest.raises(UsageError) as wrong:
        read(tmp_path, text)

    file = str(tmp_path / "faults.yaml")
    if message is None:
        assert str(wrong.value).startswith(f"{file}:2:1: a comma or a ] is missing")
    else:
        assert str(wrong.value) == message.replace("FILE", file)


def test_a_file_that_is_not_there_or_far_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml cannot be read: No such file"):
        read_fault_rules(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="larger than 1048576 bytes"):
        read(tmp_path, "- reset\n" * 150_000)


# The header


async def test_the_header_is_refused_where_nobody_allowed_it(tmp_path: Path) -> None:
    put(tmp_path, chat(), told("a", "b"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as it:
        got = await ask(it.url, chat("hi", HEADER))

    assert got.status == 400
    assert json.loads(got.body)["error"]["message"] == (
        "the header x-llm-proxy-fault is not heard here: start the proxy with --fault-header"
    )


async def test_a_request_brings_its_rules_along_and_the_provider_hears_nothing_of_it(
    tmp_path: Path,
) -> None:
    pieces = [b"".join(data for _, data in told("a", "b", "c").reads)]
    both = ("x-llm-proxy-fault: drop,after=1", "X-LLM-Proxy-Fault: reset,after=2")
    async with upstream(chunked(pieces)) as provider:
        async with proxy("record", tmp_path, provider.url, fault_header=True) as it:
            cut = await ask(it.url, chat("hi", *both))
            whole = await ask(it.url, chat())
    assert (cut.how, whole.how) == ("rst", "clean")
    assert cut.body == b"".join(data for _, data in told("a", "c").reads[:2])
    assert [b"x-llm-proxy" in head.lower() for head, _ in provider.requests] == [False, False]
    assert key_of(chat("hi", *both)) == key_of(chat())


REFUSED: Final = {
    "no rule": (["rset"], "fault 'rset': there is no fault rset; did you mean reset?"),
    "counts": (
        ["reset,nth=2"],
        (
            "fault 'reset,nth=2': a rule in the header x-llm-proxy-fault is for this request "
            "alone, so nothing is counted: leave nth, first, every, times, per and window out"
        ),
    ),
    "is no matter of a request": (
        ["refuse,window=1s"],
        (
            "fault 'refuse,window=1s': refuse is no matter of one request: give it with --fault, "
            "or PUT it to /_proxy/faults"
        ),
    ),
    "too many": ([ONE] * 21, "a request may have 20 headers x-llm-proxy-fault"),
}


@pytest.mark.parametrize(("rules", "message"), REFUSED.values(), ids=REFUSED)
async def test_a_header_that_is_wrong_is_refused_with_the_reason(
    tmp_path: Path, rules: list[str], message: str
) -> None:
    put(tmp_path, chat(), told("a"))
    headers = [f"x-llm-proxy-fault: {rule}" for rule in rules]
    async with proxy("replay", tmp_path, fault_header=True) as it:
        got = await ask(it.url, chat("hi", *headers))

    assert (got.status, got.header("x-should-retry")) == (400, "false")
    assert json.loads(got.body)["error"]["message"] == message


# The page


async def test_rules_are_put_and_taken_back_while_the_proxy_runs(tmp_path: Path) -> None:
    put(tmp_path, chat(), told("a", "b"))
    given = parse_rules(["status,code=503,nth=1"])
    async with proxy("replay", tmp_path, pace=InstantPace(), faults=given) as it:
        refused = await ask(it.url, chat())
        began = await page(it.url)
        rules = [ONE, {"fault": "slice", "size": 7}]
        was_put = await page(it.url, "PUT", {"faults": rules})
        cut = await ask(it.url, chat())
        struck = await page(it.url)
        gone = await page(it.url, "DELETE")
        whole = await ask(it.url, chat())

    first = {"rule": "status,code=503,nth=1", "seen": 1, "struck": 1}
    assert (refused.status, cut.how, whole.how) == (503, "rst", "clean")
    assert began == (200, {"given": [first], "faults": [], "scripted": []})
    texts = [ONE, "slice,size=7"]
    added = [{"rule": text, "seen": 0, "struck": 0} for text in texts]
    assert was_put == (200, {"given": [first], "faults": added, "scripted": []})
    added = [{"rule": text, "seen": 1, "struck": 1} for text in texts]
    assert struck == (200, {"given": [first | {"seen": 2}], "faults": added, "scripted": []})
    assert gone == (200, {"given": [first | {"seen": 2}], "faults": [], "scripted": []})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"faults": ["rset"]}, "fault 'rset': there is no fault rset; did you mean reset?"),
        ({"faults": [7]}, "a fault is a text such as reset,after=3, or a mapping with its name"),
        ({"faults": ONE}, 'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back'),
        (
            {"faults": [ONE], "fault": ONE},
            'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back',
        ),
        ({}, 'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back'),
        (
            {"faults": [ONE] * 1001},
            "there may be 1000 faults, and these are 1001",
        ),
    ],
)
async def test_rules_that_are_none_change_nothing(tmp_path: Path, body: Any, error: str) -> None:
    async with proxy("replay", tmp_path) as it:
        await page(it.url, "PUT", {"faults": [ONE]})
        refused = await page(it.url, "PUT", body)
        _, there = await page(it.url)

    assert refused == (400, {"error": error})
    assert [rule["rule"] for rule in there["faults"]] == [ONE]


async def test_a_session_that_is_begun_again_meets_the_same_faults_again(tmp_path: Path) -> None:
    put(tmp_path, chat(), told("a", "b"))
    given = parse_rules(["reset,after=1,nth=2"])
    async with proxy("replay", tmp_path, pace=InstantPace(), faults=given) as it:
        before = [(await ask(it.url, chat())).how for _ in range(3)]
        await ask(it.url, post("/_proxy/sessions/default/reset", b""))
        after = [(await ask(it.url, chat())).how for _ in range(2)]

    assert (before, after) == (["clean", "rst", "clean"], ["clean", "rst"])


# Scenarios


async def test_a_scenario_brings_its_faults_along(tmp_path: Path) -> None:
    document = script(
        says("One two three."),
        says("Four.", faults=[{"fault": "status", "code": 503, "nth": 1}]),
        faults=["reset,after=2,nth=1"],
        chunks={"by": "words"},
    )
    async with playing(tmp_path, document) as stage:
        first = [await stage.ask() for _ in range(2)]
        second = [await stage.ask(said=("refund", "a", "b")) for _ in range(2)]
        _, pages = await page(stage.url)

    assert [item.raw.how for item in first] == ["rst", "clean"]
    assert [item.raw.status for item in second] == [503, 200]
    assert [[its.rule for its in entry.faults] for entry in stage.entries] == [
        ["reset,after=2,nth=1"], [], ["status,code=503,nth=1"], []
    ]  # fmt: skip
    assert pages["scripted"] == [
        {"rule": "reset,after=2,nth=1", "seen": 4, "struck": 1},
        {"rule": "status,code=503,nth=1", "seen": 2, "struck": 1},
    ]


async def test_what_a_scenario_refuses_or_fails_itself_is_told_without_its_faults(
    tmp_path: Path,
) -> None:
    document = script(
        says(failuresBeforeSuccess=1, expectedTemperature=1), faults=["reset,after=1"]
    )
    async with playing(tmp_path, document) as stage:
        wrong = await stage.ask()
        failed = await stage.ask(temperature=1)
        fallback = await stage.ask(said=("refund", "a", "b"))
        answered = await stage.ask(temperature=1)

    hows = [item.raw.how for item in (wrong, failed, fallback, answered)]
    assert hows == ["clean", "clean", "clean", "rst"]
    assert failed.raw.status == 500


async def test_a_rule_of_the_run_and_one_of_a_scenario_work_together(tmp_path: Path) -> None:
    document = script(says("One two."), faults=["reset,after=2"], chunks={"by": "words"})
    async with playing(tmp_path, document, faults=parse_rules(["drop,after=0"])) as stage:
        cut = await stage.ask()
        stage.journal.entries.clear()
        await page(stage.url, "PUT", {"faults": ["status,code=503"]})
        refused = await stage.ask()

    assert (cut.raw.how, cut.raw.body.count(b"data:")) == ("rst", 2)
    assert refused.raw.status == 503
    [entry] = stage.entries
    assert entry.origin == "fault"


# A run, and the same run again


async def test_what_200_requests_meet_at_once_is_the_same_to_the_byte_in_another_order(
    tmp_path: Path,
) -> None:
    rules = parse_rules((
        "drop,after=2,probability=40%",
        "latency,by=1..20ms,probability=50%",
        "reset,after=3,probability=30%",
        "status,code=503,probability=20%",
    ))  # fmt: skip
    asked = [number % 50 for number in range(200)]
    shuffled = random.Random(7).sample(asked, len(asked))

    async def run(order: list[int], seed: int) -> list[tuple[int, str, bytes, str]]:
        async def one(number: int) -> tuple[int, str, bytes, str]:
            session = f"s{number % 3}"
            request = chat(f"{number}", f"x-llm-proxy-session: {session}")
            raw: Raw = await ask(it.url, request)
            return number, raw.how, raw.body, str(raw.headers)

        async with proxy("simulate", tmp_path, faults=rules, seed=seed, **MADE) as it:
            return sorted(await asyncio.gather(*map(one, order)))

    first, again, other = await run(asked, 1), await run(shuffled, 1), await run(asked, 2)

    assert again == first
    assert [item[1:2] for item in other] != [item[1:2] for item in first]
    assert {how for _, how, _, _ in first} == {"clean", "rst"}


# What is no fault of one answer


@pytest.mark.parametrize("framed", REQUESTS)
async def test_a_quota_lets_in_what_is_allowed_and_counts_down(tmp_path: Path, framed: str) -> None:
    rules = parse_rules(["quota,requests=2,window=1m"])
    async with proxy("simulate", tmp_path, faults=rules, **MADE) as it:
        request = REQUESTS[framed]
        got = [await wire(it.url, request) for _ in range(3)]
        other = await wire(it.url, request, ("x-llm-proxy-session", "other"))

    assert [raw.status for raw in (*got, other)] == [200, 200, 429, 200]
    assert [raw.is_clean for raw in got] == [True] * 3
    assert [len(entry.faults) for entry in it.journal.entries] == [0, 0, 1, 0]
    counted = [name for name, _ in got[0].headers if "remaining" in name]
    assert bool(counted) is (framed in {"sse", "events", "whole"})


async def test_a_listener_that_refuses_comes_back_on_the_same_port(tmp_path: Path) -> None:
    async with proxy("simulate", tmp_path, **MADE) as it:
        before = await wire(it.url, REQUESTS["sse"])
        await page(it.url, "PUT", {"faults": ["refuse,window=300ms"]})
        with pytest.raises(ConnectionRefusedError):
            await wire(it.url, REQUESTS["sse"])
        after = await _once_open(it.url)

    assert (before.status, after.status) == (200, 200)


async def _once_open(url: str) -> Wire:
    """What is answered as soon as somebody listens."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await wire(url, REQUESTS["sse"])
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)


# What cannot be done


async def test_a_client_of_http_1_0_meets_no_malformed_chunk_in_its_body(tmp_path: Path) -> None:
    about = {"faults": parse_rules(["malformed-chunk,after=1"]), **MADE}
    async with proxy("simulate", tmp_path, **about) as it:
        port = int(it.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asked = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
        head = (
            f"POST /v1/chat/completions HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(asked)}\r\n\r\n"
        )
        writer.write(head.encode() + asked)
        heard = bytearray()
        try:
            while data := await reader.read(65536):
                heard += data
        except ConnectionResetError:
            heard += b"RST"
        writer.close()
    assert heard.startswith(b"HTTP/1.1 200")
    assert b"data: " in heard
    assert b"zz" not in heard


async def test_a_live_answer_whose_rules_make_too_much_work_is_broken_off_and_kept_whole(
    tmp_path: Path,
) -> None:
    pieces = [b"data: {}\n\n" * 400]
    rules = parse_rules(["slice,size=1,delay=0ms"] * 50)
    async with upstream(chunked(pieces)) as provider:
        async with proxy("record", tmp_path, provider.url, faults=rules) as it:
            raw = await ask(it.url, chat())
    assert raw.how == "rst"
    [cassette] = cassettes(tmp_path)
    assert b"".join(read.data for read in cassette.reads) == pieces[0]
    assert cassette.end.ending is Ending.CLEAN
