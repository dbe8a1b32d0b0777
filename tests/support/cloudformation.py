"""Resolves a CloudFormation template for given parameters: conditions, and the functions that deploy/cloudformation.yaml has.

`Fn::GetAtt` of a resource becomes `resource.attribute`, since there is no deployed resource. Anything unknown is an error.
`scripts/check_aws.py` compares the result with what moto deploys.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[2] / "deploy" / "cloudformation.yaml"


class _Loader(yaml.SafeLoader):
    """Reads `!Sub x` as `{"Fn::Sub": x}`."""


def _function(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        raise TypeError(f"!{tag} with an object: {node.start_mark}")
    return {tag if tag == "Ref" else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _function)


def template() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.load(FILE.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    return parsed


class RefusedParameter(Exception):
    """CloudFormation would refuse the parameters."""


@dataclass
class Resolved:
    """A template with parameters."""

    source: Mapping[str, Any]
    values: Mapping[str, str]  # parameters and pseudo parameters
    conditions: dict[str, bool] = field(default_factory=dict)

    def resources(self) -> dict[str, dict[str, Any]]:
        """Type and properties of each resource that is created."""
        return {
            name: {"Type": resource["Type"], "Properties": self.value(resource["Properties"])}
            for name, resource in self.source["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def outputs(self) -> dict[str, Any]:
        return {name: self.value(output["Value"]) for name, output in self.source["Outputs"].items()}

    def check_rules(self) -> None:
        for rule in self.source["Rules"].values():
            if self.value(rule["RuleCondition"]):
                for one in rule["Assertions"]:
                    if not self.value(one["Assert"]):
                        raise RefusedParameter(one["AssertDescription"])

    def holds(self, condition: str) -> bool:
        if condition not in self.conditions:
            self.conditions[condition] = bool(self.value(self.source["Conditions"][condition]))
        return self.conditions[condition]

    def value(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return [self.value(one) for one in raw]
        if not isinstance(raw, dict):
            return raw
        functions = [key for key in raw if key == "Ref" or key.startswith("Fn::")]
        if not functions:
            return {key: self.value(one) for key, one in raw.items()}
        (name,) = functions
        return self._call(name.removeprefix("Fn::"), raw[name])

    def _call(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._reference(argument)
            case "GetAtt":
                resource = argument.partition(".")[0]
                return argument if resource in self.source["Resources"] else self._unknown(argument)
            case "Sub":
                return self._substitute(argument)
            case "If":
                condition, yes, no = argument
                return self.value(yes if self.holds(condition) else no)
            case "Equals":
                left, right = self.value(argument)
                return left == right
            case "And":
                return all(self.value(argument))
            case "Not":
                return not self.value(argument[0])
            case _:
                return self._unknown(name)

    def _reference(self, name: str) -> str:
        if name in self.values:
            return self.values[name]
        return name if name in self.source["Resources"] else self._unknown(name)

    def _substitute(self, argument: Any) -> str:
        text, variables = (argument, {}) if isinstance(argument, str) else argument
        given = {name: self.value(raw) for name, raw in variables.items()}
        return re.sub(r"\$\{([^}]+)\}", lambda found: given.get(found[1]) or self._reference(found[1]), text)

    def _unknown(self, name: str) -> str:
        raise KeyError(f"{name!r} is unknown in the template")


def resolve(pseudo: Mapping[str, str], **parameters: str) -> Resolved:
    """The template with parameters, checked as CloudFormation checks them."""
    source = template()
    declared = source["Parameters"]
    if unknown := parameters.keys() - declared.keys():
        raise RefusedParameter(f"unknown: {sorted(unknown)}")
    values = {
        name: parameters.get(name, parameter.get("Default"))
        for name, parameter in declared.items()
        if name in parameters or "Default" in parameter
    }
    if missing := declared.keys() - values.keys():
        raise RefusedParameter(f"missing: {sorted(missing)}")
    for name, value in values.items():
        parameter = declared[name]
        if not re.fullmatch(parameter.get("AllowedPattern", ".*"), value):
            raise RefusedParameter(f"{name} {parameter['ConstraintDescription']}")
        if value not in parameter.get("AllowedValues", [value]) or len(value) < parameter.get("MinLength", 0):
            raise RefusedParameter(f"{name}: {value!r}")
    resolved = Resolved(source, {**values, **pseudo})
    resolved.check_rules()
    return resolved
