"""Running a model file: an engine prepares it, a session answers, a worker process keeps it apart."""

from tensmith.engine.base import ENGINES, Engine, Session, available, engine
from tensmith.engine.signature import Signature, TensorSpec, read_signature
from tensmith.engine.worker import Worker

__all__ = [
    "ENGINES",
    "Engine",
    "Session",
    "Signature",
    "TensorSpec",
    "Worker",
    "available",
    "engine",
    "read_signature",
]
