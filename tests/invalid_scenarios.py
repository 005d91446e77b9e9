"""Invalid scenario files, each with all messages that it causes."""

from __future__ import annotations

from typing import Final

_HEAD: Final = "id: refund\ndescription: A refund.\n"
_RESPONSE: Final = "response: {kind: text, assistant_text: Hello.}"


def scenario_with_turns(*steps: str) -> str:
    """A scenario with these turns, each on its own lines, from line 4 on."""
    lines = [f"  - {step.replace(chr(10), chr(10) + '    ')}" for step in steps]
    return _HEAD + "turns:\n" + "\n".join(lines) + "\n"


def scenario_with_response(fields: str) -> str:
    """A scenario whose only response has these fields; they begin in line 5, column 16."""
    return scenario_with_turns(f"turn: 1\nresponse: {{{fields}}}")


SYNTAX_ERRORS: Final[dict[str, tuple[str, str]]] = {
    "a colon in plain text": (
        "id: a\ndescription: Refund: the first\n",
        (
            "2:20: $: unexpected colon; put text that contains a colon in quotes, and "
            "check the indentation"
        ),
    ),
    "a tab": (
        "id: a\nturns:\n\t- turn: 1\n",
        "3:1: $: a tab is used for indentation; use spaces",
    ),
    "an at sign": ("id: @a\n", "1:5: $: this text starts with @; put the text in quotes"),
    "an open list": (
        "id: a\nturns: [1, 2\n",
        "3:1: $: missing comma or ] in the list that starts at line 2",
    ),
    "an open object": (
        "match: {user: a\n",
        "2:1: $: missing comma or } in the object that starts at line 1",
    ),
    "open quotes": (
        "id: a\ndescription: 'b\n",
        "2:14: $: missing closing quote",
    ),
    "quotes within quotes": (
        "id: 'it's'\n",
        (
            "1:9: $: this line does not continue the object that starts at line 1; check the "
            "indentation, and escape quotes within quoted text"
        ),
    ),
    "a list and an object": (
        "- id: a\nid: b\n",
        (
            "2:1: $: this line does not continue the list that starts at line 1; start each "
            "item with - and a space, in the same column"
        ),
    ),
    "a name without a colon": (
        "id: a\ndescription\nturns: []\n",
        (
            "2:1: $: expected a colon and a space after the key that starts here; to continue "
            "the text above, indent this line"
        ),
    ),
    "a list in the line of its name": (
        "turns: - turn: 1\n",
        "1:8: $: the list starts on the same line as its key; put each item on a separate line",
    ),
    "an escape": (
        'id: "\\d"\n',
        "1:6: $: unknown escape in double quotes; write \\\\ for a backslash, or use single quotes",
    ),
    "half of a pair": (
        'id: "\\ud83d\\ude00"\n',
        (
            "1:8: $: incomplete escape; write the character itself, or \\U and eight hexadecimal "
            "digits"
        ),
    ),
    "text after a bar": (
        "id: | a\n",
        "1:7: $: unexpected text after | or >; start the text on the next line",
    ),
    "an unknown handle": (
        "id: !x!y a\n",
        "1:5: $: undefined tag; put text that starts with ! in quotes",
    ),
    "another version": (
        "%YAML 2.0\n---\nid: a\n",
        "1:1: $: unsupported YAML version; use 1.1 or 1.2",
    ),
    "names in two columns": (
        "  id: a\ndescription: b\n",
        (
            "2:1: $: this line is not part of the object above; to continue that "
            "object, indent all its keys to the same column"
        ),
    ),
    "a control character": (
        "id: a\x1b\n",
        (
            "1:6: $: the character \\x1b is not allowed in YAML; write it as an escape in "
            "double quotes"
        ),
    ),
    "a line end that YAML 1.2 has not": (
        "id: a\u2028b\n",
        (
            "1:6: $: the character \\u2028 is not allowed in YAML; write it as an escape in "
            "double quotes"
        ),
    ),
    "nothing to repeat": (
        "id: *a\n",
        (
            "1:5: $: unknown alias *a; define &a earlier in this document, or put text "
            "that starts with * in quotes"
        ),
    ),
    "repeated within itself": (
        "turns: &a [*a]\n",
        "1:12: $: the alias *a refers to itself; replace the alias with a value",
    ),
    "too deep": (
        "turns: " + "[" * 120 + "]" * 120 + "\n",
        "1:107: $: values are nested more than 100 levels deep",
    ),
}
"""Files with a YAML syntax error: the text and the one message."""

