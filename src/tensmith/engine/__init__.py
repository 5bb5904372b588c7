"""Running a model file: an engine prepares it, a session answers, a worker process keeps it apart."""

from tensmith.engine.base import ENGINES, Engine, Session, available, engine
from tensmith.engine.signature import ModelSignature, TensorSpec, read_signature
from tensmith.engine.worker import SessionWorker

__all__ = [
    "ENGINES",
    "Engine",
    "ModelSignature",
    "Session",
    "SessionWorker",
    "TensorSpec",
    "available",
    "engine",
    "read_signature",
]
