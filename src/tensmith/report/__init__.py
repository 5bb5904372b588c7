"""Showing a run: document in, page (page.py), terminal table (text.py) or picture (figure.py) out."""
