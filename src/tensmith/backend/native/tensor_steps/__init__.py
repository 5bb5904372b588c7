"""Steps over tensors, which lie dense."""
