"""This machine as a target: peaks from its instruction set, bandwidth from a short measured copy."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil

from tensmith.hardware.control_groups import memory_limit
from tensmith.hardware.cpu import Cpu, detect_cpu
from tensmith.hardware.target import HOST, Dtype, Sources, Target

_COPY_BYTES = 64 << 20
_COPIES = 4
_MOST_COPIERS = 8
_FALLBACK_GHZ = 2.0
_ZEN_5 = 26
_PEAK_SOURCE = "cores x frequency x operations a cycle of the detected instruction set"


def operations_per_cycle(cpu: Cpu) -> dict[Dtype, int]:
    """Peak operations a cycle and core, a multiply-add counted as two.

    x86: two vector multiply-add units (Intel Optimization Reference Manual; AMD Software Optimization Guides:
    before Zen 5 a 512-bit operation takes two cycles). Arm: two 128-bit units (Cortex-A76 Software
    Optimization Guide). AVX2 without VNNI spends three instructions on 32 int8 multiply-adds where fp32
    spends one on 8: a factor of 4/3.
    """
    has = cpu.features.__contains__
    if has("neon"):
        peak: dict[Dtype, int] = {"fp32": 16, "int8": 64 if has("dotprod") else 21}
        if has("fp16"):
            peak["fp16"] = 32
        return peak | ({"bf16": 64} if has("bf16") else {})
    if not has("avx2"):
        return {"fp32": 16 if has("avx") else 8, "int8": 16 if has("avx") else 8}
    whole_512 = cpu.vendor != "AuthenticAMD" or cpu.family >= _ZEN_5
    fp32 = 64 if has("avx512f") and whole_512 else 32
    peak = {"fp32": fp32, "int8": 4 * fp32 if cpu.has_int8_dot else fp32 * 4 // 3}
    if has("avx512_fp16"):
        peak["fp16"] = 2 * fp32
    if has("avx512_bf16"):
        peak["bf16"] = 2 * fp32
    if has("amx_int8"):
        peak["int8"] = 2048
    return peak | ({"bf16": 1024} if has("amx_bf16") else {})


@functools.cache
def copy_bandwidth(threads: int) -> float:
    """Bytes a second, read plus written, of the fastest of a few copies by `threads` threads at once."""
    size = _COPY_BYTES // threads
    pairs = [(np.ones(size, np.uint8), np.zeros(size, np.uint8)) for _ in range(threads)]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_COPIES):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))
            best = max(best, 2 * size * threads / (time.perf_counter() - start))
    return best


@functools.cache
def detect_host() -> Target:
    """This machine; takes a tenth of a second once a process."""
    cpu = detect_cpu()
    ghz = cpu.frequency_ghz or _FALLBACK_GHZ
    one_core = copy_bandwidth(1) / 1e9
    total = psutil.virtual_memory().total
    all_cores = copy_bandwidth(min(cpu.cores, _MOST_COPIERS)) / 1e9
    return Target(
        name=HOST,
        description=f"this machine: {cpu.model}, {cpu.architecture}",
        kind="cpu",
        isa=cpu.features,
        cores=cpu.whole_cores,
        frequency_ghz=ghz,
        peak_gflops={
            dtype: rate * ghz * cpu.whole_cores for dtype, rate in operations_per_cycle(cpu).items()
        },
        bandwidth_gbs=max(one_core, all_cores),
        core_bandwidth_gbs=one_core,
        cache_bytes=cpu.cache_bytes,
        ram_bytes=min(total, memory_limit() or total),
        sources=Sources(
            peak=_PEAK_SOURCE
            if cpu.frequency_ghz
            else f"{_PEAK_SOURCE}; frequency unknown, {ghz} GHz assumed",
            bandwidth=f"measured: copies of {_COPY_BYTES >> 20} MiB by NumPy, the fastest of {_COPIES}",
            memory="detected: /sys/devices/system/cpu and the operating system's total, or a container's",
        ),
    )
