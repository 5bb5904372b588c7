import math

import numpy as np


def bent(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * math.erf(x[i] / math.sqrt(2))
    return y


def turned(x: np.ndarray) -> np.ndarray:
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = np.arcsinh(x[i]) + np.arctan(x[i])
    return y
