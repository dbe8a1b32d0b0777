"""The modules of `scripts/generate_parity.py`: which test shows which fact of docs/spec.

`facts` reads the pages, `marks` reads the tests, `parity` joins both with docs/parity.toml and finds gaps, `page`
writes docs/parity.md. Tests are parsed and never imported, so that `make check` stays fast.
"""


class ParityError(Exception):
    """The pages, the markers or docs/parity.toml have mistakes; each line has a location and what to do."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
