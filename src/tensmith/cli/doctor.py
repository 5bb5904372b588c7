"""`tensmith doctor`: what is installed, what is missing, and what this machine can do."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from typing import Any

from tensmith import __version__
from tensmith.cli.command import Answer, command, not_loaded
from tensmith.cli.progress import progress
from tensmith.errors import first_line

_GIB = 1 << 30
_NEEDS = ", needs "


@command(example="tensmith doctor")
def doctor() -> Answer:
    """Show what is installed, which extras are missing and how to get them, and what this CPU can do; run a
    tiny model on every engine. Exit code 1 if an installed engine or a plugin fails."""
    from tensmith.engine.base import ENGINES
    from tensmith.engine.selftest import self_test

    loading = not_loaded()
    with progress("measuring the machine") as tell:
        document: dict[str, Any] = {
            "tensmith": __version__,
            "python": platform.python_version(),
            "packages": _packages(""),
            "extras": {extra: _packages(extra) for extra in _extras()},
            "machine": _machine(),
        }
        tell("reading the table of kernels")
        document["kernel_table"] = _kernel_table()
        engines, missing = [], {}
        for name, engine in ENGINES.items():
            tell(f"testing {name}")
            version = seconds = failure = None
            try:
                if (reason := engine.missing()) is not None:
                    missing[name] = reason
                    continue
                version, seconds = engine.version(), self_test(name)
            except Exception as error:  # of what is half removed, too
                failure = first_line(error)
            engines.append({"engine": name, "version": version, "seconds": seconds, "error": failure})
    document |= {"engines": engines, "missing_engines": missing, "loading": loading}
    failed = any(engine["error"] for engine in engines)
    return Answer(document, _lines(document), int(failed or loading is not None))


def _extras() -> list[str]:
    try:
        return list(importlib.metadata.metadata("tensmith").get_all("Provides-Extra") or [])
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return []


def _packages(extra: str) -> dict[str, str | None]:
    """The version of each package that tensmith, or one of its extras, asks for on this machine, with what it
    needs where it is another; None where it is missing.

    A package has several names where one is a variant for CPUs: whichever is there counts.
    """
    from packaging.requirements import Requirement

    try:
        required = importlib.metadata.requires("tensmith") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, str | None] = {}
    for line in required:
        wanted = Requirement(line)
        marked = re.search(r"extra == \"([^\"]+)", str(wanted.marker))
        if (marked[1] if marked else "") != extra:
            continue
        version = _version(wanted.name)
        if version is not None and not wanted.specifier.contains(version, prereleases=True):
            version = f"{version}{_NEEDS}{wanted.specifier}"
        if version is not None or wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            found[wanted.name] = version
    there = {_family(name) for name, version in found.items() if version is not None}
    return {name: version for name, version in found.items() if version or _family(name) not in there}


def _family(package: str) -> str:
    return package.removesuffix("-cpu")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    from tensmith.evaluate.energy import nvml_counter, rapl_counter
    from tensmith.hardware import detect_cpu, detect_host

    cpu, host = detect_cpu(), detect_host()
    return {
        "cpu": cpu.model,
        "architecture": cpu.architecture,
        "features": sorted(cpu.features),
        "int8_dot": cpu.has_int8_dot,
        "threads": cpu.cores,
        "frequency_ghz": cpu.frequency_ghz,
        "cache_bytes": list(cpu.cache_bytes),
        "ram_bytes": host.ram_bytes,
        "peak_gflops": host.peak_gflops,
        "bandwidth_gbs": host.bandwidth_gbs,
        "sources": host.sources.model_dump(),
        "rapl": rapl_counter() is not None,
        "nvml": nvml_counter() is not None,
    }


def _kernel_table() -> dict[str, Any]:
    """How much of what measured best elsewhere holds for this CPU and this version of the kernels."""
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.shipped import shipped

    table = shipped(host_isa())
    return {"isa": table.isa.name, "entries": len(table.entries), "stale": table.stale}


def _lines(document: dict[str, Any]) -> list[str]:
    machine, table = document["machine"], document["kernel_table"]
    peaks = ", ".join(f"{dtype} {rate:,.0f}" for dtype, rate in machine["peak_gflops"].items())
    caches = ", ".join(f"{size / 1024:,.0f} KiB" for size in machine["cache_bytes"])
    lines = [
        f"tensmith {document['tensmith']}, Python {document['python']}",
        "",
        "Machine",
        f"  cpu        {machine['cpu']}, {machine['architecture']}",
        f"  threads    {machine['threads']}",
        f"  features   {', '.join(machine['features']) or 'none known'}",
        f"  int8       {'one-step dot products' if machine['int8_dot'] else 'no dot product: 7-bit weights'}",
        f"  peak       {peaks} billion operations a second, estimated",
        f"  memory     {machine['bandwidth_gbs']:.1f} GB/s, measured; {machine['ram_bytes'] / _GIB:.1f} GiB",
        f"  caches     {caches or 'not known'}",
        f"  energy     {_energy(machine)}",
        f"  kernels    {table['entries']} layers known for {table['isa']}, {table['stale']} out of date",
        "",
        "Engines",
    ]
    if document["loading"]:
        lines.append(f"  not everything could be loaded: {document['loading']}")
    for engine in document["engines"]:
        verdict = engine["error"] or f"works, {engine['seconds']:.1f} s to start and answer"
        lines.append(f"  {engine['engine']} {engine['version'] or ''}: {verdict}")
    lines += [f"  {name}: {reason}" for name, reason in document["missing_engines"].items()]
    lines += ["", "Packages", *(f"  {_package(item)}" for item in document["packages"].items())]
    if document["extras"]:
        lines += ["", "Extras"]
    for extra, packages in document["extras"].items():
        missing = any(version is None or _NEEDS in version for version in packages.values())
        advice = f"; get it by: pip install 'tensmith[{extra}]'" if missing else ""
        lines.append(f"  {extra}: {', '.join(map(_package, packages.items()))}{advice}")
    return lines


def _energy(machine: dict[str, Any]) -> str:
    counters = [name for name, there in (("RAPL", machine["rapl"]), ("NVML", machine["nvml"])) if there]
    return f"{' and '.join(counters)} counters" if counters else "no counter (RAPL, NVML): only estimated"


def _package(item: tuple[str, str | None]) -> str:
    name, version = item
    return f"{name} {version or 'missing'}"
