"""A command, run once for each fault of a plan, and what came of it; see `docs/chaos.md`.

`plan` says what is tried, `trials` what a trial came to, `document` writes it all down.
"""
