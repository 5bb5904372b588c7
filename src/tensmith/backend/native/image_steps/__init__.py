"""Steps over images, which lie in blocks of channels or as planes."""
