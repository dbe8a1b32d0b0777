"""Translates the placement kernel from Python to C, and compiles it to a shared library without dependencies.

`hatch_build.py` calls it for wheels and editable installs, the Makefile after a change of the kernel, `make wheel` for
other processors. It uses only the standard library, so that a build needs a C compiler and nothing else.

The kernel (`src/holdfast/core/scheduling/kernel`) is the only source. It is written in a subset of Python that has the
same meaning in C: functions over integers and arrays, loops over `range`, no objects, no exceptions. Code outside the
subset is an error with its file and line. All integers have 64 bits and wrap around. Arrays are passed as their address
and shape; they are contiguous, and an index is never negative (compile with `--checked` to abort where one is out of
range; tests do).
"""

import argparse
import ast
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "src/holdfast/core/scheduling/kernel"
LIBRARY: Final = "kernel.so"
NO_COMPILER: Final = (
    "no C compiler ($CC, cc, gcc, clang): plans are made by the plain Python kernel, which is slower"
)
_STATE: Final = "packing_state"
# A module comes after the modules whose functions it calls.
_MODULES: Final = ("capacity", "spare_capacity", "lists", "slots", "topology", "fitting", "placing")
_ENTRY: Final = "run"
_FLAGS: Final = (
    *("-O3", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-fvisibility=hidden", "-g0"),
    "-Wno-parentheses-equality",
)
# Without the C library one file works with glibc and musl.
_ALONE: Final = ("-nostdlib", "-ffreestanding", "-s", "-Wl,--build-id=none")

_ARRAYS: Final = {"Ints": "int64_t", "Words": "uint64_t", "Bytes": "uint8_t", "Counts": "int32_t"}
_VALUES: Final = {"int": "int64_t", "bool": "int64_t", "None": "void", "tuple[int, int]": "Pair"}
_FUNCTIONS: Final = {"min": "lesser", "max": "greater"}
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}

_HEAD: Final = """\
#include <stdint.h>

typedef struct { int64_t first, second; } Pair;

#ifdef CHECKED
#include <stdio.h>
#include <stdlib.h>
static int64_t within(int64_t index, int64_t size, int line) {
    if (index < 0 || index >= size) {
        fprintf(stderr, "kernel.c:%d: index %lld of %lld\\n", line, (long long)index, (long long)size);
        abort();
    }
    return index;
}
#define WITHIN(index, size) within(index, size, __LINE__)
#else
#define WITHIN(index, size) (index)
#endif
#define AT1(a, i) (a).data[WITHIN(i, (a).shape[0])]
#define AT2(a, i, j) (a).data[WITHIN(i, (a).shape[0]) * (a).shape[1] + WITHIN(j, (a).shape[1])]
#define AT3(a, i, j, k) \\
    (a).data[(WITHIN(i, (a).shape[0]) * (a).shape[1] + WITHIN(j, (a).shape[1])) * (a).shape[2] + WITHIN(k, (a).shape[2])]

static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t floor_division(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
"""


class UnsupportedError(Exception):
    """Code of the kernel that is outside the subset."""


@dataclass(frozen=True)
class Function:
    module: str
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.tree.name

    @property
    def signature(self) -> str:
        arguments = [f"{self.c_type(a)}{a.arg}" for a in self.tree.args.args]
        return f"static {_VALUES[ast.unparse(self.tree.returns)]} {self.name}({', '.join(arguments)})"  # type: ignore[arg-type]

    def c_type(self, argument: ast.arg) -> str:
        """The C type of an argument."""
        name = ast.unparse(argument.annotation) if argument.annotation else ""
        if name == "PackingState" or name in _ARRAYS:
            return f"{name} *"
        if name not in _VALUES:
            raise unsupported(self.module, argument, f"an argument of type {name or 'unknown'}")
        return f"{_VALUES[name]} "


