"""Lossy methods, one a file: none claims exactness, and each is priced by measurement."""
