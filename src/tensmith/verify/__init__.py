"""Proofs of rules, exact checks of whole programs, and the certificates that record both."""
