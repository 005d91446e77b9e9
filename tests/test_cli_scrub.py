"""`llm-proxy scrub`: a cassette without its secrets still answers its request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

import sample_cassettes
from case_tables import each_row
from cassette_builders import split_at
from cli_process import run_command
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette import Cassette, encode_cassette, parse_cassette
from llm_proxy.exchange import Headers
from llm_proxy.redaction import DEFAULT_REDACTION, OPERATOR_PLACEHOLDER, operator_secrets
from llm_proxy.scanning import SecretScan
from llm_proxy.scrubbing import Scrubbing
from raw_http import send_request
from stored_cassettes import (
    DONE_EVENT,
    SSE_HEAD,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)

KEY: Final = "sk-ant-" + "api03-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8v"
OTHER: Final = "sk-ant-" + "api03-" + "zY9xW8vU7tS6rQ5pO4nM3lK2jI1h"
SCAN: Final = SecretScan(DEFAULT_REDACTION, DEFAULT_REDACTION.finder())


def unredacted(path: Path, content: str) -> Path:
    """Put the request in a cassette back as it was before its redaction, under its old key."""
    cassette = parse_cassette(str(path), path.read_bytes())
    body = cassette.request.body.replace(b"[redacted:anthropic-key]", content.encode())
    old_key = content[-16:].encode().hex() * 2
    meta = msgspec.structs.replace(cassette.meta, key=old_key, redaction_rules_version=1)
    request = replace(cassette.request, body=body, redacted_count=0)
    target = path.with_name(f"{old_key[:16]}-1.jsonl")
    path.unlink()
    target.write_bytes(encode_cassette(replace(cassette, meta=meta, request=request)))
    return target


def write_with_secret(folder: Path, key: str, response: StoredResponse) -> Path:
    """Write a cassette whose request holds a key, as before there were rules for its shape."""
    [path] = write_cassettes(folder, raw_chat_request(key), response)
    return unredacted(path, key)


async def test_a_scrubbed_cassette_answers_its_request(tmp_path: Path) -> None:
    path = write_with_secret(tmp_path, KEY, text_response("It is ", KEY[:12], KEY[12:], "."))
    path.chmod(0o644)
    before = path.read_bytes()

    dry = await run_command("scrub", folder=tmp_path)
    assert path.read_bytes() == before
    result = await run_command("scrub", "--write", folder=tmp_path)

    new_path = path.with_name(f"{key_of_request(raw_chat_request(KEY))[:16]}-1.jsonl")
    line = f"{path.relative_to(tmp_path)} -> {new_path.name}: anthropic-key 2\n"
    assert (dry.exit_code, result.exit_code) == (1, 0)
    assert dry.stdout == result.stdout == line
    assert dry.last_error_line == (
        "llm-proxy: would scrub 1 cassette; run with --write to change the files"
    )
    assert result.stderr.splitlines() == [
        "llm-proxy: 1 cassette scrubbed",
        (
            "llm-proxy: revoke each secret that other people may have seen, "
            "for example in the git history"
        ),
    ]
    assert not path.exists()
    assert new_path.stat().st_mode & 0o777 == 0o644
    [cassette] = load_cassettes(tmp_path)
    assert cassette.meta.redaction_rules_version == 3
    assert (cassette.request.redacted_count, cassette.response_end.redacted_count) == (1, 1)
    assert KEY[14:].encode() not in new_path.read_bytes()
    async with proxy("replay", tmp_path) as server:
        answer = await send_request(server.url, raw_chat_request(KEY))
    assert (answer.status, b"[redacted:anthropic-key]" in answer.body) == (200, True)
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0
    assert (await run_command("scan", "--strict", folder=tmp_path)).exit_code == 0
    again = await run_command("scrub", folder=tmp_path)
    assert (again.exit_code, again.stdout) == (0, "")


async def test_requests_that_differed_in_a_secret_become_takes(tmp_path: Path) -> None:
    first = write_with_secret(tmp_path, KEY, text_response("1"))
    second = write_with_secret(tmp_path, OTHER, text_response("2"))
    sample_cassettes.replace_in_file(second, "2026-01-01", "2026-01-02")

    result = await run_command("scrub", "--write", folder=tmp_path)

    assert result.exit_code == 0
    joined = result.stdout.splitlines()[-1]
    assert joined.startswith("these cassettes become takes of the same request: ")
    assert first.name in joined
    assert second.name in joined
    async with proxy("replay", tmp_path) as server:
        bodies = [
            (await send_request(server.url, raw_chat_request(key))).body for key in (OTHER, KEY)
        ]
    assert bodies == response_bodies([text_response("1"), text_response("2")])


async def test_a_cassette_of_older_rules_without_secrets_gets_a_new_first_line_alone(
    tmp_path: Path,
) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    after = path.read_bytes()
    sample_cassettes.replace_in_file(path, '"redaction_rules":3', '"redaction_rules":1')

    result = await run_command("scrub", "--write", "--json", str(path), folder=tmp_path)

    name = str(path.relative_to(tmp_path))
    assert json.loads(result.stdout)["changed"] == [
        {"file": name, "new_file": name, "key": key_of_request(raw_chat_request()),
         "replaced": {}}
    ]  # fmt: skip
    assert path.read_bytes() == after


async def test_a_file_leaves_the_folder_that_is_called_like_an_account(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    account = "12345" + "6789012"
    model = f"arn:aws:bedrock:us-east-1:{account}:inference-profile/a"
    sample_cassettes.replace_in_file(path, '"model":"m","session"', f'"model":"{model}","session"')
    folder = path.parents[1] / f"arn-aws-bedrock-us-east-1-{account}-inference-profile-a"
    path.parent.rename(folder)

    await run_command("scrub", "--write", folder=tmp_path)

    [new_path] = tmp_path.rglob("*.jsonl")
    [cassette] = load_cassettes(tmp_path)
    assert cassette.meta.model == model.replace(account, "[redacted:aws-account]")
    assert new_path.parent.name == folder.name.replace(account, "redacted-aws-account")
    assert not folder.exists()
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0


async def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(KEY)

    result = await run_command("scrub", "--write", "vcr.yaml", folder=tmp_path)

    assert result.exit_code == 2
    assert (
        "vcr.yaml is not a cassette; edit the file to remove its secrets" in result.last_error_line
    )
    assert (tmp_path / "vcr.yaml").read_text() == KEY


async def test_what_cannot_be_scrubbed_is_named_and_stays(tmp_path: Path) -> None:
    torn = sample_cassettes.write_truncated(tmp_path)
    path = sample_cassettes.write_complete(tmp_path)
    sample_cassettes.replace_in_file(path, '"tool":"by hand"', f'"tool":"{KEY}"')
    before = [torn.read_bytes(), path.read_bytes()]

    result = await run_command("scrub", "--write", folder=tmp_path)

    assert result.exit_code == 1
    assert (
        sorted(line.partition(": ")[0] for line in result.stdout.splitlines()) == ["unchanged"] * 2
    )
    assert (
        f"{path.relative_to(tmp_path)}:1: cannot replace a secret in this cassette; "
        "delete the cassette" in result.stdout
    )
    assert [torn.read_bytes(), path.read_bytes()] == before


# --- each part of a cassette --------------------------------------------------------------------


def stored_cassette(folder: Path, *pieces: bytes, headers: Headers = ()) -> Cassette:
    head = replace(SSE_HEAD, headers=(*SSE_HEAD.headers, *headers))
    response = StoredResponse(
        tuple((10.0 * number, piece) for number, piece in enumerate(pieces, 1)), head=head
    )
    [path] = write_cassettes(folder, raw_chat_request("hi"), response)
    return parse_cassette(str(path), path.read_bytes())


def scrub(cassette: Cassette, environment: bytes = b"") -> Cassette:
    known = operator_secrets([environment] if environment else [])
    scrubbed = Scrubbing(DEFAULT_REDACTION, known).scrub(cassette)
    assert parse_cassette(cassette.file, encode_cassette(scrubbed)) == scrubbed
    return scrubbed


def test_a_clean_cassette_is_the_same_object(tmp_path: Path) -> None:
    cassette = stored_cassette(tmp_path, chat_event("Hello"), DONE_EVENT)

    assert scrub(cassette) is cassette


def test_headers_and_reason_are_those_of_a_recording(tmp_path: Path) -> None:
    cassette = stored_cassette(
        tmp_path, DONE_EVENT, headers=(("set-cookie", "a=b"), ("x-request-id", "1"), ("etag", KEY))
    )
    request = replace(cassette.request, headers=(("Accept", "*/*"), ("x-team", "a")))

    scrubbed = scrub(replace(cassette, request=request))

    assert scrubbed.request.headers == (("accept", "*/*"),)
    assert scrubbed.response_head.headers[1:] == (
        ("x-request-id", "[redacted]"), ("etag", "[redacted:anthropic-key]"),
    )  # fmt: skip
    assert scrubbed.meta.key == key_of_request(raw_chat_request("hi"))


@each_row("cuts", [[], [70], [90, 100], [20, 95, 140]])
def test_reads_and_times_stay_wherever_a_read_ended(tmp_path: Path, cuts: list[int]) -> None:
    body = chat_event("It is") + b": " + KEY.encode() + b"\n\n" + DONE_EVENT
    cassette = stored_cassette(tmp_path, *split_at(body, cuts))

    scrubbed = scrub(cassette)

    assert scrubbed.response_body == body.replace(KEY.encode(), b"[redacted:anthropic-key]")
    assert {read.at_ms for read in scrubbed.reads} <= {read.at_ms for read in cassette.reads}
    assert scrubbed.response_end.redacted_count == 1


def test_a_secret_of_the_environment_leaves_the_key_as_it_was(tmp_path: Path) -> None:
    secret = "tops3cr3t" + "x9k2m4q8"
    [path] = write_cassettes(tmp_path, raw_chat_request(secret), text_response(secret))
    cassette = parse_cassette(str(path), path.read_bytes())

    scrubbed = scrub(cassette, secret.encode())

    assert scrubbed.meta.key == cassette.meta.key
    assert OPERATOR_PLACEHOLDER.encode() in scrubbed.request.body
    assert OPERATOR_PLACEHOLDER.encode() in scrubbed.response_body


def test_a_request_that_was_redacted_after_its_key_was_computed_keeps_the_key(
    tmp_path: Path,
) -> None:
    content = f"{OPERATOR_PLACEHOLDER} [redacted:anthropic-key]"
    [path] = write_cassettes(tmp_path, raw_chat_request(content), text_response("1"))
    path = unredacted(path, KEY)
    cassette = parse_cassette(str(path), path.read_bytes())

    scrubbed = scrub(cassette)

    assert KEY.encode() not in scrubbed.request.body
    assert scrubbed.meta.key == cassette.meta.key


def test_rules_of_another_version_leave_the_key_as_it_was(tmp_path: Path) -> None:
    path = write_with_secret(tmp_path, KEY, text_response("1"))
    cassette = parse_cassette(str(path), path.read_bytes())
    meta = msgspec.structs.replace(cassette.meta, match_rules=("uuids@99",))

    scrubbed = scrub(replace(cassette, meta=meta))

    assert scrubbed.meta.key == meta.key
    assert scrubbed.meta.match_rules == ("uuids@99",)


def test_a_scan_finds_nothing_in_the_shipped_cassettes() -> None:
    root = Path(__file__).parents[1]
    paths = [*root.glob("cassettes/**/*.jsonl"), root / "proxy/llm_proxy/shell/demo.jsonl"]
    assert len(paths) > 10
    for path in paths:
        scan = SCAN.scan_file(str(path), path.read_bytes())
        assert (scan.findings, scan.has_older_rules, scan.error) == ((), False, None), path
