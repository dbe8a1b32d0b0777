"""`holdfast demo` on a terminal: what it draws, how it ends, and what the environment changes."""

import os
import re
import sys
from pathlib import Path

import pytest

import terminals

DEMO = (sys.executable, "-m", "holdfast", "demo", "--speed", "30")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
pytestmark = pytest.mark.usefixtures("hangups")

# What the screen shows while nodes for all pods of `web` run, or after that, until the capacity block ends.
SHOWN = (
    r"cr-\w+ +m5.xlarge +us-west-2a +targeted +\S+ +3 of 3 in use",
    r"general-\w+ +m5.xlarge +us-west-2a +reserved +- +(ready|joined) +web +uses a free slot",
    r"capacity block +\S+ +\d of 1 in use +ends in 0:",
    r"paid +\$\d+\.\d\d +\$\d+\.\d\d",
    r"of it for idle slots +\$\d+\.\d\d +\$\d+\.\d\d",
    r"without reservations +\$\d+\.\d\d +\$\d+\.\d\d",
)


def env_file(lines: list[str]) -> Path:
    found = re.search(r"source (\S+)", "\n".join(lines))
    assert found
    return Path(found[1])


def test_demo_fits_the_terminal_after_each_resize_and_q_restores_it() -> None:
    with terminals.terminal(*DEMO, size=(102, 50)) as terminal:
        lines = terminal.until(*SHOWN)
        folder = env_file(lines).parent
        assert max(map(len, lines)) <= 102
        assert not any("larger terminal" in line for line in lines)
        for columns, rows in ((80, 24), (40, 10)):
            terminal.resize(columns, rows)
            lines = terminal.until_it_fits(columns, rows)
            assert "http://127" in lines[1]
            assert "source " in lines[2]
            assert lines[-1].startswith("A larger terminal shows ")
        terminal.resize(200, 60)
        lines = terminal.until("Reservations +Log", "kubectl get nodeclaims")
        assert len(lines) <= 60
        assert folder.exists()
        terminal.press(b"q")
        assert terminal.wait() == (0, "")
        assert terminal.settings() == terminal.before
    assert not folder.exists()
    after = terminal.written.decode().rpartition("\x1b[?1049l")[2].replace("\r", "")
    assert after == "Stopping the demo\nThe demo has stopped; all its files are removed.\n"


def test_closed_terminal_ends_the_demo_without_an_error_and_removes_its_files() -> None:
    with terminals.terminal(*DEMO, "--no-story") as terminal:
        folder = env_file(terminal.until("source ", "Pods")).parent
        assert folder.exists()
        terminal.hang_up()
        assert terminal.wait() == (0, "")
    assert not folder.exists()


def test_demo_without_a_story_has_workloads_without_pods_and_names_commands_to_scale_them() -> None:
    environ = os.environ | {"NO_COLOR": "1"}
    with terminals.terminal(*DEMO, "--no-story", size=(100, 40), environ=environ) as terminal:
        lines = terminal.until(r"0:0[1-9]:\d\d   q or Ctrl-C")
        text = "\n".join(lines)
        assert re.search(r"api  0 of 0 run +train  0 of 0 run +web  0 of 0 run", text)
        assert "  kubectl scale deployment web --replicas=3 " in text
        assert "launched" not in text
        assert "All NodePools are ready; scale the workloads with kubectl" in text
        terminal.press(b"q")
        assert terminal.wait() == (0, "")
    assert not COLOR.search(terminal.written.decode())


def test_demo_prints_plain_lines_on_a_dumb_terminal() -> None:
    environ = os.environ | {"TERM": "dumb"}
    with terminals.terminal(*DEMO, "--no-story", "--for", "5s", environ=environ) as terminal:
        assert terminal.wait() == (0, "")
    text = terminal.written.decode()
    assert "\x1b" not in text
    assert "In another terminal  source " in text
    assert "reserved slots in use" in text


def test_training_story_fits_80_columns_and_24_lines_and_ctrl_c_ends_it() -> None:
    with terminals.terminal(*DEMO, "--story", "training") as terminal:
        lines = terminal.until(
            r"cr-\w+ +p5.48xlarge +\S+ +3 of 4 in use +ends in 0:",
            r"cr-\w+ +p5.48xlarge +\S+ +0 of 4 in use +starts in 0:0",
            r"llama +3 pods +at most 6 minutes +Provisioned=True +3 of 3 run",
        )
        folder = env_file(lines).parent
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        terminal.press(b"\x03")
        assert terminal.wait() == (0, "")
        assert terminal.settings() == terminal.before
    assert not folder.exists()
