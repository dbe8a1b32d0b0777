"""Draw docs/images/demo.svg: the screen of `holdfast demo` when every slot is in use and a node runs on spot.

Runs the demo on a terminal of its own and converts the first such screen, as it was printed. Run by
`make demo-picture`; it takes about a minute, and names and times differ from run to run.
"""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections import deque
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs/images/demo.svg"
COLUMNS, LINES = 102, 43
DEMO: Final = (sys.executable, "-m", "holdfast", "demo", "--for", "6m", "--folder", "/tmp/holdfast-demo")  # noqa: S108 - shown
UPDATED: Final = "\x1b[?2026l"  # the end of each update of the screen
CLEAR: Final = "\x1b[2J"
ROW: Final = re.compile(r"\x1b\[(\d+);1H\x1b\[K")
CODE: Final = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])")
SLOTS: Final = re.compile(r"(\d) of (\d) in use")
SPOT_NODE: Final = re.compile(r" spot .* ready ")
PODS: Final = re.compile(r"(\d) of (\d) run\b")

WIDTH, HEIGHT, BASELINE, MARGIN = 8.4, 18, 13, 16  # of a character; in pixels
CLASSES: Final = {"1": "b", "2": "d", "32": "r", "33": "s", "35": "o"}
STYLE: Final = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;"
    "fill:#e6edf3;white-space:pre}"
    ".b{font-weight:700;fill:#fff}.d{fill:#9198a1}.r{fill:#3fb950}.s{fill:#e3b341}.o{fill:#bc8cff}"
)


def is_wanted(screen: str) -> bool:
    """Whether all slots are in use, a spot node is ready and all pods run."""
    text = CODE.sub("", screen).replace("\r", "")
    slots, pods = SLOTS.findall(text), PODS.findall(text)
    is_full = len(slots) > 0 and all(used == total for used, total in slots)
    return is_full and bool(pods) and all(run == all_ for run, all_ in pods) and bool(SPOT_NODE.search(text))


def drawing(screen: str) -> str:
    """A screen with color codes as SVG. Every column starts where the terminal shows it, whatever the font."""
    lines = screen.replace("\r", "").split("\n")
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    texts = "\n".join(_text(*part, row) for row, line in enumerate(lines) for part in _parts(line))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" '
        f'viewBox="0 0 {width:g} {height}" role="img">\n'
        f"<title>holdfast demo in a terminal</title>\n<style>{STYLE}</style>\n"
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#3d444d"/>\n'
        f"{texts}\n</svg>\n"
    )


def _text(column: int, words: str, style: str, row: int) -> str:
    x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT + BASELINE
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y}" textLength="{len(words) * WIDTH:.1f}"{kind}>{escape(words, quote=False)}</text>'


def _parts(line: str) -> Iterator[tuple[int, str, str]]:
    """The column, the text and the style of each part of a line; two spaces or a color code separate parts."""
    column, style, start = 0, "", 0
    for code in [*CODE.finditer(line), None]:
        text = line[start : code.start() if code else len(line)]
        for words in re.finditer(r"\S+(?: \S+)*", text):
            yield column + words.start(), words[0], style
        column += len(text)
        if code:
            style, start = CLASSES.get(code[1], ""), code.end()


def screens(chunks: Iterable[bytes]) -> Iterator[str]:
    """The screen after every update that the demo writes."""
    decoder, written = codecs.getincrementaldecoder("utf-8")("replace"), ""
    rows: dict[int, str] = {}
    for chunk in chunks:
        *updates, written = (written + decoder.decode(chunk)).split(UPDATED)
        for update in updates:
            if CLEAR in update:
                rows.clear()
            _, *changed = ROW.split(update)
            rows.update(zip(map(int, changed[::2]), changed[1::2], strict=True))
            yield "\n".join(rows.get(row, "") for row in range(1, max(rows, default=0) + 1)).rstrip("\n")


def _chunks(terminal: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # raised when the demo has ended
        while chunk := os.read(terminal, 65536):
            yield chunk


def main() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(DEMO, stdin=theirs, stdout=theirs) as demo:  # noqa: S603 - ourselves
        os.close(theirs)
        drawn = screens(_chunks(ours))
        screen = next(filter(is_wanted, drawn), None)
        demo.send_signal(signal.SIGINT)
        deque(drawn, maxlen=0)  # the demo ends when its output is read
    if screen is None:
        raise SystemExit("the demo did not show a ready spot node while all slots were in use; try again")
    PICTURE.write_text(drawing(screen), encoding="utf-8")
    sys.stdout.write(f"wrote {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
