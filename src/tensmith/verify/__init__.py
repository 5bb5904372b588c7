"""Proofs of rules, checks of what was done to models, and the certificates that record both."""
