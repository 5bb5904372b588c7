"""TensIR: types, ops, programs, their text form and the reference interpreter."""

from tensmith.ir.interpreter import interpret
from tensmith.ir.op import OPS, Node
from tensmith.ir.program import Origin, Program, make_node
from tensmith.ir.types import TensorType

__all__ = ["OPS", "Node", "Origin", "Program", "TensorType", "interpret", "make_node"]
