"""Which kernel computes each heavy step, and in which parts."""
