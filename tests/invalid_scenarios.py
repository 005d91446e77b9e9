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
            "2:20: $: a colon cannot stand here: put text that holds one in quotes, and check the "
            "indentation"
        ),
    ),
    "a tab": ("id: a\nturns:\n\t- turn: 1\n", "3:1: $: a tab cannot indent: use spaces"),
    "an at sign": ("id: @a\n", "1:5: $: text cannot begin with @: put it in quotes"),
    "an open list": (
        "id: a\nturns: [1, 2\n",
        "3:1: $: a comma or a ] is missing in the list whose [ is in line 2",
    ),
    "an open object": (
        "match: {user: a\n",
        "2:1: $: a comma or a } is missing in the object whose { is in line 1",
    ),
    "open quotes": (
        "id: a\ndescription: 'b\n",
        "2:14: $: the quotes that open here are not closed",
    ),
    "quotes within quotes": (
        "id: 'it's'\n",
        (
            "1:9: $: this does not belong to the object that begins in line 1: check the "
            "indentation, and put text in quotes of the other kind where it holds quotes"
        ),
    ),
    "a list and an object": (
        "- id: a\nid: b\n",
        (
            "2:1: $: this line does not belong to the list that begins in line 1: indent it as the "
            "others, each item after - and a space"
        ),
    ),
    "a name without a colon": (
        "id: a\ndescription\nturns: []\n",
        (
            "2:1: $: a colon and a space are missing after the name that begins here, or the text "
            "above is not indented"
        ),
    ),
    "a list in the line of its name": (
        "turns: - turn: 1\n",
        "1:8: $: a list cannot begin in the line of its name: put each - on a line of its own",
    ),
    "an escape": (
        'id: "\\d"\n',
        (
            "1:6: $: double quotes know no such escape: write \\\\ for a backslash, or use single "
            "quotes"
        ),
    ),
    "half of a pair": (
        'id: "\\ud83d\\ude00"\n',
        (
            "1:8: $: this escape is no whole character: write the character itself, or \\U and "
            "eight digits"
        ),
    ),
    "text after a bar": (
        "id: | a\n",
        "1:7: $: after | or > nothing may stand in the line: begin the text in the next one",
    ),
    "an unknown handle": ("id: !x!y a\n", "1:5: $: text that begins with ! must be in quotes"),
    "another version": ("%YAML 2.0\n---\nid: a\n", "1:1: $: only YAML 1.1 and 1.2 can be read"),
    "names in two columns": (
        "  id: a\ndescription: b\n",
        (
            "2:1: $: this does not belong to what stands above: let all names of an object begin "
            "in one column"
        ),
    ),
    "a control character": (
        "id: a\x1b\n",
        (
            "1:6: $: the character \\x1b cannot stand in YAML as it is: write it as an escape, in "
            "double quotes"
        ),
    ),
    "a line end that YAML 1.2 has not": (
        "id: a\u2028b\n",
        (
            "1:6: $: the character \\u2028 cannot stand in YAML as it is: write it as an escape, "
            "in double quotes"
        ),
    ),
    "nothing to repeat": (
        "id: *a\n",
        (
            "1:5: $: *a repeats nothing: there is no &a before it in this document; text that "
            "begins with * must be in quotes"
        ),
    ),
    "repeated within itself": (
        "turns: &a [*a]\n",
        "1:12: $: *a stands within itself: write the value out",
    ),
    "too deep": (
        "turns: " + "[" * 120 + "]" * 120 + "\n",
        "1:107: $: values stand within each other more than 100 deep",
    ),
}
"""Files with a YAML syntax error: the text and the one message."""

