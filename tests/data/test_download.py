"""Downloads against a server of our own on this machine, with a certificate of our own."""

from __future__ import annotations

import hashlib
import io
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpoise.data.download import download
from counterpoise.data.mirrors import MIRRORS, Source
from counterpoise.errors import ConfigError, DataError

CONTENT = np.random.default_rng(0).bytes(1_000_000)


@dataclass
class Server:
    """Files by path, how many bytes of a reply are sent before the line is cut, and what was asked."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)  # path -> where it lies now
    ranges: bool = True
    lengths: bool = True


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("cryptography")
    from counterpoise.flower.certs import make_certs

    return make_certs(tmp_path_factory.mktemp("certificates"), [])


@pytest.fixture
def server(certificates: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if self.path in state.moved:
                self.send_response(302)
                self.send_header("Location", state.moved[self.path])
                return self.end_headers()
            if self.path not in state.files:
                return self.send_error(404)
            content = state.files[self.path]
            first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            self.send_response(206 if first else 200)
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            if state.lengths:
                self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            self.wfile.write(content[first:][: state.cuts.pop(0) if state.cuts else None])
            return None

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up early is part of these tests."""

    with Quiet(("127.0.0.1", 0), Handler) as http:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.server_key)
        http.socket = context.wrap_socket(http.socket, server_side=True)
        state.address = f"https://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def offer(
    monkeypatch: pytest.MonkeyPatch,
    server: Server,
    *paths: str,
    content: bytes = CONTENT,
    unpack: tuple[str, ...] = (),
) -> None:
    """One file `set.bin` in the data set `mnist`, to be had at these paths of the server."""
    urls = tuple(server.address + path for path in paths)
    source = Source("set.bin", len(content), hashlib.sha256(content).hexdigest(), urls, unpack)
    monkeypatch.setitem(MIRRORS, "mnist", (source,))


