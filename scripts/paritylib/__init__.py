"""Which test shows which fact of docs/spec: what `scripts/generate_parity.py` is made of.

`facts` reads the pages, `marks` reads the tests, `parity` joins both with docs/parity.toml and finds the
gaps, `page` writes docs/parity.md. No file of the program imports this, and nothing here imports a test:
sources are parsed, so that `make check` stays fast.
"""


class ParityError(Exception):
    """The pages, the markers or docs/parity.toml are wrong; each line names a place and what to do."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
