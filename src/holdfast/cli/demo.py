"""`holdfast demo`: a simulated cluster, a simulated EC2 with reservations and the real controllers in one process."""

import asyncio
import contextlib
import io
import shlex
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from holdfast import errors
from holdfast.cli import options, screen, signals
from holdfast.cli.screen import Output, Screen
from holdfast.cli.work_folder import work_folder
from holdfast.demo import changes, environment, layout, stories, view
from holdfast.demo.environment import Environment
from holdfast.demo.status import Status, StatusReader
from holdfast.demo.stories import Kind, Story
from holdfast.demo.view import Frame
from holdfast.ports import Clock
from holdfast.runtime import logs
from holdfast.runtime.clock import RealClock, ScaledClock
from holdfast.runtime.ids import RealIds

_FRAME_S: Final = 0.25  # of real time
_LOG_LINES: Final = 200
_SUMMARY_S: Final = 60.0  # of the demo's time, when the output is not a terminal


@click.command
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    help="Speed of the simulated time; 1 is real time.",
)
@click.option(
    "--for",
    "for_s",
    callback=options.seconds,
    metavar="DURATION",
    help="Stop after this duration, in simulated time.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the kubeconfig and the log; must be empty or absent.  [default: a new folder]",
)
@click.option(
    "--story",
    "story_name",
    type=click.Choice(tuple(stories.STORIES)),
    default=stories.DEFAULT,
    show_default=True,
    help="What happens: workloads that fill reservations, or training jobs of Kueue on capacity blocks.",
)
@click.option("--no-story", is_flag=True, help="Start without the steps of the story; you create the pods.")
@click.option("--plain", is_flag=True, help="Print lines instead of redrawing the screen.")
def command(
    *,
    speed: float,
    for_s: int | None,
    folder: Path | None,
    story_name: str,
    no_story: bool,
    plain: bool,
) -> None:
    """Run the controllers on a simulated cluster and a simulated EC2 with reservations, in this process.

    Needs no AWS account and no cluster. q or Ctrl-C stops it and removes its files.
    """
    drawn = not plain and screen.is_drawable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8
    try:
        with (
            work_folder(folder, "holdfast-demo-") as path,
            (path / "holdfast.log").open("w", encoding="utf-8") as log,
        ):
            real = RealClock()
            clock = ScaledClock(real, speed)
            logs.configure(clock=clock, as_json=False, to=log)
            kind = stories.STORIES[story_name]
            chosen = _Options(speed=speed, for_s=for_s, kind=kind, has_steps=not no_story, drawn=drawn)
            demo = _Demo(path, clock, real, chosen)
            asyncio.run(demo.run())
    except errors.InvalidInput as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    demo.output.write("The demo has stopped; all its files are removed.\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    speed: float
    for_s: int | None
    kind: Kind
    has_steps: bool
    drawn: bool


class _Demo:
    def __init__(self, folder: Path, clock: Clock, real: Clock, about: "_Options") -> None:
        self._folder = folder
        self._clock = clock
        self._real = real
        self._options = about
        called = Path(sys.argv[0])
        program = shlex.quote(sys.argv[0]) if called.name == "holdfast" else "holdfast"
        own = tuple(f"{program} {command}" for command in about.kind.commands)
        self._tips = (*own, *(() if about.has_steps else about.kind.first_tips), *about.kind.tips)
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._began_s: float | None = None  # when all NodePools were Ready
        self._summary_s = 0.0
        self._stop = asyncio.Event()
        self.output = Output(self._stop.set)
        self._screen = Screen(self.output, self._stop.set) if about.drawn else None

    async def run(self) -> None:
        signals.on_stop(self._stop.set)
        started = environment.start(
            self._folder, self._options.kind.setup, clock=self._clock, real=self._real, ids=RealIds()
        )
        async with started as env:
            env.sandbox.write_env(env.url)
            with self._screen.active() if self._screen else contextlib.nullcontext():
                self._print_header(env)
                story = self._options.kind.make(env, self._print_change)
                await story.start()
                await self._watch(env, story)
            self.output.write("Stopping the demo\n")

    @property
    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s if self._began_s is not None else 0.0

    async def _watch(self, env: Environment, story: Story) -> None:
        status = StatusReader(env)
        before = await status.read(self._elapsed_s)
        while not self._stop.is_set():
            env.check()
            if self._began_s is None and story.is_ready:
                self._began_s = self._clock.monotonic_s()
                if not self._options.has_steps:
                    self._print_change(self._options.kind.without_steps)
            if self._began_s is not None and self._options.has_steps:
                await story.advance(self._elapsed_s)
            await story.react()
            after = await status.read(self._elapsed_s)
            for sentence in changes.describe(before, after):
                self._print_change(sentence)
            before = after
            self._show(env, after)
            if self._options.for_s is not None and self._elapsed_s >= self._options.for_s:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FRAME_S):
                    await self._stop.wait()

    # --- Output ---------------------------------------------------------------------------------------

    def _print_header(self, env: Environment) -> None:
        if self._screen:
            return
        self.output.write(f"{self._title()}\n")
        for name, value in _addresses(env):
            self.output.write(f"{name}  {value}\n")
        for tip in self._tips:
            self.output.write(f"try: {tip}\n")

    def _show(self, env: Environment, now: Status) -> None:
        if self._screen:
            size = self._screen.size
            frame = Frame(self._title(), _addresses(env), self._tips, *size, color=screen.has_color())
            self._screen.draw(view.draw(now, self._log, frame), size)
        elif now.elapsed_s >= self._summary_s:
            self._summary_s = now.elapsed_s + _SUMMARY_S
            self.output.write(f"{view.clock(now.elapsed_s)}  {view.summary(now)}\n")

    def _title(self) -> str:
        return f"Holdfast demo at {self._options.speed:g}x speed"

    def _print_change(self, sentence: str) -> None:
        line = layout.clean(f"{view.clock(self._elapsed_s)}  {sentence}")
        self._log.append(line)
        if not self._screen:
            self.output.write(f"{line}\n")


def _addresses(env: Environment) -> tuple[tuple[str, str], ...]:
    return (
        ("Page", env.url),
        ("In another terminal", f"source {shlex.quote(str(env.sandbox.kubeconfig.with_name('env')))}"),
        ("Controller log", str(env.sandbox.kubeconfig.with_name("holdfast.log"))),
    )
