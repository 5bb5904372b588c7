"""What a candidate is worth: accuracy, size, latency, memory, energy, each with its uncertainty."""