VALIDATION_ERRORS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "an unknown field": (
        scenario_with_turns("turn: 1\nrespones: {kind: text, assistant_text: Hello.}"),
        ("5:5: $.turns[0].respones: there is no such field; did you mean response?",),
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
            '9:9: $.turns[0].faults[2]: 7 is a number: write text or an object in quotes, "7"',
            "10:9: $.turns[0].faults[3]: 'for' must be a text, a number or a boolean",
            (
                "11:9: $.turns[0].faults[4]: refuse is no matter of an answer: give it with "
                "--fault, or PUT it to /_proxy/faults"
            ),
        ),
    ),
    "faults of a scenario": (
        _HEAD + "turns: []\nfaults: reset\n",
        ('4:9: $.faults: "reset" is text: write a list, ["reset"]',),
    ),
    "one fault": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nfault: reset"),
        ("6:5: $.turns[0].fault: there is no such field; did you mean faults?",),
    ),
    "an unknown field in camelCase": (
        scenario_with_response("kind: text, assistentText: Hello."),
        (
            (
                "5:28: $.turns[0].response.assistentText: there is no such field; did you mean "
                "assistantText?"
            ),
        ),
    ),
    "a field of another kind": (
        scenario_with_response("kind: text, assistant_text: a, tool_calls: []"),
        (
            (
                "5:47: $.turns[0].response.tool_calls: there is no such field in kind: text; it is "
                "one of kind: tool-call"
            ),
        ),
    ),
    "a field like no other": (
        _HEAD + "turns: [{turn: 1, " + _RESPONSE + "}]\nmatch: {zzz: 1}\n",
        (
            (
                "4:9: $.match.zzz: there is no such field; there are model, path, provider, "
                "dialect, session, user, system, tool_results, turn, json"
            ),
        ),
    ),
    "missing fields": (
        "turns: []\n",
        (
            "1:1: $: id is missing: what the first user message says to ask for it",
            "1:1: $: description is missing: what it is for, for people",
        ),
    ),
    "both spellings": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpectedTools: [a]\nexpected_tools: [b]"),
        (
            (
                "7:5: $.turns[0].expected_tools: expectedTools and expected_tools are the same "
                "field: keep one of them"
            ),
        ),
    ),
    "a field and its other name": (
        scenario_with_response(
            "kind: text, assistant_text: a, usage: {inputTokens: 1, prompt_tokens: 2}"
        ),
        (
            (
                "5:71: $.turns[0].response.usage.prompt_tokens: inputTokens and prompt_tokens are "
                "the same field: keep one of them"
            ),
        ),
    ),
    "a name twice": (
        "id: a\nid: b\ndescription: c\nturns: []\n",
        ('2:1: $: "id" stands here twice: the first is in line 1',),
    ),
    "a number as a name": (
        scenario_with_response("kind: tool-call, tool_calls: [{tool_name: a, arguments: {1: b}}]"),
        (
            (
                "5:73: $.turns[0].response.tool_calls[0].arguments: a name must be text, and this "
                "is 1: put it in quotes"
            ),
        ),
    ),
    "an object as a name": (
        scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: a, arguments: {[b]: c}}]"
        ),
        (
            (
                "5:73: $.turns[0].response.tool_calls[0].arguments: a name must be text, and this "
                "is a list or an object"
            ),
        ),
    ),
    "a merge": (
        "<<: {id: a}\nid: a\ndescription: b\nturns: []\n",
        ("1:1: $: << takes over nothing here: write the fields out",),
    ),
    "a tag": (
        "id: !!python/name:os.system a\ndescription: b\nturns: []\n",
        (
            (
                "1:5: $.id: the tag !!python/name:os.system means nothing here: leave it out, or "
                "put the text in quotes"
            ),
        ),
    ),
    "a tag that is not so": (
        "id: a\ndescription: b\nturns: [{turn: !!int one, " + _RESPONSE + "}]\n",
        (
            "3:16: $.turns[0].turn: this is no int, as its tag !!int says: leave the tag out",
            '3:16: $.turns[0].turn: "one" is text: write a whole number or any',
        ),
    ),
    "yes": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nallow_missing_tools: yes"),
        (
            (
                '6:26: $.turns[0].allow_missing_tools: "yes" is text: write true or false, without '
                "quotes"
            ),
        ),
    ),
    "a number in quotes": (
        scenario_with_turns(f'turn: "1"\n{_RESPONSE}'),
        ('4:11: $.turns[0].turn: "1" is text: write a whole number or any, without quotes',),
    ),
    "a number as text": (
        "id: 42\ndescription: a\nturns: []\n",
        ('1:5: $.id: 42 is a number: write text in quotes, "42"',),
    ),
    "a fraction": (
        scenario_with_turns(f"turn: 1.5\n{_RESPONSE}"),
        ("4:11: $.turns[0].turn: 1.5 is a number: write a whole number or any",),
    ),
    "turn 0": (
        scenario_with_turns(f"turn: 0\n{_RESPONSE}"),
        ("4:11: $.turns[0].turn: 0 is too small: 1 is the least",),
    ),
    "text for a list": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpected_tools: lookup"),
        ('6:21: $.turns[0].expected_tools: "lookup" is text: write a list, ["lookup"]',),
    ),
    "an object for a list": (
        _HEAD + "turns:\n  turn: 1\n",
        ('4:3: $.turns: this is an object: write a list, each item of it after "- "',),
    ),
    "a list for an object": (
        scenario_with_turns("turn: 1\nresponse: [text]"),
        ("5:15: $.turns[0].response: this is a list: write an object",),
    ),
    "nothing": (
        "id:\ndescription: a\nturns: []\n",
        ("1:4: $.id: nothing is given here: write text, or leave the field out",),
    ),
    "reasoning as text": (
        scenario_with_response("kind: text, assistant_text: a, reasoning: Hm."),
        (
            (
                '5:58: $.turns[0].response.reasoning: "Hm." is text: write a list, [{text: '
                '"Hm."}]; or '
                "name the field reasoning_content, which takes text"
            ),
        ),
    ),
    "infinity": (
        _HEAD + "turns: []\nchunks: {delay_ms: .inf}\n",
        (
            (
                "4:20: $.chunks.delay_ms: .inf is no number that JSON has: write digits, or put it "
                "in quotes"
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
                "99999999999999999999 is too large: put it in quotes, or write fewer digits"
            ),
        ),
    ),
    "a large number for a whole number": (
        scenario_with_response("kind: text, assistant_text: a, usage: {input: 1e999}"),
        (
            (
                "5:62: $.turns[0].response.usage.input: the number 1e999 is too large: put it in "
                "quotes, or write fewer digits"
            ),
        ),
    ),
    "an unknown kind": (
        scenario_with_response("kind: tool-cal, tool_calls: []"),
        (
            (
                '5:22: $.turns[0].response.kind: "tool-cal" is not one of final-report, parts, '
                "react, "
                "structured, text or tool-call; did you mean tool-call?"
            ),
        ),
    ),
    "no kind": (
        scenario_with_response("assistant_text: a"),
        ("5:15: $.turns[0].response: kind is missing: write kind: text",),
    ),
    "no kind, and no guess": (
        scenario_with_response("reasoning: []"),
        (
            (
                "5:15: $.turns[0].response: kind is missing: write final-report, parts, react, "
                "structured, text or tool-call"
            ),
        ),
    ),
    "an unknown word": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}\nexpected_reasoning: enable"),
        (
            (
                '6:25: $.turns[0].expected_reasoning: "enable" is not one of disabled or enabled; '
                "did "
                "you mean enabled?"
            ),
        ),
    ),
    "no calls": (
        scenario_with_response("kind: tool-call, tool_calls: []"),
        ("5:45: $.turns[0].response.tool_calls: the list is empty: write at least one item",),
    ),
    "a span of three": (
        _HEAD + "turns: []\nchunks: {delay_ms: [1, 2, 3]}\n",
        ("4:20: $.chunks.delay_ms: the list has 3: write 2 numbers, [least, most]",),
    ),
    "a word for a span": (
        _HEAD + "turns: []\nchunks: {delay_ms: soon}\n",
        ('4:20: $.chunks.delay_ms: "soon" is text: write a number or [least, most]',),
    ),
    "a word for the turns": (
        _HEAD + "turns: first\n",
        ('3:8: $.turns: "first" is text: write a list, […]',),
    ),
    "a span the wrong way round": (
        _HEAD + "turns: []\nchunks: {delay_ms: [80, 30]}\n",
        ("4:10: $.chunks.delay_ms: the least, 80, is more than the most, 30: write [30, 80]",),
    ),
    "a span below zero": (
        "mock: {thinking_ms: [-1, 2]}\n",
        ("1:22: $.mock.thinking_ms[0]: -1 is too small: 0 is the least",),
    ),
    "no id": (
        "id: ''\ndescription: a\nturns: []\n",
        ("1:5: $.id: the text is empty: write at least one character",),
    ),
    "blanks around an id": (
        "id: ' a'\ndescription: a\nturns: []\n",
        (
            (
                "1:1: $.id: the id has blanks around it, so no message can name it: the blanks "
                "around a message do not count; take them away"
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
        ("5:6: $.turns[1].turn: there are two turns any: the first is in line 4",),
    ),
    "two turns of one number": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}", f"turn: 1\n{_RESPONSE}"),
        ("6:5: $.turns[1].turn: there are two turns 1: the first is in line 4",),
    ),
    "two scenarios of one id": (
        "- {id: a, description: b, turns: []}\n- {id: a, description: c, turns: []}\n",
        ('2:3: $[1]: there are two scenarios "a": the first is in line 1',),
    ),
    "two mocks": (
        "mock: {}\n---\nmock: {}\n",
        ("3:7: $.mock: there are two mocks, and only one can answer: the first is in line 1",),
    ),
    "a regular expression": (
        _HEAD + "turns: []\nmatch: {user: 'a('}\n",
        (
            (
                "4:9: $.match.user: this is no regular expression: missing ) at position 2; "
                "\\ before a character takes it as it is"
            ),
        ),
    ),
    "a pattern of a value": (
        _HEAD + "turns: []\nmatch: {json: {$.a: {matches: '*'}}}\n",
        (
            (
                "4:22: $.match.json['$.a'].matches: this is no regular expression: nothing to "
                "repeat at position 0; \\ before a character takes it as it is"
            ),
        ),
    ),
    "a JSONPath": (
        _HEAD + "turns: []\nmatch: {json: {'$.[': {exists: true}}}\n",
        (
            (
                "4:16: $.match.json['$.[']: this is no JSONPath: expected a shorthand selector; "
                "write it as in $.messages[0].content"
            ),
        ),
    ),
    "a template": (
        "templates: true\n"
        + scenario_with_response("kind: text, assistant_text: 'You {{ $.x[ }}'"),
        (
            (
                "6:28: $.turns[0].response.assistant_text: {{ $.x[ }} is no JSONPath: unexpected "
                "end of query"
            ),
        ),
    ),
    "ReAct that does nothing": (
        scenario_with_response("kind: react, thought: Hm."),
        (
            (
                "5:15: $.turns[0].response: the answer does nothing: give it an action, or a "
                "final_answer"
            ),
        ),
    ),
    "a function": (
        "mock: {respond: echo}\n",
        (
            (
                "1:8: $.mock.respond: there is no such field; respond is a function, and so only "
                "for Python: use reply or replies"
            ),
        ),
    ),
    "a list of names": (
        "scenaros: []\n",
        ("1:1: $.scenaros: there is no such field; did you mean scenarios?",),
    ),
    "no object": ("- 5\n", ("1:3: $[0]: 5 is a number: write an object",)),
    "only text": ("refund\n", ("1:1: $: a scenario is an object: write id, description, turns",)),
    "several at once": (
        "id: 1\ndescription: a\nturns:\n  - turn: one\n    response: {kind: txt}\n  - {}\n",
        (
            '1:5: $.id: 1 is a number: write text in quotes, "1"',
            '4:11: $.turns[0].turn: "one" is text: write a whole number or any',
            (
                '5:22: $.turns[0].response.kind: "txt" is not one of final-report, parts, react, '
                "structured, text or tool-call; did you mean text?"
            ),
            (
                "6:5: $.turns[1]: turn is missing: the number of the turn, from 1: the model's "
                "messages so far, and one; or `any`, for each turn that no other step is for"
            ),
            "6:5: $.turns[1]: response is missing: the answer; its `kind` says which fields it has",
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
                '7:5: $.turns[0].failure_status: it is played as model_error: "rate_limited" is '
                "not one "
                "of invalid_response, model_error, network_error, rate_limit or timeout; did you "
                "mean rate_limit?"
            ),
        ),
    ),
    "a failure that never comes": (
        scenario_with_turns(
            f"turn: 1\n{_RESPONSE}\nfailureStatus: timeout\nfailureRetryable: false"
        ),
        (
            (
                "6:5: $.turns[0].failureStatus: nothing fails here: write failures_before_success, "
                "how often to fail"
            ),
            (
                "7:5: $.turns[0].failureRetryable: nothing fails here: write "
                "failures_before_success, how often to fail"
            ),
        ),
    ),
    "a missing turn": (
        scenario_with_turns(f"turn: 1\n{_RESPONSE}", f"turn: 3\n{_RESPONSE}"),
        ("3:1: $.turns: turn 2 is missing, so a request for it gets a failure report",),
    ),
    "no turns": (
        _HEAD + "turns: []\n",
        ("3:1: $.turns: there are no turns, so every request fails",),
    ),
    "calls of one id": (
        scenario_with_response(
            "kind: tool-call, tool_calls: [{tool_name: a, call_id: call-2}, {tool_name: b}]"
        ),
        (
            (
                "5:79: $.turns[0].response.tool_calls[1]: two calls of this answer have the id "
                "call-2, so their results cannot be told apart"
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
                "5:82: $.turns[0].response.parts[1]: two calls of this answer have the id x, so "
                "their results cannot be told apart"
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
                "5:89: $.turns[0].response.reasoning[0].provider_metadata.google.thoughtSignature: "
                "Gemini's clients take a signature only as base64, and this is none"
            ),
        ),
    ),
    "two names of a time": (
        "mock: {thinkingMs: 1, delayMs: 2}\n",
        ("1:23: $.mock.delayMs: this is the old name of thinking_ms, which is given too and wins",),
    ),
}
"""Files that load: the text and all warnings."""
