"""Imports aimock fixtures as scenarios; fixtures hold neither requests nor bytes.

fixtures          converts a file of fixtures to a file of scenarios
match_conversion  converts the conditions on requests
responses         converts the response
timing            converts streaming and faults
"""

from llm_proxy.importing.aimock.fixtures import (
    TITLE,
    ConvertedFixture,
    FixtureScenarios,
    convert_fixtures,
    is_fixture_file,
)

__all__ = ["TITLE", "ConvertedFixture", "FixtureScenarios", "convert_fixtures", "is_fixture_file"]