VALIDATION_ERRORS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "an unknown field": (
        scenario_with_turns("turn: 1\nrespones: {kind: text, assistant_text: Hello.}"),
        ("5:5: $.turns[0].respones: unknown field 'respones'; did you mean 'response'?",),
    ),
    "faults that are none": (
        scenario_with_turns(
            f"turn: 1\n{_RESPONSE}\nfaults:\n  - rset\n  - {{fault: reset, nht: 3}}\n  - 7\n"
            "  - {fault: stall, for: [1]}\n  - refuse,window=1s"
        ),
        (
            "7:9: $.turns[0].faults[0]: fault 'rset': unknown fault 'rset'; did you mean 'reset'?",
            (
                "8:9: $.turns[0].faults[1]: fault 'reset,nht=3': unknown term 'nht'; did you mean "
                "'nth'?"
            ),
            '9:9: $.turns[0].faults[2]: expected text or an object, got the number 7; write "7"',
            (
                "10:9: $.turns[0].faults[3]: the value of 'for' must be a string, a "
                "number or a boolean"
            ),
            (
                "11:9: $.turns[0].faults[4]: the fault 'refuse' cannot be used in a "
                "scenario; use --fault or PUT /_proxy/faults"
            ),
        ),
    ),
    "faults of a scenario": (
        _HEAD + "turns: []\nfaults: reset\n",
        ('4:9: $.faults: expected a list, got the text "reset"; write ["reset"]',),
    ),
    "one fault": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nfault: reset"),
        ("6:5: $.turns[0].fault: unknown field 'fault'; did you mean 'faults'?",),
    ),
    "an unknown field in camelCase": (
        scenario_with_response("kind: text, assistentText: Hello."),
        (
            (
                "5:28: $.turns[0].response.assistentText: unknown field 'assistentText'; "
                "did you mean 'assistantText'?"
            ),
        ),
    ),
    "a field of another kind": (
        scenario_with_response("kind: text, assistant_text: a, tool_calls: []"),
        (
            (
                "5:47: $.turns[0].response.tool_calls: unknown field 'tool_calls' for "
                "kind: text; this field is valid only for kind: tool-call"
            ),
        ),
    ),
    "a field like no other": (
        _HEAD + "turns: [{turn: 1, " + _RESPONSE + "}]\nmatch: {zzz: 1}\n",
        (
            (
                "4:9: $.match.zzz: unknown field 'zzz'; known: model, path, provider, "
                "dialect, session, user, system, tool_results, turn, json"
            ),
        ),
    ),
    "missing fields": (
        "turns: []\n",
        (
            "1:1: $: missing field 'id': the first user message that selects the scenario",
            "1:1: $: missing field 'description': the purpose of the scenario",
        ),
    ),
    "both spellings": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpectedTools: [a]\nexpected_tools: [b]"),
        (
            (
                "7:5: $.turns[0].expected_tools: expectedTools and expected_tools are the "
                "same field; keep one of them"
            ),
        ),
    ),
    "a field and its other name": (
        scenario_with_response(
            "kind: text, assistant_text: a, usage: {inputTokens: 1, prompt_tokens: 2}"
        ),
        (
            (
                "5:71: $.turns[0].response.usage.prompt_tokens: inputTokens and "
                "prompt_tokens are the same field; keep one of them"
            ),
        ),
    ),
    "a name twice": (
        "id: a\nid: b\ndescription: c\nturns: []\n",
        ("2:1: $: duplicate field 'id'; the first one is at line 1",),
    ),
    "a number as a name": (
        scenario_with_response("kind: tool-call, tool_calls: [{tool_name: a, arguments: {1: b}}]"),
        (
            (
                "5:73: $.turns[0].response.tool_calls[0].arguments: expected text "
                "as the field name, got 1; put the name in quotes"
            ),
        ),
    ),
    "an object as a name": (
        scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: a, arguments: {[b]: c}}]"
        ),
        (
            (
                "5:73: $.turns[0].response.tool_calls[0].arguments: expected text "
                "as the field name, got a list or an object"
            ),
        ),
    ),
    "a merge": (
        "<<: {id: a}\nid: a\ndescription: b\nturns: []\n",
        ("1:1: $: merge keys (<<) are not supported; copy the fields here",),
    ),
    "a tag": (
        "id: !!python/name:os.system a\ndescription: b\nturns: []\n",
        (
            (
                "1:5: $.id: unsupported tag !!python/name:os.system; remove it, or put the "
                "text in quotes"
            ),
        ),
    ),
    "a tag that is not so": (
        "id: a\ndescription: b\nturns: [{turn: !!int one, " + _RESPONSE + "}]\n",
        (
            "3:16: $.turns[0].turn: the value does not match its tag !!int; remove the tag",
            "3:16: $.turns[0].turn: expected an integer or 'any', got the text \"one\"",
        ),
    ),
    "yes": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nallow_missing_tools: yes"),
        (
            (
                "6:26: $.turns[0].allow_missing_tools: expected true or false, got the "
                'text "yes"; write true or false without quotes'
            ),
        ),
    ),
    "a number in quotes": (
        scenario_with_turns(f'turn: "1"\n{_RESPONSE}'),
        (
            (
                "4:11: $.turns[0].turn: expected an integer or 'any', got the text \"1\"; "
                "remove the quotes"
            ),
        ),
    ),
    "a number as text": (
        "id: 42\ndescription: a\nturns: []\n",
        ('1:5: $.id: expected text, got the number 42; write "42"',),
    ),
    "a fraction": (
        scenario_with_turns(f"turn: 1.5\n{_RESPONSE}"),
        ("4:11: $.turns[0].turn: expected an integer or 'any', got the number 1.5",),
    ),
    "turn 0": (
        scenario_with_turns(f"turn: 0\n{_RESPONSE}"),
        ("4:11: $.turns[0].turn: 0 is too small; the minimum is 1",),
    ),
    "text for a list": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpected_tools: lookup"),
        (
            (
                '6:21: $.turns[0].expected_tools: expected a list, got the text "lookup"; '
                'write ["lookup"]'
            ),
        ),
    ),
    "an object for a list": (
        _HEAD + "turns:\n  turn: 1\n",
        ('4:3: $.turns: expected a list, got an object; start each item with "- "',),
    ),
    "a list for an object": (
        scenario_with_turns("turn: 1\nresponse: [text]"),
        ("5:15: $.turns[0].response: expected an object, got a list",),
    ),
    "nothing": (
        "id:\ndescription: a\nturns: []\n",
        ("1:4: $.id: expected text, got no value; add a value or remove the field",),
    ),
    "reasoning as text": (
        scenario_with_response("kind: text, assistant_text: a, reasoning: Hm."),
        (
            (
                '5:58: $.turns[0].response.reasoning: expected a list, got the text "Hm."; '
                'write [{text: "Hm."}]; or use the field reasoning_content, which accepts '
                "text"
            ),
        ),
    ),
    "infinity": (
        _HEAD + "turns: []\nchunks: {delay_ms: .inf}\n",
        (
            (
                "4:20: $.chunks.delay_ms: .inf is not a JSON number; write a finite number, "
                "or put the text in quotes"
            ),
        ),
    ),
    "a large number": (
        scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: a, arguments: {n: 99999999999999999999}}]"
        ),
        (
            (
                "5:76: $.turns[0].response.tool_calls[0].arguments.n: the number "
                "99999999999999999999 is too large; put it in quotes, or write fewer "
                "digits"
            ),
        ),
    ),
    "a large number for a whole number": (
        scenario_with_response("kind: text, assistant_text: a, usage: {input: 1e999}"),
        (
            (
                "5:62: $.turns[0].response.usage.input: the number 1e999 is too large; put "
                "it in quotes, or write fewer digits"
            ),
        ),
    ),
    "an unknown kind": (
        scenario_with_response("kind: tool-cal, tool_calls: []"),
        ("5:22: $.turns[0].response.kind: unknown value 'tool-cal'; did you mean 'tool-call'?",),
    ),
    "no kind": (
        scenario_with_response("assistant_text: a"),
        ("5:15: $.turns[0].response: missing field 'kind'; write kind: text",),
    ),
    "no kind, and no guess": (
        scenario_with_response("reasoning: []"),
        (
            (
                "5:15: $.turns[0].response: missing field 'kind'; known values: "
                "final-report, parts, react, structured, text, tool-call"
            ),
        ),
    ),
    "an unknown word": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpected_reasoning: enable"),
        ("6:25: $.turns[0].expected_reasoning: unknown value 'enable'; did you mean 'enabled'?",),
    ),
    "no calls": (
        scenario_with_response("kind: tool-call, tool_calls: []"),
        ("5:45: $.turns[0].response.tool_calls: the list is empty; add at least one item",),
    ),
    "a span of three": (
        _HEAD + "turns: []\nchunks: {delay_ms: [1, 2, 3]}\n",
        ("4:20: $.chunks.delay_ms: expected 2 numbers as [min, max], got 3",),
    ),
    "a word for a span": (
        _HEAD + "turns: []\nchunks: {delay_ms: soon}\n",
        ('4:20: $.chunks.delay_ms: expected a number or [min, max], got the text "soon"',),
    ),
    "a word for the turns": (
        _HEAD + "turns: first\n",
        ('3:8: $.turns: expected a list, got the text "first"',),
    ),
    "a span the wrong way round": (
        _HEAD + "turns: []\nchunks: {delay_ms: [80, 30]}\n",
        (
            (
                "4:10: $.chunks.delay_ms: the minimum 80 is greater than the maximum 30; "
                "write [30, 80]"
            ),
        ),
    ),
    "a span below zero": (
        "mock: {thinking_ms: [-1, 2]}\n",
        ("1:22: $.mock.thinking_ms[0]: -1 is too small; the minimum is 0",),
    ),
    "no id": (
        "id: ''\ndescription: a\nturns: []\n",
        ("1:5: $.id: the text is empty; write at least one character",),
    ),
    "blanks around an id": (
        "id: ' a'\ndescription: a\nturns: []\n",
        (
            (
                "1:1: $.id: the id starts or ends with white space, so no message can "
                "match it; remove the white space"
            ),
        ),
    ),
    "two steps for any turn": (
        """\
id: a
description: d
turns:
  - {turn: any, response: {kind: text, assistant_text: a}}
  - {turn: any, response: {kind: text, assistant_text: b}}
""",
        ("5:6: $.turns[1].turn: duplicate turn any; the first one is at line 4",),
    ),
    "two turns of one number": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}", f"turn: 1\n{_RESPONSE}"),
        ("6:5: $.turns[1].turn: duplicate turn 1; the first one is at line 4",),
    ),
    "two scenarios of one id": (
        "- {id: a, description: b, turns: []}\n- {id: a, description: c, turns: []}\n",
        ('2:3: $[1]: duplicate scenario id "a"; the first one is at line 1',),
    ),
    "two mocks": (
        "mock: {}\n---\nmock: {}\n",
        ("3:7: $.mock: duplicate mock; the first one is at line 1",),
    ),
    "a regular expression": (
        _HEAD + "turns: []\nmatch: {user: 'a('}\n",
        (
            (
                "4:9: $.match.user: invalid regular expression: missing ) at position 2; "
                "put \\ before special characters"
            ),
        ),
    ),
    "a pattern of a value": (
        _HEAD + "turns: []\nmatch: {json: {$.a: {matches: '*'}}}\n",
        (
            (
                "4:22: $.match.json['$.a'].matches: invalid regular expression: nothing to "
                "repeat at position 0; put \\ before special characters"
            ),
        ),
    ),
    "a JSONPath": (
        _HEAD + "turns: []\nmatch: {json: {'$.[': {exists: true}}}\n",
        (
            (
                "4:16: $.match.json['$.[']: not a valid JSONPath: unexpected shorthand "
                "selector '['; example: $.messages[0].content"
            ),
        ),
    ),
    "a template": (
        "templates: true\n"
        + scenario_with_response("kind: text, assistant_text: 'You {{ $.x[ }}'"),
        (
            (
                "6:28: $.turns[0].response.assistant_text: {{ $.x[ }} is not a valid "
                "JSONPath: unbalanced brackets"
            ),
        ),
    ),
    "a template in an argument": (
        "templates: true\n"
        + scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: f, arguments: {of: ['{{ x }}']}}]"
        ),
        (
            (
                "6:78: $.turns[0].response.tool_calls[0].arguments.of[0]: {{ x }} is not a valid "
                "JSONPath: it must start with $, as in $.messages[-1].content"
            ),
        ),
    ),
    "ReAct that does nothing": (
        scenario_with_response("kind: react, thought: Hm."),
        ("5:15: $.turns[0].response: the response is empty; set action or final_answer",),
    ),
    "a function": (
        "mock: {respond: echo}\n",
        (
            (
                "1:8: $.mock.respond: unknown field 'respond'; set a function with "
                "--respond, or set reply or replies here"
            ),
        ),
    ),
    "a list of names": (
        "scenaros: []\n",
        ("1:1: $.scenaros: unknown field 'scenaros'; did you mean 'scenarios'?",),
    ),
    "no object": ("- 5\n", ("1:3: $[0]: expected an object, got the number 5",)),
    "only text": (
        "refund\n",
        ("1:1: $: expected a scenario: an object with id, description and turns",),
    ),
    "several at once": (
        "id: 1\ndescription: a\nturns:\n  - turn: one\n    response: {kind: txt}\n  - {}\n",
        (
            '1:5: $.id: expected text, got the number 1; write "1"',
            "4:11: $.turns[0].turn: expected an integer or 'any', got the text \"one\"",
            "5:22: $.turns[0].response.kind: unknown value 'txt'; did you mean 'text'?",
            (
                "6:5: $.turns[1]: missing field 'turn': the turn number (1 plus the number "
                "of assistant messages), or `any` for turns not listed"
            ),
            (
                "6:5: $.turns[1]: missing field 'response': the response; `kind` "
                "determines which other fields are allowed"
            ),
        ),
    ),
}
"""Files that parse but are rejected: the text and all error messages."""

