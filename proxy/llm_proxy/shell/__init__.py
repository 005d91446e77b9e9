"""The shell: sockets, files, clocks and environment.

Nothing outside this folder and the entry points touches them.

    demo         the demo: its provider, its client, and both proxies
    running      a server from start to stop
        proxy             starts and stops a proxy server, with what its mode responds from
        serving           the server at the command line: log, child process, signals, exit code
        end_of_run        what a run reports at its end
        listener          the listening sockets; closes and reopens them for the fault `refuse`
        settings          flags, environment and files, as one frozen value, and their checks
        environment       environment variables of a child process
        chaos             runs a command once per fault
    server       requests in, responses out
        server            guard, body, routing, the mode's response, faults, writing, journal
        intake            reads a request: connection, guards, body, content coding, retries
        fault_middleware  injects faults into responses
        response_writer   performs actions on a socket, each at its due time, byte for byte
        control           the pages below `/_proxy/`
        journal           the requests and responses of this run, and the cassettes that it used
    reissuing    sends stored requests again, records the responses, replaces takes
    upstream     the live providers
        live              sends one request and streams its response
        pump              reads one response without losing a byte
        connection        aiohttp's connection, extended to remember failures and surplus bytes
        signing           SigV4 signatures for Bedrock
    importing    recordings and fixtures of other tools, from files into a library
    recording    from a running stream to a cassette
        recorder          writes recordings to spools: keyed, decoded, redacted
        spooling          spool files: creation, locks, leftovers
        cassette_filer    files a spool as a cassette in the library
        recovery          recovers what a crash left behind
    scenarios    scenario files
        library           the scenarios of a server, reloaded when a file changes
        files             finds and reads scenario files
    library      a folder of cassettes
        library           the index by file names; reads single cassettes; durable folders
        library_takes     the take source for modes; indexes requests; keys by other rules
        last_played       when cassettes were last played on this machine
        rekeying          renames cassettes after the matching rules changed

    content_decoders  decodes content codings as the bytes arrive

Imports between these folders run from the top of this list to the bottom.
"""
