"""Data sets from public mirrors over https: interrupted downloads resume, SHA-256 is checked, files are replaced atomically."""

from __future__ import annotations

import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any

from counterpoise.data.mirrors import BY_HAND, MIRRORS, SECURE, Source
from counterpoise.data.root import data_root, sha256_of
from counterpoise.errors import ConfigError, DataError, legal_words
from counterpoise.version import __version__

Progress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all

CHUNK = 1 << 18
SECONDS_OF_SILENCE = 30
ATTEMPTS = 2  # per mirror: the second resumes a broken connection, or starts over after wrong content


def download(name: str, root: Path | str | None = None, progress: Progress | None = None) -> list[Path]:
    """Fetch and unpack the files of a data set into its folder under the root; intact files are kept."""
    if name in BY_HAND:
        raise DataError(
            f"{name}: cannot be downloaded by command; for {data_root(root) / name}: {BY_HAND[name]}"
        )
    if name not in MIRRORS:
        raise ConfigError(f"no download for data set {name!r}; {legal_words(name, MIRRORS)}")
    folder = data_root(root) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {error.strerror}") from error
    paths = [fetch(source, folder, progress or _silent) for source in MIRRORS[name]]
    for source, path in zip(MIRRORS[name], paths, strict=True):
        if source.unpack:
            unpack(path, source.unpack)
    return paths


def fetch(source: Source, folder: Path, progress: Progress) -> Path:
    """The file, from the first mirror that delivers it intact."""
    target = folder / source.file
    if target.is_file() and _is_intact(target, source):
        return target
    part = target.with_name(target.name + ".part")
    failures: dict[str, str] = {}
    for url in (url for url in source.urls for _ in range(ATTEMPTS)):
        try:
            _resume(url, source, part, progress)
        except (OSError, http.client.HTTPException) as error:
            failures[url] = str(error) or type(error).__name__
            continue
        if _is_intact(part, source):
            os.replace(part, target)
            return target
        part.unlink()
        failures[url] = f"wrong content, not that of SHA-256 {source.sha256}"
    raise DataError(
        f"{target}: no mirror worked: {'; '.join(f'{url}: {why}' for url, why in failures.items())}"
    )


def _resume(url: str, source: Source, part: Path, progress: Progress) -> None:
    """Append the missing bytes to the part file; start over where the server cannot continue."""
    have = part.stat().st_size if part.exists() else 0
    if have == source.size:
        return
    request = urllib.request.Request(url, headers={"User-Agent": f"counterpoise/{__version__}"})
    if 0 < have < source.size:
        request.add_header("Range", f"bytes={have}-")
    opener = urllib.request.build_opener(_SecureRedirects)
    with opener.open(request, timeout=SECONDS_OF_SILENCE) as response:
        continues = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        offered = None if response.length is None else response.length + (have if continues else 0)
        if offered not in (None, source.size):  # such as an error page: it must not overwrite the part file
            raise OSError(f"offers {offered:,} bytes, not {source.size:,}")
        with part.open("ab" if continues else "wb") as file:
            _copy(response, file, source, progress)


def _copy(response: IO[bytes], file: IO[bytes], source: Source, progress: Progress) -> None:
    done = file.tell()
    progress(source.file, done, source.size)
    while chunk := response.read(CHUNK):
        done += len(chunk)
        if done > source.size:
            raise OSError(f"sends more than the {source.size:,} bytes of the file")
        file.write(chunk)
        progress(source.file, done, source.size)
    file.flush()
    os.fsync(file.fileno())
    if done < source.size:
        raise OSError(f"got {done:,} of {source.size:,} bytes")


def _is_intact(path: Path, source: Source) -> bool:
    return sha256_of(path) == source.sha256


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """A mirror may redirect, but only to another https address."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith(SECURE):
            raise urllib.error.URLError(f"redirects to {newurl}, which is not {SECURE}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def unpack(archive: Path, patterns: tuple[str, ...]) -> None:
    """Extract the matching members beside the archive, without its first folder, each atomically."""
    opened = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    try:
        for name, stream in opened(archive):
            inner = PurePosixPath(*PurePosixPath(name).parts[1:])
            if ".." not in inner.parts and any(fnmatch(str(inner), pattern) for pattern in patterns):
                _write_whole(stream, archive.parent / inner)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{archive}: cannot be unpacked: {error}") from error


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name, stream


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            if not member.is_dir():
                with packed.open(member) as stream:
                    yield member.filename, stream


def _write_whole(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with part.open("wb") as file:
        shutil.copyfileobj(stream, file)
    os.replace(part, target)


def _silent(file: str, done: int, total: int) -> None:
    pass
