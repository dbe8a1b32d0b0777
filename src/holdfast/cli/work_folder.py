"""The folder in which `holdfast demo` and `holdfast sandbox` keep their files while they run."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from holdfast import errors


@contextlib.contextmanager
def work_folder(requested: Path | None, prefix: str) -> Iterator[Path]:
    """A folder that is removed at the end, unless a program did not start: the error names its log."""
    if requested is None:
        path = Path(tempfile.mkdtemp(prefix=prefix))
    else:
        path = requested.absolute()
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise errors.InvalidInput(f"{requested} is not empty")
    keep = False
    try:
        yield path
    except errors.NotReady:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)
