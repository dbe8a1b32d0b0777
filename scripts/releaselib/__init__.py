"""The modules of `build_release.py`: the release notes, archives with equal bytes, checksums and signatures."""


class ReleaseError(Exception):
    """Nothing is released. The message states the reason and what to do."""
