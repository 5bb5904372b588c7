"""One file a standard dataset format: each registers a reader, found by importing this folder."""
