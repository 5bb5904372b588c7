"""Training what compression left of a network to answer as the original does. Needs PyTorch.

meanings   what ops are in PyTorch
learning   constants that learn, in the form they have: codes on a grid, a codebook, floats; zeros that stay
learnable  which constants of a program learn, and in which of these forms
network    a program as a function that PyTorch differentiates
feed       samples to train on, changed in ways that the original does not mind
coded_size what codes take in a file, as a part of the loss
known      what the original answers to batches that come again
distill    how far a network's answers are from the original's
gradients  of that distance, in the form that is fastest here
training   steps that fit a time, the best weights kept, stopped and gone on with at any moment
teacher    the original, what is learned from it, and how that is kept
"""

import importlib
import importlib.util

from tensmith.errors import MissingExtra, TensmithError, first_line


def demand_torch(wanted_by: str) -> None:
    """MissingExtra without PyTorch; TensmithError where it is there and does not load."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra(wanted_by, "torch")
    try:
        importlib.import_module("torch")
    except Exception as error:
        raise TensmithError(
            f"{wanted_by} needs PyTorch, which is here and does not load: {first_line(error)}; "
            "pip install 'tensmith[torch]' installs one that does"
        ) from error
