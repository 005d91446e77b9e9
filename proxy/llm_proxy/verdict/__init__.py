"""Judges the clients of a run by its journal; see `docs/reference/verdict.md`.

In reading order: `retry_chains` (the attempts of one request, among the entries of a journal),
`findings` (findings and their evidence), `rules` (all rules), `judging` (applies all rules to all
chains: the verdict), `junit` (a verdict as JUnit XML).
"""
