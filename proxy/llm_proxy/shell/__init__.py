"""The world: sockets, files, clocks and environment.

Nothing outside this folder and the entry points touches them.

    server       requests in, responses out: guards, routing, the mode, the journal
    wire         one response on a socket, byte for byte
    perform      actions on a wire, each at its time
    upstream     the live provider
    pump         one upstream response read without losing a byte
    decoding     content codings that arrive although identity was asked for
    library      a folder of cassettes
    takes_on_disk  its takes, as modes ask for them
    recorder     recordings: spooled as they run, filed when they end
    tape         one of them: its key, its spool, decoded and redacted
    spooling     spool files: locks, appends, leftovers
    filing       from a spool to a cassette in the library
    recovering   what a crash left behind, made good
    intake       a request on its way in: connection, expectation, body
    guards       requests that are refused before anything else
    control      our own pages
    journal      what was asked and answered in this run
    settings     flags, environment and file, as one frozen value
    environment  what a child process needs to find us
    logs         the log on stderr
    run          a server from start to stop
    session      a run at the command line: child process, signals, exit code
"""
