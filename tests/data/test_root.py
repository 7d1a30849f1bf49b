"""Where data files are looked for and how their bytes are read."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from counterpoise.data.mirrors import BY_HAND, MIRRORS, Source
from counterpoise.data.root import data_root, find_file, read_bytes, read_npz, sha256_of
from counterpoise.errors import ConfigError, DataError


def test_the_configured_root_wins_over_the_environment_and_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("COUNTERPOISE_DATA", "/environment")
    assert data_root("/configured") == Path("/configured")
    assert data_root(None) == Path("/environment")
    monkeypatch.setenv("COUNTERPOISE_DATA", "")
    assert data_root(None) == Path("/cache/counterpoise/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert data_root(None) == Path("/home/ann/.cache/counterpoise/data")
    assert data_root("~/data") == Path("/home/ann/data")


def test_a_file_is_found_plain_or_compressed_and_the_first_name_wins(tmp_path: Path) -> None:
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "second.xz").touch()
    assert find_file(tmp_path, "adult", "first", "second").name == "second.xz"
    (tmp_path / "adult" / "first.gz").touch()
    assert find_file(tmp_path, "adult", "first", "second").name == "first.gz"
    (tmp_path / "adult" / "first").touch()
    assert find_file(tmp_path, "adult", "first", "second").name == "first"


def test_a_missing_file_is_named_with_its_folder_and_the_command_that_downloads_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        find_file(tmp_path, "mnist", "train-images-idx3-ubyte")
    message = str(caught.value)
    assert "\n" not in message
    assert f"no train-images-idx3-ubyte in {tmp_path / 'mnist'}" in message
    assert f"counterpoise data download mnist --root {tmp_path}" in message


def test_a_missing_file_that_no_command_can_get_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"RawData of https://archive\.ics\.uci\.edu"):
        find_file(tmp_path, "hapt", "RawData/labels.txt")


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_bytes_come_back_unpacked(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(pack(b"counterpoise" * 100))
    assert read_bytes(path) == b"counterpoise" * 100
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_unpacks_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1001)))
    assert len(read_bytes(path, limit=1001)) == 1001
    with pytest.raises(DataError, match=r"bomb\.gz: holds more than 1,000 bytes"):
        read_bytes(path, limit=1000)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_cut_or_altered_archive_is_named(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    whole = pack(np.random.default_rng(0).bytes(5000))
    for damaged in (whole[:-20], b"not an archive", whole[:2000] + b"x" + whole[2001:]):
        path = tmp_path / f"damaged{suffix}"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"damaged{suffix}: damaged or truncated"):
            read_bytes(path)


def test_an_npz_with_a_pickled_array_or_without_the_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.npz"
    np.savez(path, train=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"labels\.npz: not an npz file with train: Object arrays"):
        read_npz(path, "train")
    np.savez(path, train=np.arange(3))
    assert read_npz(path, "train")["train"].tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"labels\.npz: not an npz file with train, test"):
        read_npz(path, "train", "test")


def test_an_npz_that_unpacks_to_more_than_allowed_is_refused_before_it_is(tmp_path: Path) -> None:
    path = tmp_path / "labels.npz"
    np.savez_compressed(path, train=np.zeros(1_000_000, np.uint8))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"labels\.npz: holds 1,000,128 bytes unpacked; at most 500,000"):
        read_npz(path, "train", limit=500_000)


def test_every_mirrored_file_has_a_sum_a_size_and_secure_addresses() -> None:
    files = [source for sources in MIRRORS.values() for source in sources]
    assert len(files) == len({source.sha256 for source in files}) == 23
    for source in files:
        assert len(bytes.fromhex(source.sha256)) == 32
        assert source.size > 0
        assert source.urls
        assert all(url.startswith("https://") for url in source.urls)
    assert not set(MIRRORS) & set(BY_HAND)


@pytest.mark.parametrize(
    ("sha256", "url", "reason"),
    [
        ("0" * 64, "http://example.org/a", "must begin with https://, not 'http://example.org/a'"),
        ("0" * 64, "file:///etc/passwd", "must begin with https://, not 'file:///etc/passwd'"),
        ("md5:" + "0" * 32, "https://example.org/a", "sha256 must be 64 hex digits, not 'md5:0+'"),
        ("0" * 63 + "G", "https://example.org/a", "sha256 must be 64 hex digits, not '0+G'"),
    ],
)
def test_a_source_without_a_sum_or_a_secure_address_cannot_be_made(
    sha256: str, url: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        Source("a", 1, sha256, (url,))


def test_published_checksums_and_sizes_are_those_of_the_real_files(data_root: Path) -> None:
    compared = 0
    for name in ("mnist", "fashion_mnist", "adult", "unsw_nb15", "nsl_kdd", "heart_disease"):
        for source in MIRRORS[name]:
            plain = source.file.removesuffix(".gz")
            path = next(
                (p for s in ("", ".gz", ".xz") if (p := data_root / name / (plain + s)).exists()), None
            )
            if path is not None:
                content = path.read_bytes() if source.file == path.name else read_bytes(path)
                assert hashlib.sha256(content).hexdigest() == source.sha256
                assert len(content) == source.size
                compared += 1
    assert compared == 17
