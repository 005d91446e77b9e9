"""`llm-proxy show`: one cassette with its contents and its timing."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import orjson
import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import run_command, start_command_on
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request
from stored_cassettes import (
    DONE_EVENT,
    SSE_HEAD,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    text_response,
    write_cassettes,
)
from terminal import run_on_terminal

KEY = key_of_request(raw_chat_request("hi"))
ARRIVAL = re.compile(r" +\d+ +\d+\.\d\d ")
"""The start of a message's row."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""The escape sequences of our colours; no other escape sequence may reach a terminal."""

TOOL_CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":'
    b'{"name":"weather","arguments":"{\\"city\\":\\"Bonn\\"}"}}]}}]}\n\n'
)
REASONING = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Let me see."}}]}\n\n'
REFUSAL = b'data: {"choices":[{"index":0,"delta":{"refusal":"No."}}]}\n\n'
END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],'
    b'"usage":{"prompt_tokens":1234,"completion_tokens":5,"total_tokens":1239}}\n\n'
)
ERROR = b'data: {"error":{"message":"overloaded","type":"server_error","code":"503"}}\n\n'


def write_stream(folder: Path, *pieces: bytes) -> Path:
    """Write a cassette with these events, 10 ms apart."""
    reads = tuple((10.0 * number, piece) for number, piece in enumerate(pieces, 1))
    return write_cassettes(folder, raw_chat_request("hi"), StoredResponse(reads))[0]


async def show_stdout(folder: Path, *arguments: str) -> str:
    result = await run_command("show", *(arguments or (KEY[:6],)), folder=folder)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def stdout_bytes(*arguments: str, folder: Path) -> bytes:
    """The bytes that `llm-proxy` writes to a file."""
    path = folder / "stdout"
    with path.open("wb") as out, Path(os.devnull).open() as empty:
        descriptors = (empty.fileno(), out.fileno(), out.fileno())
        assert start_command_on(descriptors, *arguments, folder=folder)() == 0
    return path.read_bytes()


def named_rows(text: str) -> dict[str, str]:
    """The rows that begin with a name, by that name."""
    rows = re.findall(r"^(\w[\w ]{0,10}?)  +(\S.*)$", text, re.MULTILINE)
    return dict(rows)


async def test_a_cassette_shows_request_response_and_ending(
    tmp_path: Path,
) -> None:
    path = sample_cassettes.write_complete(tmp_path, "Hel", "lo", content="Say hello.")

    text = await show_stdout(tmp_path, "openai")

    rows = named_rows(text)
    assert text.splitlines()[0] == str(path.relative_to(tmp_path))
    assert rows["outcome"] == "complete  ([DONE])"
    assert rows["dialect"] == "openai-chat, provider openai, model m"
    assert rows["session"] == "default"
    assert rows["key"].startswith(key_of_request(raw_chat_request("Say hello.")))
    assert rows["request"] == "POST /v1/chat/completions  (79 bytes)"
    assert rows["response"] == "200 OK  (after 0.00 ms; chunked, sse)"
    assert rows["text"] == "Hello"
    assert rows["finish"] == "none: the response ended without a finish reason"
    assert rows["timeline"] == "3 messages in 3 reads, 131 bytes"
    assert rows["ending"] == "clean after 60 ms, 131 bytes"
    assert (
        rows["sha256"]
        == hashlib.sha256(Library(tmp_path).load_cassette(path).response_body).hexdigest()
    )
    assert "            user: Say hello.\n" in text


async def test_every_part_of_a_turn_is_shown(tmp_path: Path) -> None:
    write_stream(tmp_path, REASONING, chat_event("Aha."), TOOL_CALL, REFUSAL, END, DONE_EVENT)

    rows = named_rows(await show_stdout(tmp_path))

    assert rows["reasoning"] == "Let me see."
    assert rows["text"] == "Aha."
    assert rows["tool call"] == "weather call_1"
    assert rows["refusal"] == "No."
    assert rows["finish"] == "tool_calls"
    assert rows["usage"] == "1,234 input, 5 output, 1,239 total (tokens)"


async def test_the_arguments_of_a_tool_call_stand_as_the_model_wrote_them(tmp_path: Path) -> None:
    write_stream(tmp_path, TOOL_CALL, END, DONE_EVENT)
    text = await show_stdout(tmp_path)
    assert 'tool call   weather call_1\n            {"city":"Bonn"}\n' in text


async def test_the_provider_s_own_error_is_shown(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("Hel"), ERROR)
    assert named_rows(await show_stdout(tmp_path))["error"] == "overloaded (server_error, 503)"


