"""docs/running.md names flags that exist, with their defaults."""

import re
from pathlib import Path

from holdfast.app import settings

RUNNING = Path(__file__).resolve().parents[2] / "docs/running.md"
ROW = re.compile(r"^\| (`--[^|]+) \| ([^|]+) \|", re.MULTILINE)
FLAG = re.compile(r"`--([\w-]+)`")


def test_flags_in_the_table_have_their_defaults() -> None:
    known = {setting.name: setting.default for setting in settings.TABLE}
    rows = [
        (FLAG.findall(row[1]), row[2].split(", "))
        for row in ROW.finditer(RUNNING.read_text(encoding="utf-8"))
    ]
    assert rows
    for flags, defaults in rows:
        assert set(flags) <= known.keys()
        if all(known[flag] for flag in flags):  # a flag without a default is explained in words
            assert [default.strip("`") for default in defaults] == [known[flag] for flag in flags]
