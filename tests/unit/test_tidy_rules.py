"""Each rule of tests/tidy reports what it forbids and accepts everything else."""

from textwrap import dedent

import pytest

from tidy import callers, calls, clouds, code, files, words

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
def test_a_clock_random_number_or_print_in_the_wrong_package_is_found(source: str) -> None:
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
def test_allowed_calls_and_similar_names_pass(source: str, path: str) -> None:
    assert calls.findings(source, path) == []


def test_unseeded_random_numbers_are_found_in_tests_too() -> None:
    assert calls.findings("import random\nrandom.choice([1])", "tests/unit/test_solve.py")


@pytest.mark.parametrize(
    "handler", ["except:", "except Exception:", "except (ValueError, BaseException) as error:"]
)
def test_a_catch_all_is_found(handler: str) -> None:
    assert code.catch_alls(f"try:\n    f()\n{handler}\n    pass", SRC) == [
        f"{SRC}:3: catches everything; catch by who must act (holdfast.errors)"
    ]


def test_suppressing_all_exceptions_is_a_catch_all() -> None:
    assert code.catch_alls("with contextlib.suppress(Exception):\n    f()", SRC)


def test_catching_one_exception_type_passes() -> None:
    assert code.catch_alls("try:\n    f()\nexcept ValueError:\n    pass", SRC) == []


@pytest.mark.parametrize(
    "source", ["seen = {}", "_seen: list[str] = []", "cache = collections.deque()", "def f():\n    global x"]
)
def test_mutable_state_of_a_module_is_found(source: str) -> None:
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
def test_a_todo_or_a_bare_type_ignore_is_found(comment: str) -> None:
    assert code.comments(f"x = 1  {comment}", SRC)


@pytest.mark.parametrize("source", ["x = 'TODO'", "x = 1  # type: ignore[assignment]", "x = 1  # todos"])
def test_strings_and_type_ignores_with_a_code_pass(source: str) -> None:
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
def test_the_name_of_a_cloud_is_found(source: str) -> None:
    assert clouds.findings(source, SRC)
    assert clouds.findings(source, "src/holdfast/cloud/aws/fleet.py") == []


@pytest.mark.parametrize(
    "source", ["dreams = learned = 1", "# capacity that blocks", "warn(laws, kamis, awsome)"]
)
def test_words_that_only_contain_the_name_of_a_cloud_pass(source: str) -> None:
    assert clouds.findings(source, "src/holdfast/model/offering.py") == []


@pytest.mark.parametrize("folder", ["work", "root", "home/ada", "Users/ada"])
def test_a_path_of_one_computer_is_found(folder: str) -> None:
    [found] = files.machine_paths(f"see\n`/{folder}/notes.md`", "README.md")
    assert found.startswith(f"README.md:2: a path of one machine (/{folder.partition('/')[0]}/")


@pytest.mark.parametrize("text", ["/var/x", "https://x.example/home/ada", "/homes"])
def test_other_paths_pass(text: str) -> None:
    assert files.machine_paths(text, "README.md") == []


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_a_relative_path_with_such_a_folder_passes(folder: str) -> None:
    assert files.machine_paths(f"frame/{folder}/x", "README.md") == []


def test_a_download_address_in_a_lock_file_is_found() -> None:
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


def test_names_of_api_fields_are_allowed() -> None:
    assert words.findings('machineID = "HOME"  # the instance', SRC) == []


def callers_of_a(docstring: str) -> list[str]:
    sources = {
        "x.a": f'"""A module.\n\n{docstring}\n"""',
        "x.b": "from x import a",
        "x.c": "from x.a import f",
        "x.d": "",
    }
    return callers.findings(sources)


@pytest.mark.parametrize(
    "docstring", ["Called by `b` and `c`, once a minute.", "Called by `x.b`.", "No caller."]
)
def test_callers_that_import_the_module_pass(docstring: str) -> None:
    assert callers_of_a(docstring) == []


@pytest.mark.parametrize(
    "docstring",
    ["Called by `b` and `d`.", "Called by the planner.", "Used by `b`.", "Callers: `b`.", "Built by x."],
)
def test_a_caller_that_does_not_import_the_module_is_found(docstring: str) -> None:
    assert len(callers_of_a(docstring)) == 1