async def test_several_choices_are_several_turns(tmp_path: Path) -> None:
    other = chat_event("Two").replace(b'"index":0', b'"index":1')
    write_stream(tmp_path, chat_event("One"), other, DONE_EVENT)
    text = await show_stdout(tmp_path)
    assert re.findall(r"^turn +(.*)\ntext +(.*)$", text, re.MULTILINE) == [
        ("1 of 2", "One"),
        ("2 of 2", "Two"),
    ]


async def test_the_timeline_has_the_arrival_the_gap_and_the_share_of_each_message(
    tmp_path: Path,
) -> None:
    first, second = chat_event("Hel"), chat_event("lo")
    reads = ((5.0, first + second[:10]), (45.0, second[10:]), (50.0, DONE_EVENT))
    write_cassettes(tmp_path, raw_chat_request("hi"), StoredResponse(reads))

    text = await show_stdout(tmp_path)

    rows = [row.split() for row in text.splitlines() if ARRIVAL.match(row)]
    assert [row[:3] for row in rows] == [
        ["1", "5.00", "5.00"],
        ["2", "45.00", "40.00"],
        ["3", "50.00", "5.00"],
    ]
    assert [row[3] for row in rows] == ["█▎", "█" * 10, "█▎"]
    assert [row[4] for row in rows[:2]] == ['"Hel"', '"lo"']
    assert rows[2][4:] == ["data:", "[DONE]⏎⏎"]
    assert "3 messages in 3 reads" in text


@pytest.mark.parametrize("full", [False, True], ids=["cut", "full"])
async def test_a_long_stream_is_cut_unless_all_of_it_is_asked_for(
    tmp_path: Path, full: bool
) -> None:
    sample_cassettes.write_complete(tmp_path, *[f"line {number}\\n" for number in range(40)])

    text = await show_stdout(tmp_path, KEY[:6], *(["--full"] if full else []))

    messages = [row for row in text.splitlines() if ARRIVAL.match(row)]
    assert len(messages) == (41 if full else 25)
    assert ("… 16 more messages (set --full to show all)" in text) != full
    assert ("more characters (set --full to show all)" in text) != full
    assert ("line 39" in text) == full or "line 39" in messages[-2]


async def test_messages_alone_are_raw_and_whole(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("x" * 5000), b": ping\n\n", DONE_EVENT)
    text = await show_stdout(tmp_path, KEY[:6], "--messages")
    assert text == (chat_event("x" * 5000) + b": ping\n\n" + DONE_EVENT).decode()


def test_the_body_is_written_byte_for_byte(tmp_path: Path) -> None:
    body = bytes(range(256)) * 3
    head = ResponseHead(
        200, "OK", (("Content-Type", "application/octet-stream"),), "length", len(body)
    )
    write_cassettes(
        tmp_path,
        raw_chat_request("hi"),
        StoredResponse(((1.0, body[:100]), (2.0, body[100:])), head=head),
    )

    assert stdout_bytes("show", KEY[:6], "--body", folder=tmp_path) == body


async def test_json_holds_everything(tmp_path: Path) -> None:
    write_stream(tmp_path, REASONING, TOOL_CALL, END, DONE_EVENT)

    document = json.loads(await show_stdout(tmp_path, KEY[:6], "--json"))

    assert document["key"] == KEY
    assert document["outcome"]["text"] == "complete"
    assert document["request"]["json"]["messages"] == [{"role": "user", "content": "hi"}]
    assert document["response"]["status"] == 200
    [turn] = document["turns"]
    assert turn["finish"] == "tool_calls"
    assert turn["usage"] == {"input": 1234, "output": 5, "total": 1239}
    assert turn["parts"] == [
        {"type": "reasoning", "text": "Let me see."},
        {
            "type": "tool_call",
            "id": "call_1",
            "name": "weather",
            "arguments": '{"city":"Bonn"}',
        },
    ]
    arrivals = [(entry["at"], entry["gap"], entry["reads"]) for entry in document["messages"]]
    assert arrivals == [
        (10.0, 10.0, 1), (20.0, 10.0, 1), (30.0, 10.0, 1), (40.0, 10.0, 1),
    ]  # fmt: skip
    assert document["messages"][3]["text"] == "data: [DONE]\n\n"
    assert [read["at"] for read in document["reads"]] == [10.0, 20.0, 30.0, 40.0]
    assert document["end"]["ending"] == "clean"


