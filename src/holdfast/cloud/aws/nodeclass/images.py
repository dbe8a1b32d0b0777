"""Finds the images that a class selects: by alias, id, name, owner, tags or SSM parameter.

Called by `discovery`. As in Karpenter (aws-8.1), of images with the same requirements the best one is kept: not
deprecated, then the newest, then the greatest name. The status lists the newest first. Classes with the same query
share the response. Unlike in Karpenter, missing parameters are cached as well, so that an alias with missing parameters
needs no call every minute.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast import errors, names, ports
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import AMISelectorTerm
from holdfast.api.ec2nodeclass.status import AMI, AMIRequirement
from holdfast.cloud.aws.catalog import type_labels
from holdfast.cloud.aws.catalog.labels import WELL_KNOWN_LABELS
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Answers
from holdfast.cloud.aws.nodeclass import image_aliases
from holdfast.cloud.aws.nodeclass.image_aliases import Parameter, Requirements
from holdfast.model import requirement, requirements
from holdfast.model.offerings import InstanceType
from holdfast.model.requirement import Expression

IMAGES_TTL_S: Final = 300.0
ALIAS_TTL_S: Final = 86_400.0
PARAMETER_TTL_S: Final = 300.0  # for a parameter of a term
MISSING_TTL_S: Final = 3600.0
_PAGE: Final = 1000
_DEFAULT_OWNERS: Final = ("self", "amazon")


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    name: str
    architecture: str  # as Kubernetes names it
    created: str
    deprecated: bool


@dataclass(frozen=True, slots=True)
class Query:
    """One DescribeImages call: by ids, or by all other fields."""

    ids: tuple[str, ...] = ()
    name: str = ""
    owners: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()


class Images:
    def __init__(self, aws: Calls, clock: ports.Clock) -> None:
        self._aws = aws
        self._images = Answers[Query, tuple[Image, ...]](clock)
        self._parameters = Answers[str, str | None](clock)

    async def of(self, node_class: EC2NodeClass, kubernetes: str) -> tuple[AMI, ...]:
        """The images that the class selects, newest first. Raises InvalidInput if there can be none."""
        terms = node_class.spec.ami_selector_terms
        alias = next((term.alias for term in terms if term.alias), None)
        if alias is not None:
            return await self._of_alias(alias, kubernetes)
        found = [image for query in await self._queries(terms) for image in await self._find(query)]
        return _best((image, (_architecture(image),)) for image in found)

    async def _of_alias(self, alias: str, kubernetes: str) -> tuple[AMI, ...]:
        wanted = image_aliases.parameters(alias, kubernetes)
        ids = {parameter: await self._parameter(parameter.name, ALIAS_TTL_S) for parameter in wanted}
        known = sorted({image_id for image_id in ids.values() if image_id})
        images = {image.id: image for image in await self._find(Query(tuple(known)))} if known else {}
        self._doubt(ids, images)
        return _best(
            (images[image_id], (_architecture(images[image_id]), *variant))
            for parameter, image_id in ids.items()
            if image_id in images
            for variant in parameter.variants
        )

    def _doubt(self, ids: Mapping[Parameter, str | None], images: Mapping[str, Image]) -> None:
        """Discards parameters whose image is deprecated or deleted: they probably have a new value."""
        for parameter, image_id in ids.items():
            if image_id and (image_id not in images or images[image_id].deprecated):
                self._parameters.discard(parameter.name)

    async def _queries(self, terms: Iterable[AMISelectorTerm]) -> list[Query]:
        """All ids together are one query."""
        ids, queries = set(), []
        for term in terms:
            if term.id:
                ids.add(term.id)
            elif term.ssm_parameter:
                found = await self._parameter(term.ssm_parameter, PARAMETER_TTL_S)
                ids |= {found} if found else set()
            elif term.name or term.tags:
                owners = (term.owner,) if term.owner else _DEFAULT_OWNERS if term.name else ()
                queries.append(Query((), term.name or "", owners, tuple(sorted(term.tags.items()))))
        return [*([Query(tuple(sorted(ids)))] if ids else []), *queries]

    async def _parameter(self, name: str, ttl_s: float) -> str | None:
        async def fetch() -> str | None:
            try:
                return await self._aws.read(
                    calls.SSM, "GetParameter", lambda answer: str(answer["Parameter"]["Value"]), Name=name
                )
            except errors.NotFound:
                return None

        return await self._parameters.get(name, lambda found: ttl_s if found else MISSING_TTL_S, fetch)

    async def _find(self, query: Query) -> tuple[Image, ...]:
        return await self._images.get(query, lambda _: IMAGES_TTL_S, lambda: self._describe(query))

    async def _describe(self, query: Query) -> tuple[Image, ...]:
        filters = [{"Name": "state", "Values": ["available"]}]
        if query.ids:
            filters.append({"Name": "image-id", "Values": list(query.ids)})
        if query.name:
            filters.append({"Name": "name", "Values": [query.name]})
        for key, value in query.tags:
            any_value = {"Name": "tag-key", "Values": [key]}
            filters.append(any_value if value == "*" else {"Name": f"tag:{key}", "Values": [value]})
        owners: dict[str, Any] = {"Owners": list(query.owners)} if query.owners else {}
        found = await self._aws.pages(
            calls.EC2,
            "DescribeImages",
            "Images",
            parse=self._image,
            Filters=filters,
            IncludeDeprecated=True,
            MaxResults=_PAGE,
            **owners,
        )
        return tuple(image for image in found if image is not None)

    def _image(self, raw: Mapping[str, Any]) -> Image | None:
        """None: Kubernetes does not run on the architecture. An image that cannot be parsed is an error: if it were
        left out, the nodes with that image would drift."""
        if raw["Architecture"] not in type_labels.ARCHITECTURES:
            return None
        deprecated = raw.get("DeprecationTime")
        return Image(
            raw["ImageId"],
            raw.get("Name", ""),
            type_labels.ARCHITECTURES[raw["Architecture"]],
            raw.get("CreationDate", ""),
            deprecated is not None
            and datetime.fromisoformat(deprecated).timestamp() <= self._aws.ec2_clock.now_s(),
        )


def _architecture(image: Image) -> AMIRequirement:
    return AMIRequirement(key=names.ARCH, operator="In", values=(image.architecture,))


def _best(found: Iterable[tuple[Image, Requirements]]) -> tuple[AMI, ...]:
    """The best image for each set of requirements."""
    by_requirements: dict[Requirements, Image] = {}
    for image, wanted in found:
        key = tuple(sorted(wanted, key=lambda one: (len(one.key), one.key)))
        by_requirements[key] = max(by_requirements.get(key, image), image, key=_goodness)
    ordered = sorted(by_requirements.items(), key=lambda item: (item[1].id, _keys(item[0])))
    return tuple(
        AMI(id=image.id, name=image.name, deprecated=image.deprecated or None, requirements=wanted)
        for wanted, image in sorted(ordered, key=lambda item: item[1].created, reverse=True)
    )


def _goodness(image: Image) -> tuple[bool, str, str]:
    return not image.deprecated, image.created, image.name


def _keys(wanted: Requirements) -> list[str]:
    return [f"{one.key} {one.operator}" for one in wanted]


def image_for(instance_type: InstanceType, amis: Iterable[AMI]) -> str | None:
    """The first image that is compatible with this type."""
    for ami in amis:
        if instance_type.requirements.compatible(_needs(ami.requirements), WELL_KNOWN_LABELS):
            return ami.id
    return None


@functools.lru_cache(maxsize=256)
def _needs(wanted: tuple[AMIRequirement, ...]) -> requirements.Requirements:
    return requirements.from_expressions(
        Expression(one.key, requirement.operator(one.operator), one.values) for one in wanted
    )
