"""The shell: sockets, files, clocks and environment.

Nothing outside this folder and the entry points touches them.

    running      a server from start to stop
        proxy             starts and stops a proxy server
        serving           the server at the command line: child process, signals, summary, exit code
        settings          flags, environment and file, as one frozen value
        settings_checks   errors and warnings about settings at start
        sources           what a mode responds from: library, upstream, recorder, scenarios
        simulation        the simulate mode with its files, function and clock
        pace_registry     the paces of the run and of its sessions
        fault_rules       files of fault rules, and the conditions of the run's faults
        listening         binds the server's port
        listener_gate     closes and reopens the listening sockets for the fault `refuse`
        environment       environment variables of a child process
        library_checks    unused and too old cassettes at the end of a run
        journal_file      writes the journal at the end of a run
        step_summary      the summary page of a CI job
        chaos             runs a command once per fault
        command_output    the output of that command
        logs              the log on stderr
    server       requests in, responses out
        server            guards, routing, the mode, the journal
        intake            reads a request: connection, expectation, body
        guards            refuses requests by host and origin
        request_decompression  decompresses request bodies
        retries           recognises which request an SDK retries
        error_responses   errors in the dialect's shape
        fault_middleware  injects faults into responses
        perform           performs actions on the socket, each at its due time
        response_writer   one response on a socket, byte for byte
        control           the pages below `/_proxy/`
        journal           the requests and responses of this run
        entry_fields      fills a journal entry
        library_usage     which cassettes a run used
    reissuing    sends stored requests again
        reissuer          sends requests, records the responses, replaces takes
    upstream     the live providers
        live              sends one request and streams its response
        pump              reads one response without losing a byte
        connector         selects the connection for a request
        connection        aiohttp's connection, extended to remember failures and surplus bytes
        failures          why an upstream gave no response
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
        library           the index by file names; reads single cassettes
        library_takes     the take source for modes
        library_index     indexes the requests of a library; keys by other rules
        last_played       when cassettes were last played on this machine
        rekeying          renames cassettes after the matching rules changed
        folders           durable creation and locks of folders
    demo         the demo and its provider

    content_decoders  decodes content codings as the bytes arrive

Imports between these folders run from the top of this list to the bottom, apart from `demo`.
"""