def test_a_file_is_fetched_whole_with_progress_from_nothing_to_all(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    offer(monkeypatch, server, "/a")
    seen: list[tuple[str, int, int]] = []
    paths = download("mnist", tmp_path, lambda *step: seen.append(step))
    assert paths == [tmp_path / "mnist" / "set.bin"]
    assert paths[0].read_bytes() == CONTENT
    assert [p.name for p in paths[0].parent.iterdir()] == ["set.bin"]
    assert seen[0] == ("set.bin", 0, 1_000_000)
    assert seen[-1] == ("set.bin", 1_000_000, 1_000_000)
    done = [step[1] for step in seen]
    assert done == sorted(done)
    assert len(done) > 3


def test_what_is_there_and_intact_is_not_asked_for_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    offer(monkeypatch, server, "/a")
    download("mnist", tmp_path)
    download("mnist", tmp_path)
    assert len(server.asked) == 1
    (tmp_path / "mnist" / "set.bin").write_bytes(b"damaged")
    download("mnist", tmp_path)
    assert (tmp_path / "mnist" / "set.bin").read_bytes() == CONTENT


def test_a_cut_line_is_resumed_from_the_byte_it_reached(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    server.cuts = [600_000]
    offer(monkeypatch, server, "/a")
    path = download("mnist", tmp_path)[0]
    assert path.read_bytes() == CONTENT
    assert server.asked == [("/a", None), ("/a", "bytes=600000-")]


def test_a_download_given_up_is_resumed_by_the_next_call(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    server.cuts = [300_000, 200_000]
    offer(monkeypatch, server, "/a")
    with pytest.raises(DataError, match=r"set\.bin: no mirror worked: .*/a: got 500,000 of 1,000,000 bytes"):
        download("mnist", tmp_path)
    assert [p.name for p in (tmp_path / "mnist").iterdir()] == ["set.bin.part"]
    assert download("mnist", tmp_path)[0].read_bytes() == CONTENT
    assert server.asked[-1] == ("/a", "bytes=500000-")


def test_a_server_without_ranges_sends_all_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"], server.ranges, server.cuts = CONTENT, False, [600_000]
    offer(monkeypatch, server, "/a")
    assert download("mnist", tmp_path)[0].read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_nothing_is_left(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT[:-1] + b"?"
    offer(monkeypatch, server, "/a")
    with pytest.raises(
        DataError, match=r"set\.bin: no mirror worked: .*/a: wrong content, not that of SHA-256 [0-9a-f]{64}"
    ):
        download("mnist", tmp_path)
    assert list((tmp_path / "mnist").iterdir()) == []


def test_a_mirror_may_send_on_to_a_secure_address_and_to_no_other(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/new"] = CONTENT
    server.moved["/old"] = server.address + "/new"
    offer(monkeypatch, server, "/old")
    assert download("mnist", tmp_path / "one")[0].read_bytes() == CONTENT
    insecure = server.address.replace("https", "http") + "/new"
    server.moved["/old"] = insecure
    with pytest.raises(DataError, match=f"/old: .*redirects to {insecure}, which is not https"):
        download("mnist", tmp_path / "two")
    assert list((tmp_path / "two" / "mnist").iterdir()) == []


def test_a_server_that_nobody_vouches_for_is_not_asked(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    offer(monkeypatch, server, "/a")
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with pytest.raises(DataError, match="CERTIFICATE_VERIFY_FAILED"):
        download("mnist", tmp_path)
    assert server.asked == []


def test_a_damaged_part_file_is_thrown_away_and_fetched_anew(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    offer(monkeypatch, server, "/a")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "set.bin.part").write_bytes(bytes(1000))
    assert download("mnist", tmp_path)[0].read_bytes() == CONTENT


def test_the_second_mirror_serves_where_the_first_fails(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files |= {"/wrong": bytes(len(CONTENT)), "/good": CONTENT}
    offer(monkeypatch, server, "/absent", "/wrong", "/good")
    assert download("mnist", tmp_path)[0].read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/absent", "/absent", "/wrong", "/wrong", "/good"]


@pytest.mark.parametrize("content", [CONTENT * 5, b"<html>Please log in</html>"])
def test_a_reply_of_another_length_is_refused_before_it_is_written(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    server.files["/a"] = content
    offer(monkeypatch, server, "/a")
    (tmp_path / "mnist").mkdir()
    part = tmp_path / "mnist" / "set.bin.part"
    part.write_bytes(CONTENT[:10])
    server.ranges = False
    with pytest.raises(DataError, match=f"offers {len(content):,} bytes, not 1,000,000"):
        download("mnist", tmp_path)
    assert part.read_bytes() == CONTENT[:10]


def test_an_endless_reply_without_a_length_is_cut_at_the_size_of_the_file(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"], server.lengths = CONTENT * 5, False
    offer(monkeypatch, server, "/a")
    with pytest.raises(DataError, match="sends more than the 1,000,000 bytes of the file"):
        download("mnist", tmp_path)
    assert (tmp_path / "mnist" / "set.bin.part").stat().st_size <= 1_000_000


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file/mnist: cannot be made"):
        download("mnist", tmp_path / "file")


def test_a_mirror_that_is_not_there_is_named(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, server, "/absent")
    with pytest.raises(DataError, match=r"/absent: HTTP Error 404") as caught:
        download("mnist", tmp_path)
    assert "\n" not in str(caught.value)


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_only_the_wanted_members_of_an_archive_are_unpacked_and_none_outside(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    members = {
        "top/train.bin": b"train",
        "top/deep/test.bin": b"test",
        "top/meta.pickle": b"never",
        "top/../../escaped.bin": b"never",
    }
    content = pack(members)
    server.files["/a"] = content
    offer(monkeypatch, server, "/a", content=content, unpack=("*.bin",))
    folder = tmp_path / "root" / "mnist"
    download("mnist", tmp_path / "root")
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert files == {"set.bin": content, "train.bin": b"train", "deep/test.bin": b"test"}
    assert not list(tmp_path.rglob("escaped.bin"))


def test_an_archive_that_cannot_be_unpacked_is_named(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a"] = CONTENT
    offer(monkeypatch, server, "/a", unpack=("*",))
    with pytest.raises(DataError, match=r"set\.bin: cannot be unpacked"):
        download("mnist", tmp_path)


def test_sets_without_a_mirror_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"imagenet_lt: cannot be downloaded by command; .*image-net\.org"):
        download("imagenet_lt", tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        download("mnits", tmp_path)
    assert list(tmp_path.iterdir()) == []
