"""The live providers: what is asked of them, and what comes back, to the last byte."""
