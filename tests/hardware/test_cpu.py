"""Features are read from the kernel's own words; peaks follow from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tensmith.hardware import cpu as hardware_cpu
from tensmith.hardware import host as hardware_host
from tensmith.hardware.cpu import (
    Cpu,
    detect_cpu,
    features_of,
    model_of,
    parse_cache_size,
    parse_cpuinfo,
    whole_cores,
)
from tensmith.hardware.host import operations_per_cycle
from tensmith.kernel.isa import isa_of

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model name\t: Intel(R) Xeon(R) Platinum 8480+
cpu MHz\t\t: 2000.000
flags\t\t: fpu sse2 avx f16c fma avx2 avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8

processor\t: 1
model name\t: another
"""

ARM = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
"""


def cpu(features: set[str], vendor: str = "GenuineIntel", family: int = 6) -> Cpu:
    return Cpu("x86_64", vendor, "test", family, frozenset(features), 4, 4, 2.0, (32768,))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("AMD EPYC", "AMD EPYC (family 25, model 17)"),
        ("AMD EPYC 9654 96-Core Processor", "AMD EPYC 9654 96-Core Processor"),
    ],
)
def test_a_name_of_several_generations_has_their_numbers(name: str, shown: str) -> None:
    """Virtual machines give such names; figures of two generations would be taken for those of one."""
    fields = {"model name": name, "cpu family": "25", "model": "17"}
    assert model_of(fields) == shown and model_of({"model name": name}) == name


def test_x86_is_the_first_processor() -> None:
    fields = parse_cpuinfo(X86)
    assert fields["model name"] == "Intel(R) Xeon(R) Platinum 8480+"
    assert features_of(fields["flags"]) == {
        "avx",
        "f16c",
        "fma",
        "avx2",
        "avx512f",
        "avx512_vnni",
        "avx512_bf16",
        "avx512_fp16",
        "amx_bf16",
        "amx_int8",
    }


@pytest.mark.parametrize("lent", [True, False])
def test_tile_registers_are_there_where_the_system_lends_them(
    monkeypatch: pytest.MonkeyPatch, lent: bool
) -> None:
    monkeypatch.setattr(hardware_cpu, "read_if_there", lambda path: X86 if path.name == "cpuinfo" else "")
    monkeypatch.setattr(hardware_cpu, "_lent", lambda: lent)
    found = detect_cpu()
    assert ({"amx_int8", "amx_bf16"} <= found.features) == lent
    assert "avx512_vnni" in found.features


def test_arm_features_have_their_common_names() -> None:
    assert features_of(parse_cpuinfo(ARM)["features"]) == {"neon", "fp16", "dotprod"}


def test_a_32_bit_arm_is_no_aarch64() -> None:
    features = features_of(
        "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm"
    )
    assert isa_of(features, "armv7l").name == "generic"


def test_nothing_is_made_of_nothing() -> None:
    assert parse_cpuinfo("") == {}
    assert features_of("") == frozenset()


@pytest.mark.parametrize(
    ("text", "size"), [("32K\n", 32768), ("1M", 1 << 20), ("512", 512), ("", 0), ("x", 0)]
)
def test_cache_sizes(text: str, size: int) -> None:
    assert parse_cache_size(text) == size


@pytest.mark.parametrize(
    ("features", "vendor", "family", "fp32", "int8"),
    [
        ({"avx2", "fma"}, "GenuineIntel", 6, 32, 42),
        ({"avx2", "fma", "avx_vnni"}, "GenuineIntel", 6, 32, 128),
        ({"avx2", "avx512f", "avx512_vnni"}, "GenuineIntel", 6, 64, 256),
        ({"avx2", "avx512f", "avx512_vnni"}, "AuthenticAMD", 25, 32, 128),
        ({"avx2", "avx512f", "avx512_vnni"}, "AuthenticAMD", 26, 64, 256),
        ({"avx2", "avx512f", "amx_int8"}, "GenuineIntel", 6, 64, 2048),
        ({"neon"}, "0x41", 0, 16, 21),
        ({"neon", "dotprod"}, "0x41", 0, 16, 64),
        (set(), "unknown", 0, 8, 8),
    ],
)
def test_peaks_by_instruction_set(features: set[str], vendor: str, family: int, fp32: int, int8: int) -> None:
    peak = operations_per_cycle(cpu(features, vendor, family))
    assert (peak["fp32"], peak["int8"]) == (fp32, int8)


def test_int8_saturates_only_without_dot_products() -> None:
    assert not cpu({"avx2", "fma"}).has_int8_dot
    for feature in ("avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "i8mm"):
        assert cpu({feature}).has_int8_dot


def test_threads_of_one_core_are_one_core(tmp_path: Path) -> None:
    for number, siblings in enumerate(("0-1", "0-1", "2-3", "2-3")):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert [whole_cores(allowed, tmp_path) for allowed in ({0, 1, 2, 3}, {1, 2}, {0, 1})] == [2, 2, 1]
    assert whole_cores({0, 1, 7}, tmp_path / "missing") == 3


def test_a_peak_is_of_cores_and_not_of_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = replace(detect_cpu(), cores=4, whole_cores=2, frequency_ghz=1.0)
    monkeypatch.setattr(hardware_host, "detect_cpu", lambda: threads)
    monkeypatch.setattr(hardware_host, "copy_bandwidth", lambda _: 1e9)
    host = hardware_host.detect_host.__wrapped__()
    assert host.peak("fp32", 1) * 2 == host.peak("fp32", 2) == host.peak("fp32", 4)
    assert host.peak("fp32", 1) == operations_per_cycle(threads)["fp32"] * 1e9


def test_this_cpu_is_described() -> None:
    found = detect_cpu()
    assert found.cores >= found.whole_cores >= 1 and found.architecture
    assert found.frequency_ghz is None or 0.1 < found.frequency_ghz < 10
