"""Searches for equal programs: extraction with a proved bound, and what it finds."""
