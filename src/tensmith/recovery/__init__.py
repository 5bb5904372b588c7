"""Training what compression left of a network to answer as the original does. Needs PyTorch.

meanings   what ops are in PyTorch
learning   constants that learn, in the form they have: codes on a grid, a codebook, floats; zeros that stay
network    a program as a function that PyTorch differentiates
feed       samples to train on, changed in ways that the original does not mind
distill    how far a network's answers are from the original's
training   steps that fit a time, the best weights kept, stopped and gone on with at any moment
"""
