"""Devices: what they can do, what an operation costs on them in time and energy."""

from tensmith.hardware.cost import OpCost, op_seconds
from tensmith.hardware.cpu import BF16_DOT, INT8_DOT, Cpu, detect_cpu
from tensmith.hardware.energy import HOROWITZ_45NM, EnergyTable
from tensmith.hardware.host import detect_host
from tensmith.hardware.target import Target, load_target, target_names

__all__ = [
    "BF16_DOT",
    "HOROWITZ_45NM",
    "INT8_DOT",
    "Cpu",
    "EnergyTable",
    "OpCost",
    "Target",
    "detect_cpu",
    "detect_host",
    "load_target",
    "op_seconds",
    "target_names",
]
