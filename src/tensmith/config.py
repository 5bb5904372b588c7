"""The configuration of a compression: what `config.yaml` holds, and what every option means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from tensmith.data.split import CALIBRATION, SEARCH
from tensmith.engine.base import MOST_THREADS
from tensmith.errors import UsageError, nearest
from tensmith.files import at_home
from tensmith.yaml_text import YamlPart, faulty, yaml_document

# What a run's folder keeps its configuration in.
CONFIG_FILE = "config.yaml"

_TIME_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_SIZE_UNITS = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "": 1,
}


def _seconds(value: Any) -> Any:
    return _parsed(parse_seconds, value) if isinstance(value, str) else value


def _seconds_or_none(value: Any) -> Any:
    """Seconds of what may be left out, as by "0"."""
    none = isinstance(value, str) and re.fullmatch("0+[smh]?", value.strip())
    return 0.0 if none else _seconds(value)


def _bytes(value: Any) -> Any:
    return _parsed(parse_bytes, value) if isinstance(value, str) else value


def _parsed(parse: Callable[[str], float], text: str) -> float:
    """What a text says; ValueError, to which pydantic adds the option's name, where it says nothing."""
    try:
        return parse(text)
    except UsageError as error:
        raise ValueError(str(error)) from error


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _path(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _at_home(path: str) -> str:
    return str(at_home(path)) if path.startswith("~") else path


def _known_methods(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        return names
    from tensmith.search.plan_file import known_methods  # a search brings rules and engines with it

    return known_methods(names)


def _known_search(name: str) -> str:
    from tensmith.search.strategy import STRATEGIES  # a search brings rules and engines with it

    if name not in STRATEGIES:
        raise ValueError(f"there is no search '{name}'{nearest(name, list(STRATEGIES))}")
    return name


class Config(YamlPart):
    """One run. Times in seconds (or "10m"), sizes in bytes (or "500KB"), latencies in milliseconds.

    Drops are in points of accuracy or of average precision, in per cent of a loss, or in per cent of error of
    outputs (fidelity).
    """

    model: Annotated[str, AfterValidator(_at_home)]
    data: str = ""
    preprocess: str = "auto"
    measure: Literal["auto", "accuracy", "agreement", "loss", "average-precision", "fidelity", "score"] = (
        "auto"
    )
    decode: str = ""
    target: str = "host"
    engines: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    threads: int = Field(1, ge=1, le=MOST_THREADS)
    max_drop: float = Field(0.5, ge=0)
    max_size: Annotated[int | None, BeforeValidator(_bytes)] = Field(None, gt=0)
    max_latency: float | None = Field(None, gt=0)
    max_memory: Annotated[int | None, BeforeValidator(_bytes)] = Field(None, gt=0)
    max_energy: float | None = Field(None, gt=0)
    alpha: float = Field(1.0, ge=0)
    beta: float = Field(1.0, ge=0)
    prefer: Literal["size", "latency", "balanced"] = "balanced"
    search: Annotated[str, AfterValidator(_known_search)] = "beam"
    keep: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    only: Annotated[tuple[str, ...], BeforeValidator(_several), AfterValidator(_known_methods)] = ()
    plan: Annotated[str, BeforeValidator(_path), AfterValidator(_at_home)] = ""
    hardware: bool = True
    time_budget: Annotated[float, BeforeValidator(_seconds)] = Field(600.0, gt=0)
    recover: Annotated[float, BeforeValidator(_seconds_or_none)] = Field(0.0, ge=0)
    calibration_samples: int = Field(CALIBRATION, ge=1)
    search_samples: int = Field(SEARCH, ge=1)
    held_out_samples: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, lt=2**32)
    workers: int = Field(1, ge=1, le=256)
    ray: str = ""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth(cls, value: Any, info: ValidationInfo) -> Any:
        """What YAML reads where a file says yes or on: as a number it would be 1."""
        if isinstance(value, bool) and info.field_name != "hardware":
            raise ValueError("true and false are for hardware alone")
        return value

    def to_yaml(self) -> str:
        """The configuration as YAML, every default spelled out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class OptionError(UsageError):
    """An option is wrong, or there is none of its name."""

    def __init__(self, option: str, error: Any) -> None:
        super().__init__(_wrong(option, option, error))
        self.option, self._error = option, error

    def called(self, name: str) -> str:
        """The same sentence, the option called as its user knows it."""
        return _wrong(self.option, name, self._error)


def make_config(**options: Any) -> Config:
    """A configuration from options; OptionError naming the one that is wrong."""
    try:
        return Config(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise OptionError(str(first["loc"][0]), first) from error


def _wrong(option: str, name: str, error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return f"there is no option '{name}'{nearest(option, list(Config.model_fields), 8)}"
    return faulty(name, error)


def read_config(path: Path) -> dict[str, Any]:
    """The options in a YAML file; UsageError if it is missing, too large, or not a mapping."""
    document = yaml_document(path)
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise UsageError(f"{path} holds no options; start from the config.yaml of a finished run")
    return document


def refuse_code(options: Mapping[str, Any], path: Path) -> None:
    """UsageError where options of the file at `path`, perhaps a stranger's, name code that would be run."""
    data, decode, ray = (str(options.get(name) or "") for name in ("data", "decode", "ray"))
    if data.startswith("python:"):
        raise UsageError(f"{path} would run code for its data, {data}; if you trust it, say so by --data")
    if ".py" in decode:
        raise UsageError(f"{path} would run the code of {decode}; if you trust it, say so by --decode")
    if ray:
        raise UsageError(f"{path} would share work with the cluster {ray}; if you trust it, say so by --ray")


def parse_seconds(text: str) -> float:
    """Seconds of "90", "90s", "10m" or "1.5h"."""
    return _with_unit(text, _TIME_UNITS, "a time such as 90s, 10m or 1h")


def parse_bytes(text: str) -> int:
    """Bytes of "500000", "500KB" or "1.5MiB"."""
    return int(_with_unit(text, _SIZE_UNITS, "a size such as 500KB or 2MiB"))


def _with_unit(text: str, units: dict[str, Any], wanted: str) -> float:
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in units or float(found[1]) <= 0:
        raise UsageError(f"'{text}' is not {wanted}")
    value = float(found[1]) * float(units[found[2].lower()])
    if not math.isfinite(value):
        raise UsageError(f"'{text}' is too large to be {wanted}")
    return value
