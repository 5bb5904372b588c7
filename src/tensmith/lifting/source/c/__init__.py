"""C and C++: libclang parses, each function becomes one of the loop language."""
