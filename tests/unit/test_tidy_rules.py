"""Each rule of tests/tidy catches what it is for, and lets pass what it should."""

from textwrap import dedent

import pytest

from tidy import calls, clouds, code, files, words

SRC = "src/holdfast/core/solve.py"


@pytest.mark.parametrize(
    "source",
    [
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime as dt\ndt.utcnow()",
        "from datetime import datetime\nfield(default_factory=datetime.today)",
        "from datetime import date\ndate.today()",
        "import time\ntime.time()",
        "import time as t\nt.sleep(1)",
        "from time import monotonic\nmonotonic()",
        "import time\nclock = time.perf_counter",
        "import random\nrandom.choice([1])",
        "import random\nrandom.Random(7)",
        "from random import shuffle\nshuffle([])",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid1\nuuid1()",
        "import os\nprint('hello')",
    ],
)
def test_a_clock_dice_or_print_in_the_wrong_room_is_found(source: str) -> None:
    [found] = calls.findings(source, SRC)
    assert found.startswith(f"{SRC}:2: ")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("print('hello')", "src/holdfast/cli/explain.py"),
        ("print('hello')", "scripts/generate_parity.py"),
        ("import time\nprint(time.perf_counter())", "tests/bench/bench_solve.py"),
        ("import random\nrandom.Random(7).choice([1])", "tests/unit/test_solve.py"),
        ("self.random.random(), clock.now(), row.time.time()", SRC),
        ("import time\ntime.strftime('%H')", SRC),
        ("import datetime\ndatetime.datetime(2026, 1, 1)", SRC),
        ("import os.path\nos.path.join('a')", SRC),
    ],
)
def test_what_is_in_its_room_or_no_clock_passes(source: str, path: str) -> None:
    assert calls.findings(source, path) == []


def test_unseeded_dice_are_found_in_tests_too() -> None:
    assert calls.findings("import random\nrandom.choice([1])", "tests/unit/test_solve.py")


@pytest.mark.parametrize(
    "handler", ["except:", "except Exception:", "except (ValueError, BaseException) as error:"]
)
def test_a_catch_all_is_found(handler: str) -> None:
    assert code.catch_alls(f"try:\n    f()\n{handler}\n    pass", SRC) == [
        f"{SRC}:3: catches everything; catch by who must act (holdfast.errors)"
    ]


def test_suppressing_everything_is_a_catch_all() -> None:
    assert code.catch_alls("with contextlib.suppress(Exception):\n    f()", SRC)


def test_a_catch_of_one_kind_passes() -> None:
    assert code.catch_alls("try:\n    f()\nexcept ValueError:\n    pass", SRC) == []


@pytest.mark.parametrize(
    "source", ["seen = {}", "_seen: list[str] = []", "cache = collections.deque()", "def f():\n    global x"]
)
def test_state_of_a_module_is_found(source: str) -> None:
    assert code.module_state(source, SRC)


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = {}",
        "__all__ = ['a']",
        "log = get_logger()",
        "def f():\n    seen = {}",
        "seen: dict[str, str]",
    ],
)
def test_constants_and_locals_are_no_state(source: str) -> None:
    assert code.module_state(source, SRC) == []


@pytest.mark.parametrize(
    "comment", ["# TODO: more", "# a FIXME", "# XXX", "# type: ignore", "#type:ignore # why"]
)
def test_a_comment_that_leaves_work_or_hides_an_error_is_found(comment: str) -> None:
    assert code.comments(f"x = 1  {comment}", SRC)


@pytest.mark.parametrize("source", ["x = 'TODO'", "x = 1  # type: ignore[assignment]", "x = 1  # todos"])
def test_strings_and_named_errors_pass(source: str) -> None:
    assert code.comments(source, SRC) == []


def test_a_long_module_is_found_with_its_size() -> None:
    assert code.too_long("x = 1\n" * 500, SRC) == []
    assert code.too_long("x = 1\n" * 501, SRC) == [f"{SRC}: 501 lines; split it by 500"]


def test_a_long_function_is_found_with_its_size() -> None:
    assert code.too_long("async def f():\n" + "    x = 1\n" * 69, SRC) == []
    assert code.too_long("class A:\n  def f():\n" + "    x = 1\n" * 70, SRC) == [
        f"{SRC}:2: f has 71 lines; stop at 70"
    ]


def test_a_module_without_a_docstring_is_found() -> None:
    assert code.no_docstring("x = 1", SRC)
    assert code.no_docstring("", SRC)
    assert code.no_docstring('"""What it is."""', SRC) == []


@pytest.mark.parametrize(
    "source",
    [
        "class EC2NodeClass: ...",
        "ami_id = 1",
        "amis = 1",
        "listAMIs()",
        "x = 'karpenter.k8s.aws/instance-family'",
        "# what AWS does",
        "capacity_block = 1",
        "class CapacityBlock: ...",
        "x = 'capacity-block'",
        "# a Capacity\n# Block ends",
        "ODCRs = 1",
        "isUltraServer = 1",
        "x = 'ultraservers'",
        "role_arn = 1",
        "import boto3",
        "x = 'vpc.amazonaws.com/efa'",
        "eks = sqs = ssm = 1",
    ],
)
def test_a_cloud_that_is_named_is_found(source: str) -> None:
    assert clouds.findings(source, SRC)
    assert clouds.findings(source, "src/holdfast/cloud/aws/fleet.py") == []


@pytest.mark.parametrize(
    "source", ["dreams = learned = 1", "# capacity that blocks", "warn(laws, kamis, awsome)"]
)
def test_words_that_only_contain_a_cloud_pass(source: str) -> None:
    assert clouds.findings(source, "src/holdfast/model/offering.py") == []


@pytest.mark.parametrize("folder", ["work", "root", "home/ada", "Users/ada"])
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    [found] = files.machine_paths(f"see\n`/{folder}/notes.md`", "README.md")
    assert found.startswith(f"README.md:2: a path of one machine (/{folder.partition('/')[0]}/")


@pytest.mark.parametrize("text", ["/var/x", "https://x.example/home/ada", "/homes"])
def test_other_paths_pass(text: str) -> None:
    assert files.machine_paths(text, "README.md") == []


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_a_folder_of_such_a_name_below_another_passes(folder: str) -> None:
    assert files.machine_paths(f"frame/{folder}/x", "README.md") == []


def test_an_address_in_a_lock_is_found() -> None:
    assert files.addresses("a==1 \\\n    --hash=sha256:00", "requirements/runtime.txt") == []
    assert files.addresses("a @ https://x.example/a.whl", "requirements/runtime.txt")


def test_a_requirement_without_a_pin_is_found() -> None:
    pyproject = '[project]\ndependencies = ["Py_YAML>=6", "click[x]>=8 ; python_version > \'3\'"]'
    lock = dedent("""\
        py-yaml==6.0.3 \\
            --hash=sha256:00
        """)
    assert files.unlocked(files.dependencies(pyproject), lock, "runtime.txt") == [
        "runtime.txt: no pin for click; run: make lock"
    ]
    assert files.entries("# why\nmypy\nuv   # locks\n") == ["mypy", "uv"]


@pytest.mark.parametrize(
    "source", ["told_s = 1", "class MachineList: ...", "# nobody knows", 'f("it is bought")']
)
def test_a_banned_word_is_found_in_names_comments_and_texts(source: str) -> None:
    (found,) = words.findings(source, SRC)
    assert "write:" in found


def test_names_on_the_wire_are_allowed() -> None:
    assert words.findings('machineID = "HOME"  # the instance', SRC) == []
