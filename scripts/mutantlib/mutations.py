"""Single changes of the meaning of a module, found in its syntax tree.

Called by `mutants.py`. A mutation is a range of the source text and its replacement, so all other bytes stay. Only
changes that a test could detect are made. Left out are annotations, decorators, docstrings, assertions, messages, log
lines, enums, and the values of module constants (a test that repeats a constant shows nothing).
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
}
_FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
Part = ast.expr | ast.stmt

_LOGGERS: Final = ("_log", "log")


@dataclass(frozen=True, slots=True)
class Mutation:
    line: int  # first line of the statement or expression that changes
    end_line: int
    text: str  # the source line without indentation, which changes less often than its number
    change: str  # `before -> after`
    start: int  # bytes of the source that are replaced
    end: int
    replacement: str

    def apply(self, source: str) -> str:
        raw = source.encode()
        return (raw[: self.start] + self.replacement.encode() + raw[self.end :]).decode()


def mutations(source: str) -> list[Mutation]:
    """The mutations in the order of the source. Each result parses and differs from the source."""
    tree = ast.parse(source)
    before = ast.dump(tree)
    found: dict[str, Mutation] = {}
    for one in _Finder(source).found(tree):
        try:
            changed = ast.dump(ast.parse(one.apply(source)))
        except SyntaxError:
            continue
        if changed != before:
            found.setdefault(changed, one)
    return sorted(found.values(), key=lambda one: (one.start, one.end, one.change))


class _Finder:
    def __init__(self, source: str) -> None:
        self._raw = source.encode()
        self._lines = source.splitlines()
        self._offsets = [0]
        for line in self._raw.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))

    def found(self, tree: ast.Module) -> Iterator[Mutation]:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from self._inside(node)

    def _inside(self, node: ast.AST) -> Iterator[Mutation]:
        if _is_left_out(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            children: list[ast.AST] = [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        elif isinstance(node, ast.ClassDef):
            children = list(node.body)
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value is not None else []
        else:
            children = list(ast.iter_child_nodes(node))
        yield from self._of(node)
        for child in children:
            yield from self._inside(child)

    def _of(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield from self._condition(test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._condition(test)
            case ast.match_case(guard=ast.expr() as guard):
                yield from self._condition(guard)
            case ast.Return(value=ast.expr() as value) if not _is_falsy(value):
                yield self._replaced(value, node, "None", "return None")
            case ast.Expr() | ast.AugAssign():
                yield self._replaced(node, node, "pass", "statement removed")
            case ast.Continue() | ast.Break():
                yield self._replaced(node, node, "pass")
            case ast.expr():
                yield from self._of_expression(node)
            case _:
                pass

    def _of_expression(self, node: ast.expr) -> Iterator[Mutation]:
        match node:
            case ast.Compare():
                yield from self._comparison(node)
            case ast.BoolOp():
                yield from self._boolean(node)
            case ast.UnaryOp(op=ast.Not()):
                yield self._replaced(node, node, self._operand(node.operand), "not removed")
            case ast.BinOp():
                yield from self._arithmetic(node)
            case ast.Constant(value=bool() as flag):
                yield self._replaced(node, node, str(not flag))
            case ast.Constant(value=int() | float() as number):
                yield self._replaced(node, node, repr(number + 1))
            case ast.Call(func=ast.Name(id=name) as func) if name in _FUNCTIONS:
                yield self._replaced(func, node, _FUNCTIONS[name])
            case _:
                pass

    def _comparison(self, node: ast.Compare) -> Iterator[Mutation]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            before, after = _COMPARISONS[type(operator)]
            for new in after:
                yield from self._between(node, left, right, before, new)
            left = right

    def _boolean(self, node: ast.BoolOp) -> Iterator[Mutation]:
        is_and = isinstance(node.op, ast.And)
        words = ("and", "or") if is_and else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from self._between(node, left, right, *words)
        for value in node.values:
            yield self._replaced(value, value, str(is_and), f"`{self._words(value)}` ignored")

    def _arithmetic(self, node: ast.BinOp) -> Iterator[Mutation]:
        if type(node.op) in _ARITHMETIC:
            yield from self._between(node, node.left, node.right, *_ARITHMETIC[type(node.op)])
        if isinstance(node.op, ast.Sub):
            yield self._replaced(
                node, node, self._operand(node.left), f"`{self._words(node.right)}` not subtracted"
            )

    def _condition(self, test: ast.expr) -> Iterator[Mutation]:
        for value in ("True", "False"):
            yield self._replaced(test, test, value, f"condition `{self._words(test)}` is {value}")

    def _between(
        self, node: ast.expr, left: ast.expr, right: ast.expr, before: str, after: str
    ) -> Iterator[Mutation]:
        """Replaces the operator between two operands."""
        start, end = self._end(left), self._start(right)
        between = self._raw[start:end].decode()
        operator = re.search(rf"\b{before}\b" if before[0].isalpha() else before, between)
        if operator is not None:
            at = start + len(between[: operator.start()].encode())
            to = at + len(operator[0].encode())
            change = f"`{self._words(left)} {operator[0]}` -> `{after}`"
            yield self._mutation(node, at, to, after, change, line=left.end_lineno or left.lineno)

    def _replaced(self, part: Part, whole: Part, text: str, change: str = "") -> Mutation:
        start, end = self._start(part), self._end(part)
        return self._mutation(whole, start, end, text, change or f"`{self._words(part)}` -> `{text}`")

    def _mutation(
        self, node: Part, start: int, end: int, text: str, change: str, line: int | None = None
    ) -> Mutation:
        first = line or node.lineno
        return Mutation(
            first, node.end_lineno or first, self._lines[first - 1].strip(), change, start, end, text
        )

    def _source(self, node: Part) -> str:
        return self._raw[self._start(node) : self._end(node)].decode()

    def _operand(self, node: ast.expr) -> str:
        """With parentheses if the context could change its meaning."""
        text = self._source(node)
        return f"({text})" if isinstance(node, ast.BoolOp | ast.Compare | ast.IfExp | ast.BinOp) else text

    def _words(self, node: Part) -> str:
        return " ".join(self._source(node).split())

    def _start(self, node: Part) -> int:
        return self._offsets[node.lineno - 1] + node.col_offset

    def _end(self, node: Part) -> int:
        line, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._offsets[line - 1] + column


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Raise():
            return True
        case ast.Expr(value=ast.Constant()):
            return True  # docstring, or `...`
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=logger))):
            return _name(logger) in _LOGGERS
        case ast.ClassDef(bases=bases):
            return any(_name(base) in ("Enum", "StrEnum", "IntEnum", "Protocol") for base in bases)
        case _:
            return False


def _is_falsy(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
