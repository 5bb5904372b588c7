"""Every target is complete and sourced; a wrong one is refused with its place."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from tensmith.errors import UsageError
from tensmith.hardware import HOROWITZ_45NM, Target, load_target, target_names

PACKAGED = target_names()[1:]
PI_4 = resources.files("tensmith.hardware").joinpath("targets", "raspberry-pi-4.toml").read_text()


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_targets_are_plausible(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert list(target.cache_bytes) == sorted(target.cache_bytes)
    assert all(size < target.ram_bytes for size in target.cache_bytes)
    assert target.core_bandwidth_gbs <= target.bandwidth_gbs
    peaks = target.peak_gflops
    if "fp32" in peaks:  # tensor cores for halves alone make 8 bits slower than these, as on V100
        assert all(peak >= peaks["fp32"] for peak in peaks.values()), "narrower numbers are never slower"


def test_the_devices_of_the_plan_are_there() -> None:
    kinds = {load_target(name).kind for name in PACKAGED}
    assert kinds == {"cpu", "gpu", "npu", "microcontroller"}
    assert target_names()[0] == "host" and len(PACKAGED) >= 17


def test_the_host_is_detected() -> None:
    host = load_target("host")
    assert host.name == "host" and host.ram_bytes > 0 and host.peak_gflops["fp32"] > 0
    assert "measured" in host.sources.bandwidth
    assert load_target("host") is host, "measured once a process"


def test_a_third_party_s_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PI_4.replace('name = "raspberry-pi-4"', 'name = "mine"'))
    assert load_target(path).name == load_target(str(path)).name == "mine"


ENERGY = """[energy]
sram_byte = 1
dram_byte = 160
source = "a data sheet"
multiply_add = {%s}
"""


def test_a_third_party_s_energy_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    named = PI_4.replace('name = "raspberry-pi-4"', 'name = "mine"')
    path.write_text(named + ENERGY % "fp32 = 4.6, int8 = 0.3")
    assert load_target(path).energy.of("int8") == 0.3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fp32 = 48.0", "fp32 = 0.0", r"mine\.toml: peak_gflops\.fp32: .*greater than 0"),
        ("bandwidth_gbs = 12.8\ncore", "bandwidth_gbs = -1\ncore", r"bandwidth_gbs: .*greater than 0"),
        ("fp32 = 48.0", "fp31 = 48.0", "peak_gflops.fp31"),
        ("fp32 = 48.0\nint8 = 64.0", "", "peak_gflops: .*at least one dtype"),
        ("fp32 = 48.0", "fp32 = inf", r"peak_gflops\.fp32: .*finite"),
        ("frequency_ghz = 1.5", "frequency_ghz = inf", "frequency_ghz: .*finite"),
        ('name = "raspberry-pi-4"', 'name = "host"', "name: 'host' is this machine"),
        ("cores = 4", "", "cores: Field required"),
        ("cores = 4", "cores = 4\ncolour = 1", "colour: Extra inputs"),
        ("[sources]", "[sources", "is not TOML"),
        ("[sources]", ENERGY % "float16 = 1.5" + "[sources]", r"energy\.multiply_add\.float16.*'fp16'"),
        ("[sources]", ENERGY % "" + "[sources]", r"energy\.multiply_add: .*at least 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PI_4
    path = tmp_path / "mine.toml"
    path.write_text(PI_4.replace(old, new, 1))
    with pytest.raises(UsageError, match=message):
        load_target(path)


def test_sources_are_required(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PI_4.split("[sources]")[0])
    with pytest.raises(UsageError, match="sources: Field required"):
        load_target(path)


def test_unknown_and_missing_targets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown target 'toaster'; known: host, .*raspberry-pi-4"):
        load_target("toaster")
    with pytest.raises(UsageError, match="does not exist; check the path"):
        load_target(tmp_path / "nosuch.toml")


def test_dtypes_fall_back_to_what_the_device_computes() -> None:
    pi, mcu = load_target("raspberry-pi-4"), load_target("microcontroller-cortex-m7")
    assert pi.computes("fp16") == "fp32" and pi.computes("int4") == "int8"
    with pytest.raises(UsageError, match="cannot compute fp32; it computes int8"):
        mcu.computes("fp32")
    with pytest.raises(UsageError, match="cannot compute int7"):
        pi.computes("int7")


def test_threads_scale_the_peak_and_share_the_memory() -> None:
    server: Target = load_target("server-avx512-vnni")
    assert server.peak("fp32", 1) * server.cores == pytest.approx(server.peak("fp32", 1000))
    assert server.bandwidth(1) == 12e9 and server.bandwidth(1000) == 140.8e9


def test_the_energy_table_is_horowitz_s() -> None:
    """ISSCC 2014, figure 1.1.9."""
    table = load_target("raspberry-pi-4").energy
    assert table is HOROWITZ_45NM or table == HOROWITZ_45NM
    assert table.of("fp32") == pytest.approx(3.7 + 0.9)
    assert table.of("int8") == pytest.approx(0.2 + 0.1)
    assert table.dram_byte * 4 == 640
    assert table.of("int4") == table.of("int8") and table.of("bf16") == table.of("fp16")
    assert table.of("unheard-of") == max(table.multiply_add.values())
