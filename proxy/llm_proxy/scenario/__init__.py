"""Scripted conversations: documents read, chosen, checked, and directed; see `docs/scenarios.md`.

document     what a scenario document may say
directions   what a request is answered with, before any dialect speaks
loading      files: everything in them, and everything that is wrong with them
checking     documents checked against their structs, with the place of each mistake
    names        other spellings of fields and words; what was probably meant
    type_choice  which of a field's types a value is to have
    wrong_types  what is said of a value that is none of them
    sense        rules that types cannot say
    findings     what those find
    mistakes     what is wrong, and where
reading      YAML and JSON with the place of each value
schema       the JSON Schema of files
templates    what a request says, filled into texts
react        calls of tools as text, for models that are offered none
made_values  values that fit a JSON Schema
    json_schema  schemas read and merged, and values of each type
    rolls        chance that repeats
from_cassettes  recorded exchanges as a scenario
    from_turns   what was said as an answer of one
    yaml_writing  values as YAML that people edit
"""
