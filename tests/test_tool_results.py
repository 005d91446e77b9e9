"""The preset `llm-pytest` masks values of a named shape in tool results, and there only."""

from __future__ import annotations

import json
from typing import Any, Final

from case_tables import each_row
from dialect_manners import json_request
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import dialect_of_request, request_dialects
from llm_proxy.exchange import Request
from llm_proxy.matching import KeyDocument, RuleSet, key_document, normalized_document, request_key
from llm_proxy.matching.looser_rules import looser_rules
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.matching.tool_results import RESULT_TIMES_RULE, RUN_VALUES_RULE
from llm_proxy.turns import Text, ToolCall, ToolResult

PRESET: Final = parse_rules(["llm-pytest"])
TIME: Final = "2026-11-22T13:05:09Z"
UUID: Final = "6df1cf23-dcea-4413-9116-c66b27ebf5c8"
ULID: Final = "01KAZ8Q0Y4T7Z9W1V3X5B6C8D0"
OBJECT_ID: Final = "6921e5b1c0a8f2d3b4e5a697"


def stored(request: Request) -> StoredRequest:
    return StoredRequest(request.method, request.path, request.query, request.headers, request.body)


def masked_body(request: Request) -> str:
    """The body after the rule for times in tool results."""
    rules = RuleSet((RESULT_TIMES_RULE,))
    return normalized_document("x", stored(request), rules).document.canonical_body().decode()


RESULT_OF_A_CALL: Final = Conversation(
    (
        RequestMessage("user", (Text(f"Started at {TIME}"),)),
        RequestMessage("assistant", (ToolCall("call_1", "now", json.dumps({"at": TIME})),)),
        RequestMessage("tool", (ToolResult("call_1", f'{{"now": "{TIME}"}}', "now"),)),
    ),
    system=f"It is {TIME}",
    model="us.anthropic.claude-sonnet-5",
)


@each_row("name", [name for name in request_dialects() if name != "openai-completions"])
def test_every_dialect_knows_where_its_tool_results_are(name: str) -> None:
    request = request_dialects()[name].encode_request(RESULT_OF_A_CALL)

    body = masked_body(request)

    assert (body.count("<time>"), body.count(TIME)) == (1, 3)


CLAUDE_RESULT: Final = {"type": "tool_result", "tool_use_id": "t", "content": TIME}


@each_row(
    ("path", "body"),
    [
        ("/v1/messages", {"messages": [{"role": "user", "content": [
            CLAUDE_RESULT | {"content": [{"type": "text", "text": TIME}]}]}]}),
        ("/model/us.anthropic.claude-sonnet-5/invoke",
         {"anthropic_version": "b", "messages": [{"role": "user", "content": [CLAUDE_RESULT]}]}),
        ("/model/openai.gpt-oss-120b/invoke", {"messages": [{"role": "tool", "content": TIME}]}),
        ("/model/us.amazon.nova-2-lite/converse", {"messages": [{"role": "user", "content": [
            {"toolResult": {"toolUseId": "t", "content": [{"json": {"at": TIME}}]}}]}]}),
        ("/v1/chat/completions",
         {"messages": [{"role": "function", "name": "f", "content": TIME}]}),
        ("/v1/responses", {"input": [{"type": "custom_tool_call_output", "output": TIME}]}),
        ("/v1beta/models/m:generateContent",
         {"contents": [{"parts": [{"function_response": {"response": {"at": TIME}}}]}]}),
        ("/v1beta/interactions", {"input": [{"content": [
            {"type": "function_result", "result": {"at": TIME}}]}]}),
        ("/v1/chat", {"message": "", "tool_results": [{"outputs": [{"at": TIME}]}]}),
        ("/v1/chat", {"message": "x", "chat_history": [
            {"role": "TOOL", "tool_results": [{"outputs": [{"at": TIME}]}]}]}),
    ],
)  # fmt: skip
def test_results_in_other_forms_are_found_too(path: str, body: dict[str, Any]) -> None:
    headers = [("user-agent", "cohere-py/5")] if path == "/v1/chat" else []
    request = json_request(path, *headers, prompt=TIME, **body)
    assert dialect_of_request(request).tool_result_json_paths

    masked = masked_body(request)

    assert (masked.count("<time>"), masked.count(TIME)) == (1, 1)


def result_document(result: object, prompt: str = "") -> KeyDocument:
    messages = [{"role": "user", "content": prompt}, {"role": "tool", "content": result}]
    request = json_request("/v1/chat/completions", messages=messages)
    return key_document("openai", stored(request))


def masked_messages(result: object, prompt: str = "") -> tuple[Any, Any]:
    """The prompt and the result after the rules for tool results."""
    document = result_document(result, prompt)
    rules = RuleSet((RUN_VALUES_RULE, RESULT_TIMES_RULE))
    masked = rules.normalize_document(document).document
    assert rules.normalize_document(masked).document == masked
    body: Any = masked.body
    user, tool = body["messages"]
    return user["content"], tool["content"]


