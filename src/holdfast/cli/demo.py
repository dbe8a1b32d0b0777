"""`holdfast demo`: a cluster, an EC2 with reservations and the real controllers in one process, and a story to watch."""

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from holdfast.cli import ending, options
from holdfast.demo import picture, stage, telling, view
from holdfast.demo.picture import Picture
from holdfast.demo.stage import Stage
from holdfast.demo.story import Story
from holdfast.demo.view import Frame
from holdfast.ports import Clock
from holdfast.runtime import logs
from holdfast.runtime.clock import RealClock, ScaledClock
from holdfast.runtime.ids import RealIds

_FRAME_S: Final = 0.25  # of real time
_SAID: Final = 8
_SUMMARY_S: Final = 60.0  # of the demo's time, where nothing is drawn
_TIPS: Final = (
    "kubectl get nodeclaims -o wide",
    "kubectl scale deployment web --replicas=8",
    "kubectl get events --field-selector type=Warning",
    "aws ec2 describe-capacity-reservations",
)
_KEYS: Final = "AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any"
_CLEAR: Final = "\x1b[H\x1b[J"
_OTHER_SCREEN, _OWN_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@click.command
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    help="How many times as fast as life.",
)
@click.option(
    "--for",
    "for_s",
    callback=options.seconds,
    metavar="DURATION",
    help="End after so long, in the demo's own time.",
)
@click.option("--story/--no-story", default=True, help="Whether workloads come and go by themselves.")
@click.option("--plain", is_flag=True, help="Lines that stay, instead of a picture that moves.")
def command(*, speed: float, for_s: int | None, story: bool, plain: bool) -> None:
    """Watch Holdfast at work: a cluster, an EC2 with reservations, and the real controllers, all in this process.

    Nothing is needed and nothing is left: no AWS account, no cluster, no process, port or file afterwards.
    """
    with _folder() as folder, (folder / "holdfast.log").open("w", encoding="utf-8") as log:
        clock = ScaledClock(RealClock(), speed)
        logs.configure(clock=clock, as_json=False, to=log)
        asyncio.run(
            _Demo(folder, clock, speed, for_s, story=story, drawn=not plain and sys.stdout.isatty()).run()
        )


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Demo:
    def __init__(
        self, folder: Path, clock: Clock, speed: float, for_s: int | None, *, story: bool, drawn: bool
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._speed = speed
        self._for_s = for_s
        self._has_story = story
        self._drawn = drawn
        self._said: deque[str] = deque(maxlen=_SAID)
        self._began_s: float | None = None  # when nodes could be launched
        self._summary_s = 0.0
        self._stop = asyncio.Event()

    async def run(self) -> None:
        ending.when_told(self._stop.set)
        async with stage.set_up(self._folder, clock=self._clock, ids=RealIds()) as made:
            self._greet(made)
            story = Story(made, self._say)
            await story.begin()
            try:
                await self._watch(made, story)
            finally:
                if self._drawn:
                    _write(_OWN_SCREEN)
        _write("The demo has ended; nothing is left of it.\n")

    @property
    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s if self._began_s is not None else 0.0

    async def _watch(self, made: Stage, story: Story) -> None:
        before = await picture.take(made, self._elapsed_s)
        while not self._stop.is_set():
            made.check()
            if self._began_s is None and story.can_go_on:
                self._began_s = self._clock.monotonic_s()
            if self._began_s is not None and self._has_story:
                await story.go_on(self._elapsed_s)
            after = await picture.take(made, self._elapsed_s)
            for sentence in telling.changes(before, after):
                self._say(sentence)
            before = after
            self._show(made, after)
            if self._for_s is not None and self._elapsed_s >= self._for_s:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FRAME_S):
                    await self._stop.wait()

    # --- What is seen ---------------------------------------------------------------------------------

    def _greet(self, made: Stage) -> None:
        if self._drawn:
            _write(_OTHER_SCREEN)
            return
        _write(f"{self._title()}\n")
        for name, value in _addresses(made):
            _write(f"{name:<12}{value}\n")
        for tip in _TIPS:
            _write(f"try: {tip}\n")

    def _show(self, made: Stage, now: Picture) -> None:
        if self._drawn:
            size = shutil.get_terminal_size()
            frame = Frame(self._title(), _addresses(made), _TIPS, size.columns, color=True)
            _write(_CLEAR + "\n".join(view.draw(now, self._said, frame)[: size.lines]))
        elif now.elapsed_s >= self._summary_s:
            self._summary_s = now.elapsed_s + _SUMMARY_S
            _write(f"{view.clock(now.elapsed_s)}  {view.summary(now)}\n")

    def _title(self) -> str:
        return f"Holdfast demo, {self._speed:g} times as fast as life"

    def _say(self, sentence: str) -> None:
        line = f"{view.clock(self._elapsed_s)}  {sentence}"
        self._said.append(line)
        if not self._drawn:
            _write(f"{line}\n")


def _addresses(made: Stage) -> tuple[tuple[str, str], ...]:
    return (
        ("Kubernetes", f"export KUBECONFIG={made.world.kubeconfig}"),
        ("EC2", f"export AWS_ENDPOINT_URL={made.world.aws_url} AWS_REGION={stage.REGION} {_KEYS}"),
        ("log", str(made.world.kubeconfig.parent / "holdfast.log")),
    )


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
