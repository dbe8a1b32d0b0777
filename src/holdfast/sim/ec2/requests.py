"""One call as the operations get it, and errors that several operations return.

An operation makes all its checks before it calls `proceed`, and writes nothing before that, so that a dry run returns
the same error as the real call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.listings import Listings


@dataclass(frozen=True, slots=True)
class Request:
    operation: str
    params: Mapping[str, Any]
    account: str
    agent: str = ""
    stale_s: int = 0  # age of the data in a Describe response
    listings: Listings = field(default_factory=Listings)

    @property
    def dry_run(self) -> bool:
        return bool(self.params.get("DryRun"))

    def get(self, name: str, default: Any = None) -> Any:
        return self.params.get(name, default)

    def need(self, name: str) -> Any:
        value = self.params.get(name)
        if value in (None, "", []):
            raise ApiError("MissingParameter", f"The request must contain the parameter {name}.", status=400)
        return value

    def proceed(self) -> None:
        """Call it after all checks: raises DryRunOperation in a dry run."""
        if self.dry_run:
            raise dry_run()

    def tags(self, resource_type: str) -> dict[str, str]:
        """The tags in TagSpecifications for one resource type."""
        return tags_for(self.get("TagSpecifications", ()), resource_type)


def dry_run() -> ApiError:
    return ApiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412)


def tags_for(specifications: Sequence[Mapping[str, Any]], resource_type: str) -> dict[str, str]:
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in specifications
        if specification.get("ResourceType") == resource_type
        for tag in specification.get("Tags", ())
    }


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def invalid(message: str) -> ApiError:
    return ApiError("InvalidParameterValue", message)


def clash(message: str) -> ApiError:
    return ApiError("InvalidParameterCombination", message)
