"""The live providers: sends requests and reads responses to the last byte."""
