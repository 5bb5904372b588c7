"""The reference pages about what others call and read: the command line, Python, file formats."""

from __future__ import annotations

import importlib
import inspect
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from docs.markup import NOTE, cell, code, document, fields, paragraphs, signature
from typer.models import OptionInfo

import tensmith
from tensmith import cli, errors
from tensmith.backend.packed import container
from tensmith.cli.command import app
from tensmith.compression import Interrupted
from tensmith.config import Config
from tensmith.deploy.front import Front, FrontPoint
from tensmith.deploy.generation import Sampling
from tensmith.deploy.model import Model
from tensmith.ir import text
from tensmith.lifting.decorator import LiftWarning
from tensmith.quantization import Quantization, RoundedTensor
from tensmith.report.metric import Metric
from tensmith.search import checkpoint
from tensmith.study import plan, results
from tensmith.study.plan import StudyPlan
from tensmith.superoptimize.decorator import OptimizeWarning
from tensmith.verify import lift_certificate
from tensmith.verify.schema import Certificate

# What every command has.
_COMMON = ("json", "debug")
# What stands for the value of an option that gives no name to it.
_VALUES: dict[Any, str] = {
    kind: value
    for one, value in ((int, "N"), (float, "NUMBER"), (Path, "PATH"))
    for kind in (one, one | None)
}


def cli_page() -> str:
    """docs/cli.md: every command with its arguments and options."""
    for name in cli._COMMANDS:
        importlib.import_module(f"tensmith.cli.{name}")
    commands = {command.name: command for command in app.registered_commands}
    lines = ["# Command line", "", f"{NOTE} from `tensmith.cli`.", ""]
    lines += [
        "Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 130 interrupted. An error is one sentence "
        "on stderr. `tensmith --version` prints the versions of tensmith and of the engines that are "
        "installed. Every command has these options:",
        "",
        *_table([parameter for parameter in _parameters(commands["doctor"]) if parameter.name in _COMMON]),
        "",
    ]
    for name in cli._COMMANDS:
        lines += _command(commands[name])
    return "\n".join(lines)


def _command(command: Any) -> Iterator[str]:
    own = [parameter for parameter in _parameters(command) if parameter.name not in _COMMON]
    yield from (f"## {command.name}", "", paragraphs(command.help), "")
    yield from (*_table(own), "") if own else ()
    yield from (f"Example: `{command.epilog.partition('Example: ')[2]}`", "")


def _parameters(command: Any) -> Iterable[inspect.Parameter]:
    return inspect.signature(command.callback).parameters.values()


def _table(parameters: Iterable[inspect.Parameter]) -> list[str]:
    return ["| option | what it is | default |", "| --- | --- | --- |", *map(_option, parameters)]


def _option(parameter: inspect.Parameter) -> str:
    """A row: an argument, or an option and its value."""
    kind, declared = parameter.annotation.__origin__, parameter.annotation.__metadata__[0]
    told, _, default = " ".join(declared.help.split()).partition(" [default: ")
    value = name = declared.metavar or _VALUES.get(kind, "WORD")
    if isinstance(declared, OptionInfo):
        # In an annotation the first word of Option is the option's own name, if it has one.
        own = f"--{parameter.name.replace('_', '-')}" if declared.default is ... else declared.default
        name = own if kind in (bool, bool | None) else f"{own} {value}"
    if parameter.default is parameter.empty:
        default = "required"
    elif not default and parameter.default is not None and parameter.default is not False:
        default = "on" if parameter.default is True else str(parameter.default).removesuffix(".0")
    return f"| {code(name)} | {cell(told)} | {cell(default.removesuffix(']'))} |"


