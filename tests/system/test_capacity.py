"""What the machine has, by its own account, and what is refused for not fitting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from counterpoise.errors import ConfigError, DataError
from counterpoise.system import capacity
from counterpoise.system.capacity import available_bytes, check_fits, in_words

MEBIBYTE = 1 << 20


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 1,000 MiB free whose accounts can be written."""
    (tmp_path / "meminfo").write_text(
        f"MemTotal: 4096000 kB\nMemAvailable:  {1000 << 10} kB\nHugePages_Total: 0\n"
    )
    for name, file in {"MEMINFO": "meminfo", "OWN_GROUP": "cgroup", "GROUPS": "groups"}.items():
        monkeypatch.setattr(capacity, name, tmp_path / file)
    return tmp_path


def put_group(machine: Path, place: str, **numbers: str) -> None:
    folder = machine / "groups" / place
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in numbers.items():
        (folder / name.replace("__", ".", 1)).write_text(content + "\n")


def test_without_a_group_the_machine_decides(machine: Path) -> None:
    assert available_bytes() == 1000 * MEBIBYTE


def test_a_group_has_what_is_not_taken_and_what_can_be_given_back(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/box\n")
    put_group(
        machine,
        "box",
        memory__max=str(500 * MEBIBYTE),
        memory__current=str(450 * MEBIBYTE),
        memory__stat=f"anon 1\ninactive_file {30 * MEBIBYTE}\nactive_file {20 * MEBIBYTE}",
    )
    assert available_bytes() == 100 * MEBIBYTE


def test_a_group_around_the_own_one_binds_too(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/outer/inner\n")
    put_group(machine, "outer", memory__max=str(300 * MEBIBYTE), memory__current="0")
    put_group(machine, "outer/inner", memory__max="max", memory__current="0")
    assert available_bytes() == 300 * MEBIBYTE


def test_groups_of_the_first_version_are_read(machine: Path) -> None:
    (machine / "cgroup").write_text("5:cpu:/\n4:memory,other:/box\n0::/\n")
    put_group(
        machine,
        "memory/box",
        memory__limit_in_bytes=str(200 * MEBIBYTE),
        memory__usage_in_bytes=str(50 * MEBIBYTE),
    )
    assert available_bytes() == 150 * MEBIBYTE


def test_what_is_overdrawn_is_nothing(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/\n")
    put_group(machine, ".", memory__max="1000", memory__current="2000")
    assert available_bytes() == 0


def test_the_limit_of_the_address_space_binds() -> None:
    program = (
        "import resource\n"
        "from counterpoise.system.capacity import available_bytes, OWN_PAGES\n"
        "taken = int(OWN_PAGES.read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken + (200 << 20),) * 2)\n"
        "print(available_bytes())\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 150 * MEBIBYTE < int(found.stdout) <= 200 * MEBIBYTE


def test_what_does_not_fit_is_refused_with_what_it_needs_and_what_there_is(machine: Path) -> None:
    check_fits(999 * MEBIBYTE, "a thing")
    with pytest.raises(ConfigError, match=r"^a thing needs 1\.3 GB of memory; at most 1\.0 GB here$"):
        check_fits(1200 * MEBIBYTE, "a thing")
    with pytest.raises(DataError):
        check_fits(1200 * MEBIBYTE, "a file", DataError)


def test_small_things_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 0)
    check_fits(capacity.SMALL, "a thing")
    with pytest.raises(ConfigError):
        check_fits(capacity.SMALL + 1, "a thing")


def test_sizes_are_said_in_words() -> None:
    assert [in_words(n) for n in (0, 999, 1_500, 2_000_000, 3_250_000_000, 10**15)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2.0 MB",
        "3.2 GB",
        "1,000,000.0 GB",
    ]
