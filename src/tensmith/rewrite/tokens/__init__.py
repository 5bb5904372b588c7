"""Decoders of tokens: caches for them, and the proof that no row depends on a later token."""
