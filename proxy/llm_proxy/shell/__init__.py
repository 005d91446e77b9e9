"""The world: sockets, files, clocks and environment.  Nothing outside this folder and the entry
points touches them.

    server       requests in, responses out: guards, routing, the mode, the journal
    wire         one response on a socket, byte for byte
    perform      actions on a wire, each at its time
    upstream     the live provider
    pump         one upstream response read without losing a byte
    decoding     content codings that arrive although identity was asked for
    library      a folder of cassettes
    recorder     recordings: spooled as they run, filed when they end
    spooling     spool files: locks, appends, leftovers
    settings     flags, environment and file, as one frozen value
    environment  what a child process needs to find us
    journal      what was asked and answered in this run
    run          a server from start to stop
"""
