"""Rules for one Python file: size, catch-alls, module state, comments, module docstring.

Called by `test_tidy`. These are the rules of this codebase that ruff does not have.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

MODULE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
# Path -> why this file may catch all exceptions.
CATCH_ALLS: Final[dict[str, str]] = {
    "src/holdfast/runtime/controller.py": "a defect costs the key that it happened on, and no other",
    "src/holdfast/runtime/supervision.py": "a defect in a background task starts that task again",
    "src/holdfast/runtime/cache.py": "a defect in one handler keeps no other handler from hearing of a change",
    "src/holdfast/cloud/aws/client/batching.py": "a defect in a batch reaches each caller that waits for the batch",
    "src/holdfast/runtime/threads.py": "a thread passes whatever a call raises to its caller",
}

_MUTABLE_TYPES: Final = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"}
_UNFINISHED: Final = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
_BARE_IGNORE: Final = re.compile(r"#\s*type:\s*ignore(?!\[)")


def too_long(source: str, path: str) -> list[str]:
    lines = len(source.splitlines())
    found = [f"{path}: {lines} lines; split it by {MODULE_LINES_MAX}"] if lines > MODULE_LINES_MAX else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES_MAX:
                found.append(
                    f"{path}:{node.lineno}: {node.name} has {size} lines; stop at {FUNCTION_LINES_MAX}"
                )
    return found


def catch_alls(source: str, path: str) -> list[str]:
    if path in CATCH_ALLS:
        return []
    return [
        f"{path}:{line}: catches everything; catch by who must act (holdfast.errors)"
        for line in _catches(ast.parse(source))
    ]


def module_state(source: str, path: str) -> list[str]:
    """A lower-case mutable value of a module, or a `global`: state that callers do not pass in."""
    tree = ast.parse(source)
    found = [
        f"{path}:{node.lineno}: {name} is mutable state of the module; pass it, or make it a constant"
        for node in tree.body
        for name in _assigned(node)
        if name == name.lower() and not name.startswith("__") and _is_mutable(getattr(node, "value", None))
    ]
    found += [
        f"{path}:{node.lineno}: global {', '.join(node.names)}; pass it"
        for node in ast.walk(tree)
        if isinstance(node, ast.Global)
    ]
    return found


def comments(source: str, path: str) -> list[str]:
    found = []
    for line, comment in _comments(source):
        if _UNFINISHED.search(comment):
            found.append(
                f"{path}:{line}: unfinished work in a comment; finish it or write it down where it is tracked"
            )
        if _BARE_IGNORE.search(comment):
            found.append(f"{path}:{line}: type: ignore without a code; name the error it hides")
    return found


def no_docstring(source: str, path: str) -> list[str]:
    if ast.get_docstring(ast.parse(source)):
        return []
    return [f"{path}: opens without a docstring; say what it is, who calls it, which rule must hold"]


def _catches(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=caught) if caught is None or _names_everything(caught):
                yield node.lineno
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=args):
                if any(_names_everything(arg) for arg in args):
                    yield node.lineno


def _names_everything(caught: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in ast.walk(caught))


def _assigned(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _is_mutable(value: ast.expr | None) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _MUTABLE_TYPES
        case _:
            return False


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
