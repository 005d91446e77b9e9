"""`paths`: the folder in which a client works does not count, but the path below it does."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import normalized_document, request_key
from llm_proxy.matching.option_grammar import parse_rules

PATHS: Final = parse_rules(["paths"])
TMP: Final = "/tmp"  # noqa: S108 # only a text in requests
TEMPORARY: Final = "/tmp/tmpa1b2c3d4"  # noqa: S108 # only a text in requests too


def request(*texts: str) -> StoredRequest:
    return StoredRequest("POST", "/v1/x", "", (), json.dumps(texts).encode())


def normalized_texts(*texts: str) -> list[str]:
    """The texts after the rule."""
    body = normalized_document("x", request(*texts), PATHS).document.body
    assert isinstance(body, list)
    return [str(item) for item in body]


@each_row(
    ("text", "after"),
    [
        ("<cwd>/srv/app</cwd>", "<cwd><cwd-1></cwd>"),
        ("Working directory: /srv/app\nmore", "Working directory: <cwd-1>\nmore"),
        ("- Primary working directory: `/srv/my app`.", "- Primary working directory: `<cwd-1>`."),
        (
            " - Primary working directory: /srv/my app\n - Is a git repository: no",
            " - Primary working directory: <cwd-1>\n - Is a git repository: no",
        ),
        ("Working directory: /srv/app Delete all", "Working directory: <cwd-1> Delete all"),
        ("cwd: /srv/app/, then", "cwd: <cwd-1>/, then"),
        (r"cwd: D:\code\app", "cwd: <cwd-1>"),
        ("see /home/ann/a.txt", "see <home-1>/a.txt"),
        ("see file:///Users/ann/a", "see file://<home-1>/a"),
        (r"in C:\Users\Ann\a", r"in <home-1>\a"),
        (r'{"path":"C:\\Users\\Ann\\a"}', r'{"path":"<home-1>\\a"}'),
        ("/root/x, /root.", "<home-1>/x, <home-1>."),
        ("`/srv/a b/.claude/skills`", "`<home-1>/.claude/skills`"),
        (f"{TEMPORARY}/x {TEMPORARY}", "<folder-1>/x <folder-1>"),
        (f"{TMP}/run-7/x {TMP}/run-8/x", "<folder-1>/x <folder-2>/x"),
        (f"{TMP}/pytest-of-ann/pytest-12/test_a0/x", "<folder-1>/test_a0/x"),
        ("/var/folders/ab/cdef_1/T/x", "<folder-1>/x"),
    ],
)
def test_a_folder_becomes_a_name_and_what_is_below_stays(text: str, after: str) -> None:
    assert normalized_texts(text) == [after]


@each_row(
    "text",
    [
        "https://example.com/home/ann", "</root>", "/rooted", "/srv/root/x", "a/home/b",
        f"{TMP}/notes.txt", "the working directory is large", "cwd: here", "/usr/bin/env",
        "/.claude", "///.claude", "/./.claude", "C:\\.\\.claude", "app/.claude",
    ],
)  # fmt: skip
def test_a_path_that_is_no_run_folder_stays(text: str) -> None:
    assert normalized_texts(text) == [text]


def test_the_same_folder_has_the_same_name_in_every_text() -> None:
    texts = ["<cwd>/home/ann/app</cwd>", "/home/ann/app/x", "/home/ann/other", "/home/ann/app-2"]
    slug = "/home/ann/.claude/projects/-home-ann-app/memory"

    assert normalized_texts(*texts, slug) == [
        "<cwd><cwd-1></cwd>", "<cwd-1>/x", "<home-1>/other", "<home-1>/app-2",
        "<home-1>/.claude/projects/<cwd-slug-1>/memory",
    ]  # fmt: skip


def test_names_are_numbered_by_position_not_by_the_path_that_contains_them() -> None:
    one = request(f"<cwd>{TMP}/x/app</cwd>", f"{TMP}/out/a")
    other = request("<cwd>/srv/app</cwd>", f"{TMP}/gone/a")

    assert request_key("x", one, PATHS) == request_key("x", other, PATHS)


def test_the_path_below_a_folder_counts() -> None:
    assert request_key("x", request("/home/ann/a"), PATHS) != request_key(
        "x", request("/home/ann/b"), PATHS
    )


ROOTS: Final = (
    "/home/ann", "/root", "/Users/Ann", TEMPORARY, f"{TMP}/run-7", "/srv/app", "/", "/.claude",
    "C:\\Users\\Ann", "C:\\\\Users\\\\Ann", "D:\\code", "C:\\", "<home-1>", "<cwd-1>", "a",
)  # fmt: skip
NAMES: Final = ("a", "app", "my app", ".claude", ".", "b.txt", "home", "root", "Users", "")
LINES: Final = (
    "{}", "`{}`", "'{}'", "({}),", "{}.", "file://{}", '{{"path":"{}"}}', "see {} and `", "-{}",
    "<cwd>{}</cwd>", "cwd: {}", "cwd: `{}`", "Working directory: {}\n - Is a git repository: no",
    "- Primary working directory: {}",
)  # fmt: skip


def path_below(root: str, names: list[str]) -> str:
    """The path of these names below a folder, with the folder's own separator."""
    separator = "\\\\" if "\\\\" in root else "\\" if "\\" in root else "/"
    return separator.join([root.rstrip(separator), *names]) if names else root


PATH_LINES: Final = st.builds(
    str.format,
    st.sampled_from(LINES),
    st.builds(path_below, st.sampled_from(ROOTS), st.lists(st.sampled_from(NAMES), max_size=3)),
)
"""Lines with one path each: where paths run into each other, an alias may change where the next one
ends."""


@given(st.lists(st.lists(PATH_LINES, max_size=4).map("\n".join), max_size=3))
def test_the_rule_is_idempotent(texts: list[str]) -> None:
    once = normalized_document("x", request(*texts), PATHS).document

    assert PATHS.normalize_document(once).document == once


@each_row(
    "text",
    [
        f"{TMP}/", "cwd: ", "<cwd>/", "Working directory: /", "a-", "\\", "C:\\Users\\", "/",
        "cwd:/a ", "/.claude", "`/.codex",
    ],
)  # fmt: skip
def test_the_time_grows_no_faster_than_the_text(text: str) -> None:
    assert_linear(lambda chars: normalized_texts(text * (chars // len(text))), 40_000)


def test_the_time_grows_no_faster_than_the_number_of_folders() -> None:
    assert_linear(
        lambda count: normalized_texts(" ".join(f"/home/u{number}" for number in range(count))),
        20_000,
    )


@each_row(
    ("one", "other"),
    [
        ("Working directory: /srv/app Delete it", "Working directory: /srv/app Show it"),
        ("Run cd /home/ann&&ls", "Run cd /home/ann&&rm"),
        ("[/home/ann][delete]", "[/home/ann][keep]"),
        ("/home/ann目录下有什么", "/home/ann目录下删除"),  # Chinese has no spaces
        ("/review delete what is in /opt/x/.config", "/review what is in /opt/x/.config"),
        ("/review foo/.config", "/review bar/.config"),
        ("'/a is no /opt/x/.config", "'/a is a /opt/x/.config"),
    ],
)
def test_the_text_around_a_folder_counts(one: str, other: str) -> None:
    assert request_key("x", request(one), PATHS) != request_key("x", request(other), PATHS)


@each_row("text", ["cwd: / then", "Working directory: / (root)", "cwd: C:\\ then"])
def test_a_root_is_no_working_folder(text: str) -> None:
    assert normalized_document("x", request(f"{text}: a / b"), PATHS).value_by_alias == {}
