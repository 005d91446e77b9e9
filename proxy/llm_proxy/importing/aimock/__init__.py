"""Imports aimock fixtures as scenarios; fixtures hold neither requests nor bytes.

fixtures   a file of fixtures as a file of scenarios
matching   which requests a fixture answers
answering  what it answers
timing     how its answer streams, and what goes wrong with it
losses     what of it no scenario says, or says otherwise
"""

from llm_proxy.importing.aimock.fixtures import (
    TITLE,
    ConvertedFixture,
    FixtureScenarios,
    convert_fixtures,
    is_fixture_file,
)

__all__ = ["TITLE", "ConvertedFixture", "FixtureScenarios", "convert_fixtures", "is_fixture_file"]
