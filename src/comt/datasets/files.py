"""Public data files: found in a folder or downloaded, and never used unverified."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.client
import io
import os
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from comt.errors import InputError

FOLDER_VARIABLE = "COMT_DATA"
TIMEOUT_SECONDS = 60.0
# Far above the largest file: a damaged or hostile archive must not fill the memory before its hash is known.
MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class PublicFile:
    """A public file. The hash is that of the text inside, whatever it is compressed with."""

    path: str  # below the data folder
    sha256: str
    urls: tuple[str, ...]  # tried in turn


def read(file: PublicFile, folder: str | os.PathLike[str] | None = None) -> bytes:
    """Return the verified text of ``file``.

    It is taken from ``folder``, or else from the folder that the variable COMT_DATA names, or else from the
    user's cache, or else from the network, and then kept in the cache. Nothing is written to a given folder.
    """
    given = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    if given is not None:
        return _read_local(file, Path(given))
    cached = cache_folder() / file.path
    with suppress(OSError, InputError):  # a damaged copy in the cache is replaced
        return _verified(file, cached.read_bytes(), str(cached))
    return _download(file, cached)


def cache_folder() -> Path:
    """Return the folder for downloads."""
    home = os.environ.get("XDG_CACHE_HOME") or None
    return (Path(home) if home else Path.home() / ".cache") / "comt"


def _read_local(file: PublicFile, folder: Path) -> bytes:
    path = folder / file.path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); give a folder that has {file.path}, "
            f"or neither a folder nor {FOLDER_VARIABLE} to download it."
        ) from error
    return _verified(file, data, str(path))


def _download(file: PublicFile, cached: Path) -> bytes:
    failures = []
    for url in file.urls:
        try:
            with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
                data = response.read(MAX_BYTES + 1)
            text = _verified(file, data, url)
        except InputError as error:
            failures.append(str(error).rstrip("."))
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url} cannot be reached ({error})")
        else:
            _keep(cached, data)
            return text
    raise InputError(
        f"{file.path} is not in {cache_folder()} and could not be downloaded: {'; '.join(failures)}; "
        f"set {FOLDER_VARIABLE} to a folder that has it, or try again with a network."
    )


def _keep(path: Path, data: bytes) -> None:
    """Write a verified download, all or nothing; without a writable cache it is fetched again next time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            part.write(data)
        Path(part.name).replace(path)


def _verified(file: PublicFile, data: bytes, origin: str) -> bytes:
    text = _decompressed(data)
    found = "no readable content" if text is None else f"SHA-256 {hashlib.sha256(text).hexdigest()[:16]}…"
    if text is None or hashlib.sha256(text).hexdigest() != file.sha256:
        raise InputError(
            f"{origin} has {found}, expected SHA-256 {file.sha256[:16]}…; replace it by the public original "
            f"({file.urls[0]})."
        )
    return text


def _decompressed(data: bytes) -> bytes | None:
    """Return the text inside, or None if it is damaged or too large."""
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
        elif data[:3] == b"BZh":
            data = bz2.BZ2File(io.BytesIO(data)).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return data if len(data) <= MAX_BYTES else None
