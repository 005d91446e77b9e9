"""llm-proxy: records live LLM streams and plays them back exactly.

One idea carries everything: **a response is a sequence of actions**
(`Begin`, `Send`, `SendRaw`, `Wait`, `Abort`).  A *source* yields them (the live
upstream, a cassette, a scenario), one function performs them on the client's socket.

The map, in reading order; imports run downward only, from the last to the first:

words       frozen values, no behaviour beyond their own
    `exchange`   requests, heads, reads, endings, outcomes: what crossed the wire
    `actions`    what a response does next
    `turns`      what was said, free of any wire format
    `miss_report`     a request that no cassette answered, as it is told
    `conversation`  what a request asks, free of any wire format
    `errors`     everything that we raise, drawn as a tree

logic       bytes and values in, bytes and values out
    `framing`    bytes <-> messages; knows no provider
    `dialects`   messages <-> turns; knows no socket
    `providers`  which provider a path belongs to, and where that provider lives
    `http_heads`      what is passed on of a head, how it delimits its body, what may be written
    `routing`    a request's session, provider, dialect and key: a `Call`
    `redaction`  what never reaches the disk
    `credentials`  what a request carries that must not, in all its spellings
    `secret_names`  what holds secrets by its name
    `frame_redaction`  the same, of a stream whose frames know their own length
    `matching`   documents, rules and keys: which cassette answers; how two requests differ
    `renaming`   a recording with the values of the client that it is played to
    `misses`     why none does: the nearest, what differs, which rules would help
    `diff.words`  how one text became another, word by word
    `ages`       how old a cassette may be
    `json_paths` JSONPaths in a limited number of steps
    `exact_json` JSON that loses nothing when it is parsed
    `cassette`   the file format, its spool, and its migrations
    `cassette_views`  the dialect of a recording, and its response as that one sees it
    `outcome`   what an ending means
    `diff.exchanges`  how two exchanges differ, and what of it counts
    `reissue` a stored request as it can be asked once more
    `integrity`  whether a cassette lies where its key and session say
    `chance`      chance that repeats
    `timeline`   when each message of a recording came
    `pacing`     when the bytes of an answer go out, and in which pieces
    `faults`     what can go wrong on the way to a client
    `verdict`    what a journal says of the clients, after each fault
    `run_report` a run in figures
    `last_message`  what a request asks, for people to know it by
    `transcoding`  a recorded answer in another dialect
    `exporting`  recorded exchanges in the formats of other tools
    `scenario`   scripted conversations: documents read, chosen, checked, directed, performed
    `synthesis`  answers that are made up
    `importing`  recordings of other tools, as what a cassette holds, and fixtures, as scenarios
    `display`    text from anywhere, made fit for a terminal
    `ports`      the few things that modes ask of the world

modes       `record`, `replay`, `auto`, `simulate`: where an answer comes from

shell       the only place with sockets, files, clocks and environment

entry       `cli`
"""

from llm_proxy.version import __version__

__all__ = ["__version__"]
