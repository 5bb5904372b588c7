"""Exact rules, one family a file. Each is proved for all sizes, and its wrong twin is refuted."""