async def test_an_opaque_answer_without_a_body_can_be_shown(tmp_path: Path) -> None:
    request = build_http_request("/v1/things/1", b"", method="DELETE")
    write_cassettes(
        tmp_path,
        request,
        StoredResponse((), head=ResponseHead(204, "No Content", (), "none"), head_at=3.0),
    )

    text = await show_stdout(tmp_path, "opaque")

    rows = named_rows(text)
    assert rows["request"] == "DELETE /v1/things/1  (no body)"
    assert rows["turns"] == "none: this response cannot be decoded as opaque"
    assert rows["timeline"] == "0 messages in 0 reads, 0 bytes"


async def test_frames_of_an_event_stream_are_shown_as_their_type_and_payload(
    tmp_path: Path,
) -> None:
    head = ResponseHead(
        200, "OK", (("Content-Type", "application/vnd.amazon.eventstream"),), "chunked"
    )
    delta_frame = encode_frame([(":event-type", "contentBlockDelta")], b'{"delta":{"text":"Hi"}}')
    exception_frame = encode_frame(
        [(":exception-type", "throttlingException")], b'{"message":"slow"}'
    )
    error_frame = encode_frame([(":error-code", "500"), (":error-message", "lost")], b"")
    pieces = (delta_frame, exception_frame, error_frame, b"no frame")
    reads = tuple((10.0 * number, piece) for number, piece in enumerate(pieces, 1))
    write_cassettes(
        tmp_path,
        build_http_request("/model/m/converse-stream", b"{}"),
        StoredResponse(reads, head=head),
    )

    text = await show_stdout(tmp_path, "bedrock", "--full")

    rows = [row for row in text.splitlines() if ARRIVAL.match(row)]
    expected_ends = [
        'contentBlockDelta {"delta":{"text":"Hi"}}',
        'throttlingException {"message":"slow"}',
        "500 lost",
        "no frame",
    ]
    assert [row.endswith(f" {end}") for row, end in zip(rows, expected_ends, strict=True)] == [
        True
    ] * 4


async def test_a_truncated_recording_shows_how_it_ended(tmp_path: Path) -> None:
    sample_cassettes.write_partial(tmp_path)
    rows = named_rows(await show_stdout(tmp_path, "openai"))
    assert rows["outcome"] == "partial: the upstream reset the connection"
    assert rows["ending"].startswith("rst after 9.50 ms")


