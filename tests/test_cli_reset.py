"""`llm-proxy reset`: restarts a session of a running proxy."""

from __future__ import annotations

from pathlib import Path

from case_tables import each_row
from cli_process import run_command, running_server
from raw_http import send_request
from stored_cassettes import raw_chat_request, response_bodies, text_response, write_cassettes


async def _next_body(url: str, session: str = "") -> bytes:
    path = f"/@{session}/v1/chat/completions" if session else "/v1/chat/completions"
    return (await send_request(url, raw_chat_request(path=path))).body


@each_row(
    ("default_session", "arguments", "reset_session"),
    [("default", [], ""), ("mine", [], ""), ("default", ["other"], "other")],
)
async def test_the_next_request_of_a_session_gets_the_first_take_again(
    tmp_path: Path, default_session: str, arguments: list[str], reset_session: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("1"), text_response("2"))
    first, second = response_bodies([text_response("1"), text_response("2")])
    options = ("--pace", "instant", "--session", default_session)
    async with running_server("replay", *options, folder=tmp_path) as server:
        before = [await _next_body(server.url, each) for each in ("", "other")]
        # A path such as /v1 is for clients.
        env = {"LLM_PROXY_URL": f"{server.url}/v1"}
        result = await run_command("reset", *arguments, folder=tmp_path, env=env)
        after = {each: await _next_body(server.url, each) for each in ("", "other")}
    assert before == [first, first]
    assert after == {"": second, "other": second} | {reset_session: first}
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        (
            f"llm-proxy: reset session {reset_session or default_session} of llm-proxy replay on "
            f"{server.url}, cassettes in {tmp_path}/cassettes\n"
        ),
    )


@each_row(
    ("arguments", "url", "message"),
    [
        (
            [],
            "http://127.0.0.1:1",
            (
                "http://127.0.0.1:1/_proxy/health: no response (Connection refused); start "
                "llm-proxy, or set LLM_PROXY_URL to the URL of a running llm-proxy"
            ),
        ),
        ([], "here", "LLM_PROXY_URL: 'here' is not an http:// or https:// URL"),
        (
            ["a/b"],
            "http://127.0.0.1:1",
            (
                "[SESSION]: 'a/b' is not a valid session name: use at most 100 letters, digits, "
                "dots, dashes and underscores"
            ),
        ),
    ],
)
async def test_a_session_that_cannot_be_reset_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str], url: str, message: str
) -> None:
    result = await run_command("reset", *arguments, folder=tmp_path, env={"LLM_PROXY_URL": url})
    assert (result.exit_code, result.stderr) == (2, f"llm-proxy: error: {message}\n")
