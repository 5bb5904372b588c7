"""Exact rules found by enumeration: small equal terms, proved, and not implied by the rules there are."""
