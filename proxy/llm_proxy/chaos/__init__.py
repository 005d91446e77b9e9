"""Runs a command once for each fault of a plan and judges the results; see `docs/chaos.md`.

`plan` says what is tried, `trials` what a trial came to, `document` writes it all down.
"""
