"""Which kernel is the fastest for each layer: candidates are timed one by one and remembered."""
