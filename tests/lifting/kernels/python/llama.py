"""The inner loops of a transformer's forward pass."""

import math


def rmsnorm_part1(x: list[float], weight: list[float]) -> float:
    ss = 0.0
    for value in x:
        ss += value * value
    return ss


def rmsnorm_part2(x: list[float], weight: list[float], ss: float) -> list[float]:
    scale = 1.0 / math.sqrt(ss / len(x) + 1e-5)
    out = []
    for i in range(len(x)):
        out.append(weight[i] * (scale * x[i]))
    return out


def softmax_part1(x: list[float], max_pos: int) -> float:
    max_val = x[0]
    for i in range(1, max_pos):
        if x[i] > max_val:
            max_val = x[i]
    return max_val


def softmax_part2(x: list[float], max_pos: int, max_val: float) -> list[float]:
    return [math.exp(x[i] - max_val) for i in range(max_pos)]


def softmax_part3(x: list[float], max_pos: int) -> float:
    total = 0.0
    for i in range(max_pos):
        total += x[i]
    return total


def softmax_part4(x: list[float], max_pos: int, total: float) -> list[float]:
    out = []
    for i in range(max_pos):
        out.append(x[i] / total)
    return out


def transformer_part1(tokens: int, head: int, head_size: int, keys: list[list[float]], query: list[float]):
    attention = []
    for t in range(tokens):
        score = 0.0
        for i in range(head_size):
            score += query[head * head_size + i] * keys[t][head * head_size + i]
        score /= math.sqrt(head_size)
        attention.append(score)
    return attention


def transformer_part2(
    position: int, head: int, head_size: int, values: list[list[float]], attention: list[float]
):
    xb = []
    for i in range(head_size):
        total = 0.0
        for t in range(position + 1):
            total += attention[t] * values[t][head * head_size + i]
        xb.append(total)
    return xb


def transformer_part3(x: list[float], hidden_dim: int) -> list[float]:
    out = []
    for i in range(hidden_dim):
        out.append(x[i] * (1 / (1 + math.exp(-x[i]))))
    return out


def transformer_part4(x: list[float], y: list[float], hidden_dim: int) -> list[float]:
    out = []
    for i in range(hidden_dim):
        out.append(x[i] * y[i])
    return out


def matmul(weight: list[list[float]], x: list[float]) -> list[float]:
    out = []
    for row in weight:
        total = 0.0
        for w, v in zip(row, x):
            total += w * v
        out.append(total)
    return out
