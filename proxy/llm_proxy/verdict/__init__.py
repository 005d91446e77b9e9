"""Judges the clients of a run by its journal; see `docs/verdict.md`.

In reading order: `attempts` (requests, read from a journal document), `chains` (the attempts of
one request), `finding` (what is said of a chain), `rules` (what is looked for, one rule a file),
`judging` (all rules over all chains), `document` and `junit` (how the verdict is written down).
"""
