"""What every command shares: --json and --debug, errors as one sentence, exit codes, Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tensmith import __version__
from tensmith.cache import CacheWarning
from tensmith.cli.terminal import complain, show, show_json
from tensmith.errors import TensmithError, first_line, system_sentence
from tensmith.files import at_home

INTERRUPTED = 130

app = typer.Typer(
    name="tensmith",
    help="Makes trained models smaller and faster, and says exactly what it knows about the result.",
    epilog="Example: tensmith compress model.onnx --data cifar10:DIR --max-drop 0.5",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: loading rich would cost half the time of `tensmith --help`
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True)
class Answer:
    """What a command found: `document` for --json; for people `shown`, sentences and rich renderables."""

    document: Any
    shown: Sequence[Any]
    exit_code: int = 0


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo("\n".join((f"tensmith {__version__}", *_engine_lines())))
        raise typer.Exit


def not_loaded() -> str | None:
    """How a plugin failed to load, if one did; what is registered stays."""
    from tensmith.engine.base import ENGINES

    try:
        len(ENGINES)
    except Exception as error:
        return first_line(error)
    return None


def _engine_lines() -> Iterator[str]:
    """The engines that are there with their versions; of what fails, how."""
    from tensmith.engine.base import ENGINES

    if failed := not_loaded():
        yield f"  not everything could be loaded: {failed}"
    for name, engine in ENGINES.items():
        try:
            if engine.missing() is None:
                yield f"  {name} {engine.version()}"
        except Exception as error:
            yield f"  {name}: {first_line(error)}"


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the versions of tensmith and of the engines that are installed.",
        ),
    ] = False,
) -> None:
    pass


_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")]
_DEBUG = Annotated[bool, typer.Option("--debug", help="Print the whole traceback of an error.")]


def command(
    example: str, aborted: str = "nothing was written"
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Registers a function as the command of its name, and gives it --json and --debug.

    `aborted` says what an interrupt leaves behind that does not say so itself.
    """

    def register(function: Callable[..., Answer]) -> Callable[..., Answer]:
        def run(*, json: bool, debug: bool, **options: Any) -> None:
            meant = {name: _meant(value) for name, value in options.items()}
            raise typer.Exit(_outcome(lambda: function(**meant), json, debug, aborted))

        signature = inspect.signature(function, eval_str=True)
        parameters = [
            *signature.parameters.values(),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
                for name, kind in (("json", _JSON), ("debug", _DEBUG))
            ),
        ]
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=None
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(function.__name__, help=inspect.getdoc(function), epilog=f"\b\nExample: {example}")(run)
        return function

    return register


def _meant(value: Any) -> Any:
    """An option's value, its paths as their user means them."""
    if isinstance(value, list):
        return [_meant(item) for item in value]
    return at_home(value) if isinstance(value, Path) else value


def _outcome(call: Callable[[], Answer], as_json: bool, debug: bool, aborted: str) -> int:
    """The exit code of a command; what it found is printed, what went wrong is one sentence on stderr."""
    try:
        with _interrupts_as_exceptions(), _warnings_as_sentences():
            answer = call()
        show_json(answer.document) if as_json else show(answer.shown)
        return answer.exit_code
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            complain(traceback.format_exc().rstrip())
        complain(f"error: {' '.join(_sentence(error, aborted).split())}")
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        return error.exit_code if isinstance(error, TensmithError) else 1


@contextlib.contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """What is said of the user's cache is a sentence on stderr; where it comes from is nobody's business."""
    usual = warnings.formatwarning

    def formatted(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        own = issubclass(category, CacheWarning)
        return f"warning: {message}\n" if own else usual(message, category, *where, **more)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _sentence(error: BaseException, aborted: str) -> str:
    """What an error says to a user: what is wrong, where, and what to do."""
    if isinstance(error, TensmithError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted; {error if error.args else aborted}"
    if isinstance(error, OSError):
        otherwise = "check the path" if error.errno == errno.ENOENT else "see why with --debug"
        return system_sentence(error, otherwise)
    if isinstance(error, MemoryError):
        return "there is not enough memory; close other programs or use a smaller model"
    return (
        f"tensmith failed ({type(error).__name__}: {first_line(error)}); see why with --debug, and report it"
    )


@contextlib.contextmanager
def _interrupts_as_exceptions() -> Iterator[None]:
    """Ctrl-C, unless it is ignored, raises KeyboardInterrupt from here on, and so does SIGTERM here."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
