"""Judges the clients of a run by its journal; see `docs/verdict.md`.

In reading order: `retry_chains` (the attempts of one request, among the entries of a journal),
`findings` (rules and findings), `rules` (one rule per module), `judging` (applies all rules to all
chains: the verdict), `junit` (a verdict as JUnit XML).
"""