def python_page() -> str:
    """docs/python.md: what `import tensmith` gives, what that returns, and what it raises."""
    lines = ["# Python", "", f"{NOTE} from `tensmith`.", ""]
    for name in ("compress", "quantize", "load", "lift", "optimize"):
        lines += _function(f"tensmith.{name}", getattr(tensmith, name), "##")
        if name == "compress":
            lines += _options()
    returned = {"tensmith.Front": Front, "FrontPoint": FrontPoint, "Metric": Metric, "Model": Model}
    returned |= {"Quantization": Quantization, "RoundedTensor": RoundedTensor, "tensmith.Sampling": Sampling}
    for name, kind in returned.items():
        lines += [f"## {name}", "", document(kind), "", *_members(kind)]
    lines += ["## Errors and warnings", "", "Each error says what is wrong, where, and what to do.", ""]
    kinds = [k for k in vars(errors).values() if inspect.isclass(k) and issubclass(k, errors.TensmithError)]
    for kind in (*kinds, Interrupted, LiftWarning, OptimizeWarning):
        lines += [f"- `{kind.__module__}.{kind.__name__}`: {document(kind)}"]
    return "\n".join(lines)


def _function(name: str, function: Callable[..., Any], heading: str) -> list[str]:
    return [f"{heading} {name}", "", signature(name.rpartition(".")[2], function), "", document(function), ""]


def _options() -> Iterator[str]:
    """The options of compress, which are the fields of its configuration."""
    yield from (
        document(Config),
        "",
        "Options mean what they mean [on the command line](cli.md#compress).",
        "",
    )
    yield from ("| option | type | default |", "| --- | --- | --- |")
    for name, field in Config.model_fields.items():
        if not field.is_required():
            kind = inspect.formatannotation(field.annotation).replace("Literal", "").replace("typing.", "")
            yield f"| `{name}` | {code(kind)} | `{field.default!r}` |"
    yield ""


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties that a class declares."""
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if callable(getattr(kind, name)):
            yield from _function(f"{kind.__name__}.{name}", getattr(kind, name), "###")
        elif about := inspect.getdoc(member) if hasattr(member, "__get__") else None:
            yield from (f"### {kind.__name__}.{name}", "", paragraphs(about), "")


def formats_page() -> str:
    """docs/formats.md: the files that tensmith writes for others to read."""
    lines = ["# File formats", "", f"{NOTE} from the modules that read and write them.", ""]
    lines += ["`front.json` has [a page of its own](front.md); `config.yaml` holds [the options](python.md) "]
    lines += ["of a compression, one a line.", ""]
    for title, model in {"certificate.json": Certificate, "study.yaml": StudyPlan}.items():
        schema = model.model_json_schema()
        lines += [f"## {title}", "", *fields(title, schema)]
        lines += _study_values() if model is StudyPlan else ()
        for name, part in schema["$defs"].items():
            lines += [f"### {name}", "", *fields(name, part)]
    for title, module in {"F.cert": lift_certificate, "model.packed": container, "TensIR": text}.items():
        lines += [f"## {title}", "", document(module), ""]
    for title, module, kind in (
        ("run.sqlite", checkpoint, checkpoint.Checkpoint),
        ("study.sqlite", results, results.Results),
    ):
        lines += [f"## {title}", "", document(module), "", *(f"    {table}" for table in _tables(kind)), ""]
    return "\n".join(lines)


def _study_values() -> Iterator[str]:
    """What the layers of a study may name."""
    ladders = "; ".join(f"`{name}: [{', '.join(map(str, steps))}]`" for name, steps in plan.LADDERS.items())
    values = {
        "optimizations": f"{_listed(plan.PLAIN)}; {ladders}, or the name alone for that ladder; "
        f"`{plan.TRAINED}: [...]` of any that takes numbers or samples",
        "algorithms": _listed(plan.ALGORITHMS),
        "systems": _listed(plan.SYSTEMS),
        "hardware": f"`cpu:THREADS`, `estimated:TARGET` ([targets](targets.md)), {_listed(plan.DEVICES)}",
        "measure": _listed(plan.MORE_FIGURES),
    }
    yield from ("| layer | what it may name |", "| --- | --- |")
    yield from (f"| `{layer}` | {cell(told)} |" for layer, told in values.items())
    yield ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _tables(kind: Callable[[Path], Any]) -> list[str]:
    """The tables of a fresh database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fresh.sqlite"
        kind(path)
        with sqlite3.connect(path) as database:
            return [sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
