"""Judges the clients of a run by its journal; see `docs/verdict.md`.

In reading order: `attempts` (requests, parsed from a journal document), `retry_chains` (the
attempts of one request), `finding` (rules and findings), `rules` (one rule per module), `judging`
(applies all rules to all chains), `document` and `junit` (the formats of a verdict).
"""
