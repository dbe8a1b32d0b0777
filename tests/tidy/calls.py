"""Rule: clocks, random numbers, new ids and print are used only in the packages listed here.

Called by `test_tidy`. A run must replay from its seed, so time and random numbers come through ports. The rule
follows imports and checks names rather than calls: a clock that is passed on is read somewhere.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BANNED: Final = (
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.sleep",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "random.*",
    "uuid.uuid1",
    "uuid.uuid4",
    "print",
)


@dataclass(frozen=True, slots=True)
class AllowedUse:
    folder: str  # a prefix of the path: a folder or a file
    names: tuple[str, ...]  # what is allowed there, as in BANNED; "time.*" allows all of time
    why: str


# A new row is a decision: it states why this package needs a clock or random numbers of its own.
ALLOWED_USES: Final = (
    AllowedUse("src/holdfast/cli/", ("print",), "a command speaks to its user"),
    AllowedUse("src/holdfast/cli/plan.py", ("time.time",), "a scenario without a date is planned as of now"),
    AllowedUse("src/holdfast/runtime/clock.py", ("time.time",), "the Clock port in real time"),
    AllowedUse("src/holdfast/sim/ids.py", ("random.Random",), "the Ids port of a run that replays"),
    AllowedUse("scripts/", ("print",), "a command speaks to its user"),
    AllowedUse("scripts/mutants.py", ("random.Random",), "a seed picks the mutants"),
    AllowedUse(
        "scripts/mutantlib/executed_lines.py", ("time.*",), "how long a test takes decides when it is tried"
    ),
    AllowedUse("tests/peers/", ("time.*",), "real programs take real time to come up"),
    AllowedUse("tests/bench/", ("print", "time.*"), "a benchmark measures real time and prints it"),
    AllowedUse("tests/install/", ("print", "time.*"), "real programs run in real time"),
    AllowedUse("tests/contract/", ("time.*",), "a real peer answers in real time"),
    AllowedUse("tests/e2e/", ("time.*",), "a real cluster answers in real time"),
    AllowedUse("tests/", ("random.Random",), "a test may make its own dice, from a seed"),
)


def findings(source: str, path: str) -> list[str]:
    tree = ast.parse(source)
    allowed = [name for use in ALLOWED_USES if path.startswith(use.folder) for name in use.names]
    return [
        f"{path}:{line}: {name} outside its modules; take it as an argument or through a port"
        for line, name in _uses(tree, _imports(tree))
        if _matches(name, BANNED) and not _matches(name, allowed)
    ]


def _matches(name: str, patterns: tuple[str, ...] | list[str]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith(".*") else name == pattern for pattern in patterns
    )


def _imports(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: after `from time import sleep as nap`, nap is time.sleep."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    top = alias.name.partition(".")[0]  # what `import os.path` binds, unless it says `as`
                    names[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names |= {a.asname or a.name: f"{module}.{a.name}" for a in aliases}
    return names


def _uses(node: ast.AST, imports: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Every name that is read, in full: `dt.now` is one use of datetime.datetime.now."""
    name = _full_name(node, imports)
    if name is not None and isinstance(node, ast.expr):
        yield node.lineno, name
        return
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, imports)


def _full_name(node: ast.AST, imports: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return imports.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            owner = _full_name(value, imports)
            return owner and f"{owner}.{attr}"
        case _:
            return None