@each_row(
    ("result", "after"),
    [
        ('{"at": "2026-11-22T13:05:09Z"}', '{"at": "<time>"}'),
        (r'{\"created\": 1795353909}', r'{\"created\": <time>}'),
        ('{\n "elapsed_ms": 12.5,\n "n": 12.5\n}', '{\n "elapsed_ms": <duration>,\n "n": 12.5\n}'),
        (r'{\"duration_ms\":340}', r'{\"duration_ms\":<duration>}'),
        ({"elapsed_ms": 3, "ms": 3}, {"elapsed_ms": "<duration>", "ms": 3}),
        ('{"elapsed_ms": null}', '{"elapsed_ms": null}'),
        ('{"port": 43121, "ports": 43121}', '{"port": <port-1>, "ports": 43121}'),
        (r'{\"port\":43121}', r'{\"port\":<port-1>}'),
        ({"port": 43121, "count": 43121}, {"count": 43121, "port": "<port-1>"}),
        ({"port": "43121"}, {"port": "<port-1>"}),
        ('{"port": 443, "port": 80}', '{"port": 443, "port": 80}'),
        ({"port": True}, {"port": True}),
        ("http://localhost:43121/ http://localhost:43122/ 127.0.0.1:43121",
         "http://localhost:<port-1>/ http://localhost:<port-2>/ 127.0.0.1:<port-1>"),
        ("http://[::1]:43121 0.0.0.0:43121", "http://[::1]:<port-1> 0.0.0.0:<port-1>"),
        ("?to=http%3A%2F%2F127.0.0.1%3A43121%2F", "?to=http%3A%2F%2F127.0.0.1%3A<port-1>%2F"),
        ("host='127.0.0.1', port=43121", "host='127.0.0.1', port=<port-1>"),
        ("Connect call failed ('127.0.0.1', 43121)", "Connect call failed ('127.0.0.1', <port-1>)"),
        ("connect to 127.0.0.1 port 43121", "connect to 127.0.0.1 port <port-1>"),
        ("http://example.com:43121 10.127.0.0.1:43121 localhost:80 localhost:123456",
         "http://example.com:43121 10.127.0.0.1:43121 localhost:80 localhost:123456"),
        (f"{UUID} {UUID.upper()} {UUID}", "<run-uuid-1> <run-uuid-2> <run-uuid-1>"),
        (f"a {UUID.replace('-', '')}", "a <run-uuid-1>"),
        ("0198c1f0-7c1d-7f3e-8a5b-0c1d2e3f4a5b", "<run-uuid-1>"),
        ("0998c1f0-7c1d-7f3e-8a5b-0c1d2e3f4a5b", "0998c1f0-7c1d-7f3e-8a5b-0c1d2e3f4a5b"),
        ("6df1cf23-dcea-5413-9116-c66b27ebf5c8", "6df1cf23-dcea-5413-9116-c66b27ebf5c8"),
        ("6df1cf23-dcea-4413-7116-c66b27ebf5c8", "6df1cf23-dcea-4413-7116-c66b27ebf5c8"),
        ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
        ("d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e"),
        (f"{ULID} {ULID.lower()}", "<ulid-1> <ulid-2>"),
        ("71KAZ8Q0Y4T7Z9W1V3X5B6C8D0 01KAZ8Q0Y4T7Z9W1V3X5B6C8DU",
         "71KAZ8Q0Y4T7Z9W1V3X5B6C8D0 01KAZ8Q0Y4T7Z9W1V3X5B6C8DU"),
        (f'"/orders/{OBJECT_ID}" ord_{OBJECT_ID}', '"/orders/<object-id-1>" ord_<object-id-1>'),
        ("1921e5b1c0a8f2d3b4e5a697 692123451234512345123451",
         "1921e5b1c0a8f2d3b4e5a697 692123451234512345123451"),
        ("2ef7bde608ce5404e97d5f042f95f89f1c232871", "2ef7bde608ce5404e97d5f042f95f89f1c232871"),
        ("HTTP 200, 3 items, $12.50, v1.2.3", "HTTP 200, 3 items, $12.50, v1.2.3"),
    ],
)  # fmt: skip
def test_only_values_of_a_named_shape_are_masked(result: object, after: object) -> None:
    assert masked_messages(result)[1] == after


def test_a_value_has_its_alias_wherever_it_occurs() -> None:
    prompt = f"{ULID} {OBJECT_ID} port=43121 port=43122 {TIME} elapsed_ms=3"

    masked, _ = masked_messages(f'{{"id": "{ULID}", "port": 43121}}', prompt)

    assert masked == f"<ulid-1> {OBJECT_ID} port=<port-1> port=43122 {TIME} elapsed_ms=3"


def test_of_a_prompt_only_loopback_ports_and_uuids_are_masked() -> None:
    prompt = f"http://127.0.0.1:43121 {UUID} {ULID} {TIME}"

    assert masked_messages("ok", prompt)[0] == (
        f"http://127.0.0.1:<port-1> <run-uuid-1> {ULID} {TIME}"
    )


