"""From a running stream to a cassette in the library, whatever happens on the way."""
