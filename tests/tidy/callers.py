"""Rule: if a module's docstring says which modules call it, those modules import it.

A sentence "Called by `a` and `b`" names modules by the end of their dotted names. Other forms ("Used by", "Built by",
callers in words) cannot be compared with the imports, so the rule refuses them.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

_SENTENCE: Final = re.compile(
    r"\b(?P<verb>(?:Called|Used|Built|Made|Read|Written|Owned|Started|Asked) by|Callers:) (?P<callers>.+?)[.;:](?:\s|$)"
)
_MODULE: Final = re.compile(r"`([\w.]+)`")


def findings(sources: Mapping[str, str]) -> list[str]:
    """Sources by dotted module name; a finding names the module."""
    trees = {name: ast.parse(source) for name, source in sources.items()}
    importers = _importers(trees)
    found = []
    for name, tree in sorted(trees.items()):
        docstring = " ".join((ast.get_docstring(tree) or "").split())
        for sentence in _SENTENCE.finditer(docstring):
            callers = _MODULE.findall(sentence["callers"])
            if sentence["verb"] != "Called by" or not callers:
                found.append(
                    f"{name}: {sentence[0].strip()!r}; write: Called by `module`, or remove the sentence"
                )
            found += [
                f"{name}: {caller} does not import it; mend or remove the sentence"
                for caller in callers
                if not any(_is_called(caller, importer) for importer in importers[name])
            ]
    return found


def _importers(trees: Mapping[str, ast.Module]) -> Mapping[str, set[str]]:
    importers = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    importers[full if full in trees else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    importers[alias.name].add(name)
    return importers


def _is_called(caller: str, importer: str) -> bool:
    return importer == caller or importer.endswith(f".{caller}")