class TestCassetteNames:
    @each_row(
        "name",
        [
            "cassettes/openai-chat/m/{k}-1.jsonl",
            "openai-chat/m/{k}-1.jsonl",
            "openai-chat/m/{k4}",
            "{k}-1.jsonl",
            "{k}-1",
            "{k4}",
            "{key}",
            "{key20}",
        ],
    )
    async def test_a_cassette_has_many_names(self, tmp_path: Path, name: str) -> None:
        sample_cassettes.write_complete(tmp_path)
        sample_cassettes.write_partial(tmp_path)
        name = name.format(k=KEY[:16], k4=KEY[:4], key=KEY, key20=KEY[:20])
        assert named_rows(await show_stdout(tmp_path, name))["text"] == "Hello"

    async def test_a_whole_name_wins_over_names_that_begin_with_it(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request("hi"),
            *(text_response(str(number)) for number in range(1, 12)),
        )
        assert named_rows(await show_stdout(tmp_path, f"{KEY[:16]}-1"))["text"] == "1"

    async def test_an_ambiguous_name_says_which_there_are(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request("hi"), text_response("a"), text_response("b"))

        result = await run_command("show", KEY[:4], folder=tmp_path)

        assert (result.exit_code, result.stdout) == (2, "")
        name = f"openai-chat/m/{KEY[:16]}"
        assert result.stderr == (
            f"llm-proxy: error: '{KEY[:4]}' matches 2 cassettes: {name}-1.jsonl, "
            f"{name}-2.jsonl; enter a longer part of the name\n"
        )

    async def test_a_wrong_name_says_which_is_nearest(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path)
        result = await run_command("show", f"{KEY[:14]}zz-1", folder=tmp_path)
        assert result.exit_code == 2
        assert f"did you mean openai-chat/m/{KEY[:16]}-1.jsonl?" in result.last_error_line

    async def test_a_key_of_another_request_is_not_taken_for_this_one(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path)
        result = await run_command("show", KEY[:16] + "0" * 48, folder=tmp_path)
        assert result.exit_code == 2
        assert result.last_error_line.startswith("llm-proxy: error: no cassette")

    @each_row(
        ("arguments", "message"),
        [
            (["abc"], "no cassettes in ./cassettes; record one with llm-proxy record"),
            (["."], "is a folder; run llm-proxy ls --cassettes . to list"),
            ([], "missing argument CASSETTE; "),
            (["abc", "--body", "--json"], "cannot be combined"),
        ],
        ids=["empty library", "folder", "nothing", "two forms"],
    )
    async def test_bad_arguments_are_reported_in_one_sentence(
        self, tmp_path: Path, arguments: list[str], message: str
    ) -> None:
        result = await run_command("show", *arguments, folder=tmp_path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1

    async def test_a_torn_file_is_refused_with_its_line(self, tmp_path: Path) -> None:
        path = sample_cassettes.write_truncated(tmp_path)
        result = await run_command("show", str(path), folder=tmp_path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (
            result.stderr
            == f"llm-proxy: error: {path}:7: the file is truncated: the last line is incomplete\n"
        )


class TestHostileText:
    @pytest.fixture
    def hostile_cassette(self, tmp_path: Path) -> Path:
        """A cassette in which every free text contains terminal escape sequences."""
        quoted = orjson.dumps(sample_cassettes.TERMINAL_ESCAPE + "\u202e\x9b31m").decode()[1:-1]
        raw_event = f"event: {sample_cassettes.TERMINAL_ESCAPE}\ndata: \x9b31m\u202e\n\n".encode()
        head = ResponseHead(200, "OK", (*SSE_HEAD.headers, ("X-Title", "\x9b31m")), "chunked")
        request = raw_chat_request(quoted)
        reads = (
            (1.0, chat_event(quoted)),
            (2.0, raw_event),
            (3.0, TOOL_CALL.replace(b"Bonn", b"\\u001b[2J")),
        )
        return write_cassettes(tmp_path, request, StoredResponse(reads, Ending.FIN, head=head))[0]

    @each_row("options", [[], ["--full"], ["--messages"], ["--json"]])
    def test_no_escape_sequence_of_a_recording_reaches_the_terminal(
        self, tmp_path: Path, hostile_cassette: Path, options: list[str]
    ) -> None:
        code, text = run_on_terminal("show", str(hostile_cassette), *options, folder=tmp_path)

        assert code == 0
        plain_text = STYLES.sub("", text)
        assert "owned" in plain_text
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(plain_text)

    async def test_no_escape_sequence_reaches_a_pipe(
        self, tmp_path: Path, hostile_cassette: Path
    ) -> None:
        text = await show_stdout(tmp_path, str(hostile_cassette))
        assert "\\x1b]0;owned\\x07" in text
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)

    def test_a_body_that_a_terminal_would_obey_is_refused_there(
        self, tmp_path: Path, hostile_cassette: Path
    ) -> None:
        code, text = run_on_terminal("show", str(hostile_cassette), "--body", folder=tmp_path)
        assert code == 2
        assert "\x1b" not in text
        assert "redirect the output to a file or a pipe" in text

    def test_a_harmless_body_is_printed_on_a_terminal(self, tmp_path: Path) -> None:
        path = sample_cassettes.write_complete(tmp_path)
        code, text = run_on_terminal("show", str(path), "--body", folder=tmp_path)
        assert code == 0
        assert text.endswith("data: [DONE]\r\n\r\n")


class TestTerminalOutput:
    def test_a_terminal_gets_colours_and_lines_that_fit(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path)
        code, text = run_on_terminal("show", KEY[:6], folder=tmp_path, columns=80)
        assert code == 0
        assert "\x1b[32mcomplete" in text
        rows = [row for row in STYLES.sub("", text).splitlines() if ARRIVAL.match(row)]
        assert len(rows) == 3
        assert max(map(len, rows)) <= 80

    @each_row("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    @each_row("command", ["show", "ls"])
    def test_colours_can_be_declined(
        self, tmp_path: Path, command: str, env: dict[str, str]
    ) -> None:
        sample_cassettes.write_complete(tmp_path)
        arguments = [KEY[:6]] if command == "show" else []
        code, text = run_on_terminal(command, *arguments, folder=tmp_path, env=env)
        assert code == 0
        assert "complete" in text
        assert "\x1b" not in text

    async def test_an_ascii_terminal_gets_ascii(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path, "漢字")
        result = await run_command(
            "show", KEY[:6], folder=tmp_path, env={"PYTHONIOENCODING": "ascii"}
        )
        assert result.exit_code == 0
        assert result.stdout.isascii()
        assert "#" * 10 in result.stdout
        assert "\\u6f22\\u5b57" in result.stdout

    def test_a_list_on_a_terminal_is_drawn_and_omits_columns(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path)
        code, text = run_on_terminal("ls", folder=tmp_path, columns=80)
        assert code == 0
        plain_text = STYLES.sub("", text)
        assert "STATUS" in plain_text
        assert "DIALECT" not in plain_text
        assert f"openai-chat/m/{KEY[:16]}-1.jsonl" in plain_text
