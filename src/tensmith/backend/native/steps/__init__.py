"""What a native program does, in order: nodes of a program become steps, over images and over tensors."""
