"""Evaluates CEL rules like the API server; the only module that imports the CEL engine.

Kubernetes adds functions to CEL; of those, the rules of our CRDs use `find`.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings


@dataclass(frozen=True, slots=True)
class Failed:
    """The rule cannot be evaluated on this value. The API server then rejects the value, and so do we."""

    why: str


@cache
def program(rule: str) -> "Program":
    """The compiled rule; raises ValueError when it is not CEL."""
    return Program(rule)


class Program:
    """A compiled rule over `self` and, for updates, `oldSelf`."""

    def __init__(self, rule: str) -> None:
        try:
            self._expression = _environment().compile(rule)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"not a CEL rule: {rule}: {error}") from error

    def evaluate(self, value: Any, old: Any = None) -> bool | Failed:
        try:
            result = self._expression.eval(data={"self": value, "oldSelf": old})
        except (OverflowError, TypeError, ValueError, RuntimeError) as error:
            return Failed(str(error))
        if result.type() == cel.Type.BOOL:
            return bool(result.value())
        return Failed(str(result.value()))


def find(text: str, pattern: str) -> str:
    """The first match of a pattern in a text, or nothing: a Kubernetes addition to CEL."""
    match = re.search(pattern, text)
    return match.group(0) if match else ""


@cache
def _environment() -> Any:
    overload: Final = cel.Overload(
        "string_find_string",
        return_type=cel.Type.STRING,
        parameters=[cel.Type.STRING, cel.Type.STRING],
        is_member=True,
        impl=find,
    )
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        extensions=[ext_strings.ExtStrings()],
        functions=[cel.FunctionDecl("find", [overload])],
    )
