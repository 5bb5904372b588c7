"""The errors a user sees: each says what is wrong, where, and what to do about it."""

from __future__ import annotations


class TensmithError(Exception):
    """Base of every error that tensmith raises on purpose; the CLI prints it and exits with `exit_code`."""

    exit_code = 1


class UsageError(TensmithError):
    """The command, its options or a configuration file are wrong."""

    exit_code = 2


class ModelError(TensmithError):
    """A model file is missing, damaged, or holds something that cannot be imported."""


class DataError(TensmithError):
    """A dataset is missing, damaged, empty, or does not match the model."""


class ProgramError(TensmithError):
    """A TensIR program is not well formed: an undefined value, a type mismatch, a wrong attribute."""


class OutputError(TensmithError):
    """An output folder cannot be written, belongs to another run, or holds a damaged file."""


class EngineError(TensmithError):
    """An engine is not installed, or cannot run a program."""


class VerificationError(TensmithError):
    """A certificate, a hash or a proof does not hold."""


class MissingExtra(TensmithError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'tensmith[{extra}]'")
