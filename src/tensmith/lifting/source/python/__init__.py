"""Python: `ast` parses, each function becomes one of the loop language."""
