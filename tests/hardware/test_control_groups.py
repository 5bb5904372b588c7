"""What a container leaves to its processes is read off its groups, and what is no limit is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.hardware.control_groups import core_limit, memory_limit


def limits(root: Path, groups: str, files: dict[str, str]) -> tuple[int | None, int | None]:
    for name, content in files.items():
        (root / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "fs" / name).write_text(content)
    (root / "groups").write_text(groups)
    return core_limit(root / "groups", root / "fs"), memory_limit(root / "groups", root / "fs")


@pytest.mark.parametrize(
    ("groups", "files", "cores", "memory"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n", "memory.max": "4096\n"}, 2, 4096),
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, None, None),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000", "cpu.max": "9 1"}, 3, None),
        ("0::/a/b\n", {"a/memory.max": "8192", "a/b/memory.max": "9000"}, None, 8192),
        (
            "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/\n0::/\n",
            {
                "cpu/cpu.cfs_quota_us": "200000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "4096\n",
            },
            2,
            4096,
        ),
        (
            "2:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n", "cpu.max": "1 1"},
            None,
            None,
        ),
        ("0::/../../a\n", {"cpu.max": "2 1", "memory.max": "0"}, 2, None),
        ("", {"cpu.max": "2 1", "memory.max": "5"}, None, None),
        ("0\nx:\n::\n", {"cpu.max": "7 0", "memory.max": "many"}, None, None),
        ("0::/\n", {"cpu.max": "7 6 5", "memory.max": "-4"}, None, None),
        ("0::/\n", {"cpu.max": "", "memory.max": ""}, None, None),
    ],
)
def test_limits_of_groups(
    groups: str, files: dict[str, str], cores: int | None, memory: int | None, tmp_path: Path
) -> None:
    assert limits(tmp_path, groups, files) == (cores, memory)


def test_without_groups_nothing_is_limited(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_bytes(b"\xff 1")
    (tmp_path / "groups").write_text("0::/")
    assert core_limit(tmp_path / "groups", tmp_path) is None
    assert memory_limit(tmp_path / "missing", tmp_path) is None