@dataclass(frozen=True)
class Kernel:
    constants: dict[str, int]
    fields: dict[str, str]  # type of array by name, in the order of PackingState
    functions: dict[str, Function]
    writers: frozenset[str] = frozenset()  # functions that change an array

    def returns_bool(self, name: str) -> bool:
        found = self.functions.get(name)
        return found is not None and ast.unparse(found.tree.returns) == "bool"  # type: ignore[arg-type]


def unsupported(module: str, node: ast.AST, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{module}.py:{getattr(node, 'lineno', 0)}: {what} is not in the subset of the kernel"
    )


def read(folder: Path) -> Kernel:
    constants: dict[str, int] = {}
    fields: dict[str, str] = {}
    for node in _tree(folder, _STATE).body:
        match node:
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=ast.Name(id="Final"), value=ast.expr() as value
            ):
                constants[name] = ast.literal_eval(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="range"))):
                constants |= {ast.unparse(name): number for number, name in enumerate(names)}
            case ast.ClassDef(name="PackingState", body=body):
                fields = {
                    ast.unparse(one.target): ast.unparse(one.annotation)
                    for one in body
                    if isinstance(one, ast.AnnAssign)
                }
    functions = {
        node.name: Function(module, node)
        for module in _MODULES
        for node in _tree(folder, module).body
        if isinstance(node, ast.FunctionDef)
    }
    return Kernel(constants, fields, functions, _writers(functions))


def _tree(folder: Path, module: str) -> ast.Module:
    return ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))


def _writers(functions: dict[str, Function]) -> frozenset[str]:
    def writes(node: ast.AST) -> bool:
        return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)

    found = {name for name, one in functions.items() if any(map(writes, ast.walk(one.tree)))}
    while more := {
        name for name, one in functions.items() if name not in found and found & set(_called(one.tree))
    }:
        found |= more
    return frozenset(found)


