"""The files of the page, and the headers they are served with: plain HTML, CSS and JavaScript, as they are in `page`.

The page reads the JSON API next to it by relative addresses, so both are served by one server, also below the path of a
proxy. It has no build step and loads nothing from elsewhere ([ADR 0060](docs/adr/0060-a-page-without-a-framework.md)).
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

# No inline script or style, nothing from another origin, and the browser refuses to build markup from text.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # the ETag is compared, so an upgrade is seen at once
}
_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    content_type: str  # without the charset, which is always UTF-8
    content: bytes
    compressed: bytes  # by gzip
    etag: str  # with its quotes


def files() -> dict[str, File]:
    """The files by their path below the page's address, without a leading slash. The page itself has the path ``."""
    folder = resources.files(__package__) / "page"
    found = {f"assets/{one.name}": _file(one) for one in (folder / "assets").iterdir() if _is_asset(one)}
    return {"": _file(folder / "index.html"), **dict(sorted(found.items()))}


def _is_asset(path: Traversable) -> bool:
    return path.name.rpartition(".")[2] in _TYPES


def _file(path: Traversable) -> File:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    compressed = gzip.compress(content, mtime=0)
    return File(_TYPES[path.name.rpartition(".")[2]], content, compressed, f'"{digest}"')
