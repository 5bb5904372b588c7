"""What makes a run the run it is: a resumed one must ask the same question of the same things."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensmith.config import Config
from tensmith.files import sha256_bytes, sha256_file

Identity = dict[str, Any]

# What a resumed run may change. The model is known by its hash, not by its path; who does the work shows in
# no answer.
_FREE = ("model", "time_budget", "recover", "prefer", "workers", "ray")
# Values that are the same in words in every process.
_PLAIN = (str, bytes, int, float, type(None))
_CHANGED = {
    "model": "another model file",
    "data": "other data: its labels, its samples or their number have changed",
    "evaluation": "another evaluation function",
    "decode": "another function to decode with: its file has changed",
}


def run_identity(
    config: Config, model: str, data: str, evaluation: Callable[..., float] | None = None
) -> Identity:
    """A JSON object of the options, the hashes of the model and of the data, and the user's function."""
    asked = config.model_dump(mode="json", exclude=set(_FREE))
    asked["plan"] = sha256_file(Path(config.plan)) if config.plan else ""
    file = Path(config.decode.rpartition(":")[0])
    decode = sha256_file(file) if file.suffix == ".py" and file.is_file() else None
    return {
        "config": asked,
        "model": model,
        "data": data,
        "evaluation": function_identity(evaluation),
        "decode": decode,
    }


def difference(before: Mapping[str, Any], now: Identity) -> str | None:
    """What `before` was made with that is not as it is now, in words; None if nothing."""
    for option, value in now["config"].items():
        if before["config"].get(option) != value:
            return f"another {option}"
    return next((words for key, words in _CHANGED.items() if before.get(key) != now[key]), None)


def function_identity(function: Callable[..., Any] | None) -> Identity | None:
    """Name and hash of the source of a function, or of the class of a callable object.

    The source is None where there is none (built in, typed at a prompt); what it calls is not looked at. What
    a partial function was given, the object of a method, and the plain values that an object or a function
    holds, belong to it.
    """
    if function is None:
        return None
    if isinstance(function, functools.partial):
        given = _lasting((function.args, sorted(function.keywords.items())))
        return {**(function_identity(function.func) or {}), "given": given}
    if inspect.ismethod(function):
        holder: Any = function.__self__
        return {**(function_identity(function.__func__) or {}), "of": function_identity(holder)}
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    try:
        source: str | None = sha256_bytes(inspect.getsource(named).encode())
    except (OSError, TypeError):
        source = None
    found = {"name": f"{named.__module__}.{named.__qualname__}", "source": source}
    plain = sorted((name, value) for name, value in _held(function).items() if isinstance(value, _PLAIN))
    return {**found, "held": _lasting(plain)} if plain else found


def _held(function: Callable[..., Any]) -> Mapping[str, Any]:
    """What a function closes over and has as defaults, or what an object that is called holds, by name."""
    if inspect.isfunction(function):
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        defaults = {parameter.name: parameter.default for parameter in parameters}
        return {**defaults, **inspect.getclosurevars(function).nonlocals}
    return {} if hasattr(function, "__qualname__") else getattr(function, "__dict__", {})


def _lasting(value: object) -> str:
    """A value in words, without the addresses that another process gives other things."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
