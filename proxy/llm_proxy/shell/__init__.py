"""The shell: sockets, files, clocks and environment.

Nothing outside this folder and the entry points touches them.

    running      a server from start to stop
        proxy        its parts put together, up and listening
        serving      at the command line: child process, signals, last word, exit code
        settings     flags, environment and file, as one frozen value
        paces        the pace of the run, and those that were set since
        advice       what an operator is told at the start
        environment  what a child process needs to find us
        journal_file the file that a run leaves its journal in
        step_summary  the summary page of a CI job
        logs         the log on stderr
    server       requests in, responses out
        server       guards, routing, the mode, the journal
        intake       a request on its way in: connection, expectation, body
        guards       requests that are refused before anything else
        failing      answers that say what went wrong
        perform      actions on a wire, each at its time
        wire         one response on a socket, byte for byte
        control      our own pages
        journal      what was asked and answered in this run
    upstream     the live providers
        live         one request out, its answer as it arrives, and why there is none
        pump         one response read without losing a byte, and how it ended
        connection   aiohttp's connection, with a memory for how it failed
    recording    from a running stream to a cassette
        recorder     recordings while they run: who writes them down, and when
        spooled_recording  one of them on the event loop: what came, until it is written
        backlog      what waits for the disk, and how long one waits for that
        spool_writer one of them on the disk: its key, its spool, decoded and redacted as it comes
        decoding     content codings that arrive although identity was asked for
        spooling     spool files: locks, appends, leftovers
        filing       from a spool to a cassette in the library
        recovering   what a crash left behind, made good
    scenarios    files of scenarios
        library      what is to be played, read again when a file changes
        files        which files there are, and what they hold
    library      a folder of cassettes
        library      what is there, by file names; one file, checked
        takes_on_disk  its takes, as modes ask for them
        indexing     what its cassettes answer, read in the background, for misses
    demo         the demo: play it, and the provider in it

Imports between these folders run from the top of this list to the bottom, apart from `demo`.
"""
