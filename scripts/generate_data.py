"""Writes src/holdfast/data/ec2.json.gz from the pinned package and docs/spec/ec2-prices.md.

`make data` calls it. It downloads the package once into .cache, so it is not part of `make check`, which works without
a network. --check writes nothing: exit code 0 if the file is current, 1 if it is stale, 2 if the package is not in the
cache.
"""

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from datalib import convert, prices, source
from holdfast.cloud.aws.client import descriptions
from holdfast.data import ec2

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache/data"
REGIONS = ("eu-west-1", "us-east-1", "us-west-2")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="generate_data.py", description="Writes the shipped EC2 data.")
    parser.add_argument("--check", action="store_true", help="write nothing, download nothing")
    if parser.parse_args(argv).check:
        return _check()
    try:
        wanted = content(source.fetch(CACHE))
    except source.SourceError as error:
        print(error, file=sys.stderr)
        return 1
    if wanted != _present():
        ec2.FILE.write_bytes(gzip.compress(wanted, compresslevel=9, mtime=0))
    print(f"{ec2.FILE.relative_to(ROOT)}: {ec2.FILE.stat().st_size} bytes, {len(wanted)} unpacked")
    return 0


def content(wheel: Path) -> bytes:
    """The uncompressed file: equal sources give equal bytes."""
    raw = source.instance_types(wheel)
    types = tuple(
        descriptions.instance_type(raw[name]) for name in sorted(raw) if descriptions.launchable(raw[name])
    )
    listed = prices.parse((ROOT / "docs/spec/ec2-prices.md").read_text(encoding="utf-8"))
    known = {info.name for info in types}
    regions = {
        name: convert.region(
            name,
            source.offered(wheel, name, "availability-zone"),
            source.offered(wheel, name, "availability-zone-id"),
            known,
        )
        for name in REGIONS
    }
    somewhere = tuple(
        info for info in types if any(info.name in region.offered for region in regions.values())
    )
    shipped = ec2.Shipped(
        source.RELEASED, listed.as_of, somewhere, prices.of_types(listed, somewhere), regions
    )
    return msgspec.json.encode(shipped) + b"\n"


def _check() -> int:
    wheel = source.cached(CACHE)
    if wheel is None:
        print(f"cannot check: {source.WHEEL} is not in .cache/data; run: make data", file=sys.stderr)
        return 2
    if content(wheel) == _present():
        return 0
    print("src/holdfast/data/ec2.json.gz is stale; run: make data", file=sys.stderr)
    return 1


def _present() -> bytes:
    """The uncompressed current file: libraries compress to different bytes."""
    return gzip.decompress(ec2.FILE.read_bytes()) if ec2.FILE.exists() else b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
