"""Writing programs out: one file a target."""