@each_row(
    ("first", "second", "is_same"),
    [
        (f"{UUID} {ULID} {ULID}", f"{UUID} {ULID[:-1]}1 {ULID[:-1]}1", True),
        (f"{ULID} {ULID}", f"{ULID} {ULID[:-1]}1", False),
        ("localhost:43121 localhost:43121", "localhost:43121 localhost:43122", False),
        ("localhost:43121", "127.0.0.1:43121", False),
        (UUID, ULID, False),
        (ULID, "", False),
        (ULID, "null", False),
    ],
)
def test_another_value_where_the_same_one_was_counts(
    first: str, second: str, is_same: bool
) -> None:
    assert (masked_messages(first) == masked_messages(second)) is is_same


@each_row(
    "text",
    [
        "127.0.0.1:", "localhost%3A", "port=4", 'port\\\\"', "%2F", "01KAZ8Q0Y4", "6921e5b1",
        "6df1cf23-dcea-4413-9116-", "elapsed_ms=", "elapsed_ms=1.", "_", ULID, f"a_{ULID} ",
        "localhost:43121 ", "# Environment\nYou have been invoked in the following environment: \n",
        "# Environment\nYou have been invoked in the following environment: \n - a\n",
    ],
)  # fmt: skip
def test_hostile_results_take_no_longer_than_others(text: str) -> None:
    assert_linear(
        lambda size: PRESET.normalize_document(result_document(text * (size // len(text)))), 16_000
    )


ENVIRONMENT: Final = (
    "# Environment\nYou have been invoked in the following environment: \n"
    " - Primary working directory: {folder}\n - Is a git repository: {git}\n"
    " - Platform: {platform}\n - Shell: bash\n - OS Version: {version}\n"
    " - In `curl`, send untrusted values with `--form-string`, not `-F`.\n\n"
    "You are powered by the model named Opus 5.5.\n\nToday's date is {day}."
)
MAC: Final = ENVIRONMENT.format(
    folder="/Users/ann/shop", git="true", platform="darwin", version="Darwin 25.1", day="2026-11-28"
)
LINUX: Final = ENVIRONMENT.format(
    folder="/builds/7/shop", git="false", platform="linux", version="Linux 6.18", day="2026-12-24"
)


def claude_code_request(
    environment: str,
    *billing_headers: str,
    beta: str = "claude-code-20250219",
    task: str = "Run the test.",
    result: str = "/builds/7/shop/a.txt",
    display: str = "omitted",
    **metadata: str,
) -> Request:
    """A request of Claude Code, which sends its environment as a message."""
    texts = [*billing_headers, "You carry out a test."]
    return json_request(
        "/v1/messages",
        ("anthropic-beta", beta),
        model="claude-opus-5-5",
        metadata=metadata,
        thinking={"type": "adaptive", "display": display},
        system=[{"type": "text", "text": text} for text in texts],
        messages=[
            {"role": "user", "content": task},
            {"role": "system", "content": environment},
            {"role": "user", "content": [CLAUDE_RESULT | {"content": result}]},
        ],
    )


def claude_code_key(request: Request) -> str:
    return request_key("anthropic", stored(request), PRESET)


ON_LINUX: Final = claude_code_request(LINUX)


def test_a_recording_of_claude_code_on_a_mac_matches_on_linux() -> None:
    recorded = claude_code_request(
        MAC,
        "x-anthropic-billing-header: cc_version=2.1.330.74b; cc_entrypoint=sdk-cli;",
        beta="claude-code-20250219,oauth-2025-04-20",
        result="/Users/ann/shop/a.txt",
        display="updates",
        user_id='{"device_id":"71dd"}',
    )

    assert claude_code_key(recorded) == claude_code_key(ON_LINUX)


@each_row(
    "changes",
    [
        {"task": "Run another test."},
        {"result": "/builds/7/shop/b.txt"},
        {"environment": LINUX.replace("Opus", "Sonnet")},
        {"environment": f"Another note.\n{LINUX}"},
    ],
)
def test_what_claude_code_is_given_counts(changes: dict[str, str]) -> None:
    other = claude_code_request(**{"environment": LINUX, **changes})

    assert claude_code_key(other) != claude_code_key(ON_LINUX)


@each_row(
    ("rule", "looser"),
    [
        ("llm-pytest", None), ("claude-code", None), ("codex", None), ("uuids", None),
        ("paths", None), ("call-ids", None), ("ignore=$.metadata.trace", None),
        ("ignore=$['user']", None), ("redact=email", None), ("redact=$.metadata.user", None),
        ("no-redact=jwt", None),
        ("timestamps", "normalise"), ("whitespace", "normalise"), ("regex=a", "normalise"),
        ("ignore=$.messages[*].content", "normalise"), ("ignore=$['tools'][0]", "normalise"),
        ("ignore=$.metadata['a','b']", None), ("ignore=$['metadata','input']", "normalise"),
        ("ignore=$[?@.role]", "normalise"), ("ignore=$[*].content", "normalise"),
        ("redact=total", None), ("redact=regex=a", None),
    ],
)  # fmt: skip
def test_rules_that_could_hide_a_changed_result_are_looser(rule: str, looser: str | None) -> None:
    assert [*looser_rules(parse_rules([rule]))] == ([(looser, rule)] if looser else [])
