"""Tensor codecs, one file each; the smallest result wins for each tensor."""
