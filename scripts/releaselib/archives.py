"""Tar files with equal bytes for equal content: helm and the image builders write times and owners into them."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

from releaselib import ReleaseError

_INDEX: Final = "index.json"


def normalize(path: Path, time_s: int) -> None:
    """Writes a .tar or .tgz again: sorted by name, all times `time_s`, owner root."""
    compressed = path.suffix == ".tgz"
    target = path.with_name(f"{path.name}.normalized")
    with tarfile.open(path) as old, target.open("wb") as raw:
        stream = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if compressed else raw
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in sorted(old.getmembers(), key=lambda member: member.name):
                content = old.extractfile(member) if member.isfile() else None
                new.addfile(_plain(member, time_s), content)
        if compressed:
            stream.close()
    target.replace(path)


def _plain(member: tarfile.TarInfo, time_s: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(member.name)
    plain.type, plain.size, plain.linkname = member.type, member.size, member.linkname
    plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    plain.mtime = time_s
    return plain


def image_digest(archive: Path) -> str:
    """The digest of the one image in an OCI archive, by which a registry identifies the image too."""
    return str(_only_manifest(archive)["digest"])


def image_file(archive: Path, name: str) -> bytes:
    """A file of the one image in an OCI archive, from the last layer that has it."""
    with tarfile.open(archive) as tar:
        digest = image_digest(archive)
        manifest = _read(tar, _blob_path(digest))
        if f"sha256:{hashlib.sha256(manifest).hexdigest()}" != digest:
            raise ReleaseError(f"{archive.name}: the manifest {digest} has other content")
        for layer in reversed(json.loads(manifest)["layers"]):
            with tarfile.open(fileobj=io.BytesIO(_read(tar, _blob_path(layer["digest"])))) as files:
                for path in (name, f"./{name}"):
                    if path in files.getnames():
                        return _read(files, path)
    raise ReleaseError(f"{archive.name}: the image has no file /{name}")


def _only_manifest(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        if _INDEX not in tar.getnames():
            raise ReleaseError(f"{archive.name} is not an OCI archive; use buildah, podman, or docker 25")
        manifests: list[dict[str, Any]] = json.loads(_read(tar, _INDEX))["manifests"]
    if len(manifests) != 1:
        raise ReleaseError(f"{archive.name} has {len(manifests)} images; one is expected")
    return manifests[0]


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(name) if name in tar.getnames() else None
    if found is None:
        raise ReleaseError(f"{name} is missing in the archive, or is not a file")
    return found.read()


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
