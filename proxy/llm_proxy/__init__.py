"""llm-proxy: records live LLM streams and replays them exactly.

One idea carries everything: **a response is a sequence of actions**
(`Begin`, `Send`, `SendRaw`, `Wait`, `Abort`).  A *source* yields them (the live
upstream, a cassette, a scenario), and one function performs them on the client's socket.

Glossary of the project's own terms:

    cassette    the file that holds one exchange
    take        one of several exchanges recorded for the same key, in order
    dialect     one provider wire format, such as `openai-chat` or `anthropic`
    turn        one response of the model, free of any wire format: ordered parts (text,
                reasoning, tool call, refusal), finish reason, usage
    action      what a response does next: `Begin`, `Send`, `SendRaw`, `Wait`, `Abort`
    pace        when the bytes of a replay or a simulation are sent
    fault       a rewriting of actions that makes something go wrong
    scenario    a document that scripts the responses of a conversation
    journal     the requests and responses of this run
    miss        a request in replay that no cassette answers
    spool       the crash-safe file that a recording appends to while it runs
    session     the scope of everything that is counted: takes, turns, attempts

The map, in reading order; imports run downward only, from the last to the first:

model       frozen values without behaviour
    `exchange`       requests, heads and their headers, reads, endings and outcomes
    `actions`        the actions of a response
    `turns`          the decoded response
    `conversation`   the decoded request
    `miss_report`    a request that no cassette answers, and why
    `errors`         every exception that is raised on purpose

logic       bytes and values in, bytes and values out
    `framing`        bytes <-> messages; knows no provider
    `dialects`       messages <-> turns; knows no socket
    `providers`      which provider a path belongs to; its addresses, headers, keys and variables
    `routing`        session, provider, dialect and key of a request: a `RoutedRequest`
    `redaction`      recognises secrets, and keeps them off the disk
    `frame_redaction`  redaction of AWS event streams, whose frames declare their length
    `matching`       key documents, rules and keys
    `diff`           compares requests, responses, exchanges and texts
    `value_replacement`  replaces recorded values by those of the requesting client
    `misses`         why no cassette answers: the nearest, its differences, rules that help
    `ages`           the maximum age of cassettes
    `json_paths`     JSONPaths within a step budget
    `exact_json`     parses JSON without losing information
    `yaml_composer`  composes values from YAML within limits of depth and size
    `cassette`       the file format, its spool, and its migrations
    `cassette_views` a cassette's dialect, response, turns and outcome
    `reissue`        rebuilds a stored request so that it can be sent again
    `scanning`       finds secrets in stored files
    `scrubbing`      redacts a stored cassette anew
    `cassette_consistency`  checks a cassette's name, key and folder against its content
    `take_numbers`   which take answers a request, and which number a new take gets
    `chance`         seeded random numbers
    `timeline`       message arrival times
    `pacing`         when the bytes of a response are sent, and in which pieces
    `faults`         what can go wrong on the way to a client
    `session_documents`  what a proxy and a test runner exchange
    `journal_document`  the journal as a document: its entries, and its parser
    `verdict`        judges clients by the journal of a run
    `last_message`   the last message with text in a request
    `exporting`      exchanges in the formats of other tools
    `transcoding`    requests and responses in another dialect, and what is lost
    `scenario`       scripted conversations: documents, choosing, scripting
    `synthesis`      responses for requests without a scenario
    `importing`      recordings and fixtures of other tools
    `chaos`          a command, run once for each fault
    `unit_parsers`   durations, sizes and rates in text
    `display`        text escaped and formatted for a terminal
    `ports`          the protocols through which modes reach the shell

modes       `record`, `replay`, `auto`, `simulate`: where a response comes from

shell       the only place with sockets, files, clocks and environment

entry
    `cli`            the command line
    `python_api`     `LLMProxy`, for scripts and tests
    `pytest_plugin`  the options and the fixture of pytest; does nothing unless it is used
    `pytest_sessions`  each test is a session

Beside it, `llm_chat` is the conversation runtime: it stands on logic and shell.  `llm_pytest` runs
tests that a model carries out: it stands on `llm_chat`.  Only the command line imports the two.
"""

from typing import TYPE_CHECKING, Any

from llm_proxy.version import __version__

if TYPE_CHECKING:
    from llm_proxy.python_api import Call, LLMProxy, ProxySession

__all__ = ["Call", "LLMProxy", "ProxySession", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the Python API when it is first used: commands do not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from llm_proxy import python_api  # noqa: PLC0415 # see above

    return getattr(python_api, name)
