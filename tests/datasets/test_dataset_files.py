from __future__ import annotations

import bz2
import gzip
import hashlib
import io
from urllib.error import URLError

import pytest

from comt.datasets import LOADERS, files
from comt.datasets.files import PublicFile
from comt.errors import InputError

TEXT = b"1 1:2 2:3\n-1 1:4\n"
FILE = PublicFile("set/rows.txt", hashlib.sha256(TEXT).hexdigest(), ("https://one.invalid/a", "https://two.invalid/b"))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("COMT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "comt"


@pytest.fixture
def network(monkeypatch):
    """A network that serves what the test puts into it, and counts the requests."""

    class Network:
        pages: dict[str, bytes]
        asked: list[str]

        def __init__(self):
            self.pages, self.asked = {}, []

        def open(self, url, timeout):
            assert timeout > 0
            self.asked.append(url)
            if url not in self.pages:
                raise URLError("no route to host")
            return io.BytesIO(self.pages[url])

    net = Network()
    monkeypatch.setattr(files, "urlopen", net.open)
    return net


def put(folder, data):
    path = folder / FILE.path
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def one_sentence(error):
    text = str(error.value)
    return "\n" not in text and text.endswith(".") and ". " not in text


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_a_local_file_is_read_whatever_its_compression(pack, tmp_path, network):
    put(tmp_path / "data", pack(TEXT))
    assert files.read(FILE, tmp_path / "data") == TEXT
    assert network.asked == []


def test_the_variable_names_the_folder_and_an_argument_wins(monkeypatch, tmp_path, network):
    put(tmp_path / "data", TEXT)
    monkeypatch.setenv("COMT_DATA", str(tmp_path / "data"))
    assert files.read(FILE) == TEXT
    with pytest.raises(InputError, match="other"):
        files.read(FILE, tmp_path / "other")
    assert network.asked == []


@pytest.mark.parametrize(
    "data",
    [b"", TEXT + b"x", gzip.compress(TEXT)[:-9], bz2.compress(TEXT)[:-9]],
    ids=["empty", "longer", "cut gzip", "cut bzip2"],
)
def test_a_wrong_checksum_is_refused_and_the_folder_left_alone(data, tmp_path, network):
    path = put(tmp_path / "data", data)
    with pytest.raises(InputError, match="expected SHA-256") as error:
        files.read(FILE, tmp_path / "data")
    assert one_sentence(error)
    assert path.read_bytes() == data
    assert [p for p in (tmp_path / "data").rglob("*") if p.is_file()] == [path]


def test_a_huge_archive_is_refused_before_it_fills_the_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    put(tmp_path / "data", gzip.compress(TEXT))
    with pytest.raises(InputError, match="no readable content"):
        files.read(FILE, tmp_path / "data")


def test_without_folder_and_network_one_sentence(own_cache, network):
    with pytest.raises(InputError, match="COMT_DATA") as error:
        files.read(FILE)
    assert one_sentence(error)
    assert network.asked == list(FILE.urls)
    assert not own_cache.exists()


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_without_folder_and_network(name, network):
    with pytest.raises(InputError, match="try again with a network") as error:
        LOADERS[name](None)
    assert one_sentence(error)
    assert all(url.startswith("https://") for url in network.asked)


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_with_a_missing_folder(name, tmp_path, network):
    with pytest.raises(InputError, match="cannot be read") as error:
        LOADERS[name](tmp_path / "absent")
    assert one_sentence(error)
    assert network.asked == []


def test_a_download_is_verified_kept_and_not_repeated(own_cache, network):
    network.pages[FILE.urls[0]] = bz2.compress(TEXT)
    assert files.read(FILE) == TEXT
    assert files.read(FILE) == TEXT
    assert network.asked == [FILE.urls[0]]
    assert [p.relative_to(own_cache).as_posix() for p in own_cache.rglob("*") if p.is_file()] == [FILE.path]


def test_the_next_source_is_tried_after_a_wrong_one(own_cache, network):
    network.pages[FILE.urls[0]] = b"an error page"
    network.pages[FILE.urls[1]] = TEXT
    assert files.read(FILE) == TEXT
    assert (own_cache / FILE.path).read_bytes() == TEXT


def test_a_wrong_download_is_refused_and_not_kept(own_cache, network):
    network.pages = dict.fromkeys(FILE.urls, b"an error page")
    with pytest.raises(InputError, match="expected SHA-256") as error:
        files.read(FILE)
    assert one_sentence(error)
    assert not (own_cache / FILE.path).exists()


def test_a_damaged_cache_is_replaced(own_cache, network):
    put(own_cache, b"half a fi")
    network.pages[FILE.urls[1]] = TEXT
    assert files.read(FILE) == TEXT
    assert (own_cache / FILE.path).read_bytes() == TEXT


def test_an_unwritable_cache_does_not_stop_the_download(monkeypatch, tmp_path, network):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    network.pages[FILE.urls[0]] = TEXT
    assert files.read(FILE) == TEXT


def test_the_cache_is_in_the_users_home_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache_folder() == tmp_path / ".cache" / "comt"
