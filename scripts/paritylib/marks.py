"""Reads the `fact` markers of the tests.

Called by `parity`. Test modules are parsed and never imported. A marker counts where pytest applies it: on a test or a
class, in a `pytestmark`, or in the `marks` of a `pytest.param` of a parametrized test. Anywhere else pytest would
ignore it silently, so it is an error. Ids that are not literals are errors, too.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeGuard

from paritylib import ParityError

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Mark:
    fact_id: str
    test: str  # tests/unit/test_x.py::TestClass::test_name
    place: str  # tests/unit/test_x.py:12


def scan(root: Path) -> list[Mark]:
    """The markers of every file under tests/, in the order of the files."""
    marks: list[Mark] = []
    wrong: list[str] = []
    for path in sorted((root / "tests").rglob("*.py")):
        module = _Module(path.relative_to(root).as_posix(), ast.parse(path.read_bytes(), path))
        marks += module.marks()
        wrong += module.wrong
    if wrong:
        raise ParityError(wrong)
    return marks


class _Module:
    """Reads one file; `wrong` is complete when `marks` has returned."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.tree = tree
        self.wrong: list[str] = []
        self.counted: set[ast.Attribute] = set()
        # Parameters are often assigned before their use: CASES = [pytest.param(..., marks=...)].
        self.named = {name: node for node in tree.body for name in _names_assigned(node)}

    def marks(self) -> list[Mark]:
        found = list(self._in_body(self.tree.body, self.path))
        for node in ast.walk(self.tree):
            if _is_fact(node) and node not in self.counted:
                self._complain(
                    node, "is on no test: put it on a test, a class, a pytestmark or a pytest.param"
                )
        return found

    def _in_body(self, body: list[ast.stmt], owner: str) -> Iterator[Mark]:
        for node in body:
            if "pytestmark" in _names_assigned(node):
                yield from self._in_expression(node, owner)
            elif isinstance(node, Definition):
                yield from self._in_definition(node, f"{owner}::{node.name}")

    def _in_definition(self, node: Definition, owner: str) -> Iterator[Mark]:
        if isinstance(node, ast.ClassDef):
            yield from self._in_body(node.body, owner)
        elif not node.name.startswith("test"):
            return  # pytest does not run it
        for decorator in node.decorator_list:
            yield from self._in_expression(decorator, owner)
            for name in _names_used(decorator):
                if name in self.named:
                    yield from self._in_expression(self.named[name], owner)

    def _in_expression(self, expression: ast.AST, owner: str) -> Iterator[Mark]:
        for call in ast.walk(expression):
            if isinstance(call, ast.Call) and _is_fact(call.func):
                self.counted.add(call.func)
                for fact_id in self._ids(call):
                    yield Mark(fact_id, owner, f"{self.path}:{call.lineno}")

    def _ids(self, call: ast.Call) -> Iterator[str]:
        if not call.args or call.keywords:
            self._complain(call, "takes one or more fact ids and nothing else")
        for arg in call.args:
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                yield arg.value
            else:
                self._complain(call, "takes literal fact ids only: it is read without running the test")

    def _complain(self, node: ast.expr, what: str) -> None:
        self.wrong.append(f"{self.path}:{node.lineno}: pytest.mark.fact {what}")


def _is_fact(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.fact"


def _names_assigned(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _names_used(expression: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
