"""Evaluates a rule with two CEL engines that share no code: Holdfast's, and one for comparison."""

import re
from typing import Any

import cel as other

from holdfast.api import cel


def verdicts(rule: str, value: Any, old: Any = None) -> tuple[bool, bool]:
    """Whether each engine accepts the value, Holdfast's first. A rule that raises an error accepts nothing."""
    return cel.program(rule).evaluate(value, old) is True, _second(rule, value, old)


def _second(rule: str, value: Any, old: Any) -> bool:
    functions = {"find": _find, "split": _split}
    context = other.Context(variables={"self": value, "oldSelf": old}, functions=functions)
    try:
        return other.compile(rule).execute(context) is True
    except (RuntimeError, ValueError, TypeError):
        return False


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match.group(0) if match else ""


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)