def _called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@dataclass
class Body:
    """The C code of one function."""

    kernel: Kernel
    function: Function
    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # types of local variables
    depth: int = 1

    def text(self) -> str:
        self.block(self.function.tree.body)
        declared = [f"    {type_} {name};" for name, type_ in self.variables.items()]
        return "\n".join([f"{self.function.signature} {{", *declared, *self.lines, "}"])

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def inner(self, head: str, statements: Sequence[ast.stmt], *first: str) -> None:
        self.write(f"{head} {{")
        self.depth += 1
        for line in first:
            self.write(line)
        self.block(statements)
        self.depth -= 1

    def unsupported(self, node: ast.AST, what: str) -> UnsupportedError:
        return unsupported(self.function.module, node, what)

    def temporary(self, type_: str = "int64_t") -> str:
        name = f"temporary_{len(self.variables)}"
        self.variables[name] = type_
        return name

    # --- Statements ---------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.If(test=test, body=body, orelse=other):
                self.inner(f"if ({self.test(test)})", body)
                if other:
                    self.inner("} else", other)
                self.write("}")
            case ast.While(test=test, body=body, orelse=[]):
                self.inner(f"while ({self.test(test)})", body)
                self.write("}")
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range")) as range_, orelse=[]
            ):
                self.loop(name, range_, node.body)
            case ast.Expr(value=ast.Constant(value=str())):
                pass  # docstring
            case _:
                self.write(f"{self.simple(node)};")

    def simple(self, node: ast.stmt) -> str:
        """A statement without nested statements. It may emit lines before it."""
        match node:
            case ast.Expr(value=value):
                return self.value(value)
            case ast.Return(value=ast.expr() as value):
                is_bool = self.kernel.returns_bool(self.function.name)
                return f"return {self.test(value) if is_bool else self.value(value)}"
            case ast.Return():
                return "return"
            case ast.Continue():
                return "continue"
            case ast.Break():
                return "break"
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS:
                return f"{self.target(target)} {_OPERATORS[type(op)]}= {self.value(value)}"
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return self.unpack(targets, value)
            case ast.Assign(targets=[target], value=value):
                return f"{self.target(target)} = {self.value(value)}"
            case _:
                raise self.unsupported(node, f"`{ast.unparse(node).splitlines()[0]}`")

    def loop(self, name: str, range_: ast.Call, body: Sequence[ast.stmt]) -> None:
        """The range is evaluated once, and the variable keeps its last value, as in Python."""
        match range_.args:
            case [end]:
                first, step = "0", 1
            case [start, end]:
                first, step = self.value(start), 1
            case [start, end, by]:
                first, step = self.value(start), ast.literal_eval(by)
            case _:
                raise self.unsupported(range_, f"`{ast.unparse(range_)}`")
        self.variables.setdefault(name, "int64_t")
        number, last = self.temporary(), self.temporary()
        compare = "<" if step > 0 else ">"
        begin = f"{number} = {first}, {last} = {self.value(end)}"
        self.inner(
            f"for ({begin}; {number} {compare} {last}; {number} += {step})", body, f"{name} = {number};"
        )
        self.write("}")

    def unpack(self, targets: Sequence[ast.expr], value: ast.expr) -> str:
        """Computes every value before it assigns the first."""
        if isinstance(value, ast.Tuple):
            values = [self.temporary() for _ in value.elts]
            for name, one in zip(values, value.elts, strict=True):
                self.write(f"{name} = {self.value(one)};")
        else:
            pair = self.temporary("Pair")
            self.write(f"{pair} = {self.value(value)};")
            values = [f"{pair}.first", f"{pair}.second"]
        return ", ".join(
            f"{self.target(target)} = {name}"
            for target, name in zip(targets, values, strict=True)
            if not (isinstance(target, ast.Name) and target.id == "_")
        )

    # --- Expressions --------------------------------------------------------------------------------

    def target(self, node: ast.expr) -> str:
        """The target of an assignment: a local variable, a number argument or an element."""
        if isinstance(node, ast.Name):
            if all(node.id != one.arg for one in self.function.tree.args.args):
                self.variables.setdefault(node.id, "int64_t")
            return node.id
        if not isinstance(node, ast.Subscript):
            raise self.unsupported(node, f"an assignment to `{ast.unparse(node)}`")
        return self.value(node)

    def test(self, node: ast.expr) -> str:
        """An expression in a condition, where `and` and `or` have the same meaning in C."""
        match node:
            case ast.BoolOp(op=op, values=values):
                self.check_order(node)
                return (
                    "(" + (" && " if isinstance(op, ast.And) else " || ").join(map(self.test, values)) + ")"
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self.test(operand)})"
            case _:
                return self.value(node)

    def value(self, node: ast.expr) -> str:
        self.check_order(node)
        match node:
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return f"floor_division({self.value(left)}, {self.value(right)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return f"({self.value(left)} {_OPERATORS[type(op)]} {self.value(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.value(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self.test(operand)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return f"({self.value(left)} {_COMPARISONS[type(op)]} {self.value(right)})"
            case ast.BoolOp(values=values) if all(map(self.is_bool, values)):
                return self.test(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return f"({self.test(test)} ? {self.value(body)} : {self.value(other)})"
            case _:
                return self.operand(node)

    def operand(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool() | int() as number):
                return str(int(number))
            case ast.Name(id=name) if name in self.kernel.constants:
                return f"({self.kernel.constants[name]} /* {name} */)"
            case ast.Name(id=name):
                return name
            case ast.Tuple(elts=[first, second]):
                return f"(Pair){{{self.value(first)}, {self.value(second)}}}"
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                if name not in self.kernel.functions and name not in _FUNCTIONS:
                    raise self.unsupported(node, f"a call of {name}")
                return f"{_FUNCTIONS.get(name, name)}({', '.join(map(self.argument, arguments))})"
            case ast.Subscript(
                value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=int() as axis)
            ):
                return f"{self.array(array)}.shape[{axis}]"
            case ast.Subscript(value=array, slice=index):
                indexes = index.elts if isinstance(index, ast.Tuple) else [index]
                return f"AT{len(indexes)}({self.array(array)}, {', '.join(map(self.value, indexes))})"
            case _:
                raise self.unsupported(node, f"`{ast.unparse(node)}`")

    def argument(self, node: ast.expr) -> str:
        return f"&{self.array(node)}" if isinstance(node, ast.Attribute) else self.value(node)

    def array(self, node: ast.expr) -> str:
        match node:
            case ast.Attribute(value=ast.Name(id="ps"), attr=name) if name in self.kernel.fields:
                return f"ps->{name}"
            case ast.Name(id=name):
                return f"(*{name})"
            case _:
                raise self.unsupported(node, f"the array `{ast.unparse(node)}`")

    def is_bool(self, node: ast.expr) -> bool:
        match node:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.BoolOp(values=values):
                return all(map(self.is_bool, values))
            case ast.Call(func=ast.Name(id=name)):
                return self.kernel.returns_bool(name)
            case _:
                return False

    def check_order(self, node: ast.expr) -> None:
        """C leaves the order in which operands are evaluated undefined, so at most one of them may have side
        effects."""
        if sum(name in self.kernel.writers for name in _called(node)) > 1:
            raise self.unsupported(node, "more than one call that changes an array in one expression")


def c_source(folder: Path = FOLDER) -> str:
    kernel = read(folder)
    arrays = [
        f"typedef struct {{ {type_} *data; int64_t shape[3]; }} {name};" for name, type_ in _ARRAYS.items()
    ]
    state = [f"    {type_} {name};" for name, type_ in kernel.fields.items()]
    bodies = [
        f"// {function.module}.py\n{Body(kernel, function).text()}\n"
        for function in kernel.functions.values()
    ]
    export = '__attribute__((visibility("default")))'
    return "\n".join(
        [
            _HEAD,
            *arrays,
            "\ntypedef struct {",
            *state,
            "} PackingState;\n",
            *(f"{function.signature};" for function in kernel.functions.values()),
            "",
            *bodies,
            f"{export} int64_t holdfast_{_ENTRY}(PackingState *ps) {{ return {_ENTRY}(ps); }}",
            f'{export} const char holdfast_kernel_version[] = "{version(folder)}";\n',
        ]
    )


def version(folder: Path = FOLDER) -> str:
    """A hash of the sources. `holdfast` computes the same hash, and loads no library with another one."""
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(content).hexdigest()


def compiler() -> list[str] | None:
    """The C compiler in $CC, or an installed one; None if there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in ([named] if named else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    return None


def build(target: Path, command: Sequence[str], *, checked: bool = False, folder: Path = FOLDER) -> None:
    """Writes the library. Processes that have loaded the old one keep using it."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        source, library = Path(scratch, "kernel.c"), Path(scratch, LIBRARY)
        source.write_text(c_source(folder), encoding="utf-8")
        alone = sys.platform == "linux" and not checked
        flags = (*_FLAGS, *(_ALONE if alone else ()), *(("-DCHECKED",) if checked else ()))
        subprocess.run([*command, *flags, "-o", library, source], check=True)  # noqa: S603 - the compiler
        library.chmod(0o755)
        library.replace(target)


def main() -> int:
    parser = argparse.ArgumentParser(description="compile the placement kernel")
    parser.add_argument("--output", type=Path, default=FOLDER / LIBRARY)
    parser.add_argument("--checked", action="store_true", help="abort where an index is out of range")
    parser.add_argument("--print", action="store_true", help="print the C source, and compile nothing")
    options = parser.parse_args()
    if options.print:
        print(c_source())
        return 0
    command = compiler()
    if command is None:
        print(NO_COMPILER)
        return 0
    build(options.output, command, checked=options.checked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
