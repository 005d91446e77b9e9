"""Runs a command once for each fault of a plan and judges the results; see `docs/chaos.md`.

`plan` lists the faults, `trials` has the results, `document` is their JSON format.
"""
