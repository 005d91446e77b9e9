"""llm_pytest: tests that a model carries out, with tools that are really executed.

    pytest --llm tests/llm/

A test definition in YAML is rendered into a prompt; a provider lets a model carry out its steps
with tools, and returns the model's verdict.  With `--llm-proxy`, the responses of the model are
recorded once and replayed without a key; the tools run each time.

    models, errors          values: `TestSpec`, `Verdict`
    extras                  the optional dependencies
    variables               the variables in the texts of a definition
    definitions, linting    reads and checks test definitions
    prompt, templates/      the prompt
    secrets                 what only the tools know
    toolset, evidence       the tools of one test, and its calls as evidence
    tools/                  the families `http_*` and `assert_*`
    plugin_base, plugins    families that a project adds
    mcp_server, tool_server the tools over MCP, in a process of their own
    server_events           what that process reports
    providers/              who lets a model carry out a test
    verdicts                reads verdicts, and checks them against the evidence
    runner                  `run_llm_test`: one test from definition to verdict
    report, prices          what people read of a run
    pytest_plugin           the options; `collection` has the pytest items
    miss_explanations       why a recorded test does not match any more

Source: owner's document 003.
"""
