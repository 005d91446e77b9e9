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
"""