WARNINGS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "an unknown status": (
        scenario_with_turns(
            f"turn: 1\n{_RESPONSE}\nfailures_before_success: 1\nfailure_status: rate_limited"
        ),
        (
            (
                "7:5: $.turns[0].failure_status: treated as model_error: unknown value "
                "'rate_limited'; did you mean 'rate_limit'?"
            ),
        ),
    ),
    "a failure that never comes": (
        scenario_with_turns(
            f"turn: 1\n{_RESPONSE}\nfailureStatus: timeout\nfailureRetryable: false"
        ),
        (
            (
                "6:5: $.turns[0].failureStatus: failure_status has no effect because "
                "failures_before_success is 0; set "
                "failures_before_success to the number of failures"
            ),
            (
                "7:5: $.turns[0].failureRetryable: failure_retryable has no effect because "
                "failures_before_success is 0; set "
                "failures_before_success to the number of failures"
            ),
        ),
    ),
    "a missing turn": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}", f"turn: 3\n{_RESPONSE}"),
        ("3:1: $.turns: turn 2 is missing; requests for turn 2 will not match",),
    ),
    "no turns": (
        _HEAD + "turns: []\n",
        ("3:1: $.turns: the scenario has no turns, so every request fails",),
    ),
    "calls of one id": (
        scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: a, call_id: call-2}, {tool_name: b}]"
        ),
        (
            (
                "5:79: $.turns[0].response.tool_calls[1]: two calls of this response have "
                "the id call-2, so their results cannot be distinguished"
            ),
        ),
    ),
    "parts of one id": (
        scenario_with_response(
            "kind: parts, parts: [{part: tool-call, tool_name: a, call_id: x}, "
            "{part: tool-call, tool_name: a, call_id: x}]"
        ),
        (
            (
                "5:82: $.turns[0].response.parts[1]: two calls of this response have the "
                "id x, so their results cannot be distinguished"
            ),
        ),
    ),
    "a seal": (
        scenario_with_response(
            "kind: text, assistant_text: a, "
            "reasoning: [{provider_metadata: {google: {thoughtSignature: '!'}}}]"
        ),
        (
            (
                "5:89: "
                "$.turns[0].response.reasoning[0].provider_metadata.google.thoughtSignature: "
                "not valid base64; Gemini clients reject this signature"
            ),
        ),
    ),
    "two names of a time": (
        "mock: {thinkingMs: 1, delayMs: 2}\n",
        ("1:23: $.mock.delayMs: ignored because thinking_ms is set too; remove one of the fields",),
    ),
    "templates that are not enabled": (
        scenario_with_response(
            "kind: tool-call, assistantText: 'You asked {{ $.model }}.', toolCalls: [{toolName: f, "
            "arguments: {of: ['{{user.name}}', 'style={{ width: 3 }} {{}} {{\"a\"}']}}]"
        ),
        (
            (
                "5:33: $.turns[0].response.assistantText: {{ $.model }} is sent unchanged; to "
                "replace templates, set templates: true in the scenario"
            ),
            (
                "5:119: $.turns[0].response.toolCalls[0].arguments.of[0]: {{user.name}} is sent "
                "unchanged; to replace templates, set templates: true in the scenario"
            ),
        ),
    ),
    "templates in a mock": (
        "mock: {replies: [Hello, {content: '{{ $.model }}'}]}\n",
        (
            (
                "1:26: $.mock.replies[1].content: {{ $.model }} is sent unchanged; to replace "
                "templates, use a scenario with templates: true"
            ),
        ),
    ),
}
"""Files that load: the text and all warnings."""
