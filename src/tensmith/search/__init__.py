"""Finding good candidates: what to try next, what to keep, and what survives an interruption."""
