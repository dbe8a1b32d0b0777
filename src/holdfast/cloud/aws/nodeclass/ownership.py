"""Which AWS objects are Holdfast's: their tags and the paths of their instance profiles. Pure.

Karpenter garbage-collects instances with the tag `karpenter.k8s.aws/ec2nodeclass`, launch templates with the tag
`eks:eks-cluster-name`, and instance profiles below `/karpenter/`. Alone in the cluster, Holdfast uses the same names, so
that it continues with Karpenter's objects. Beside Karpenter it uses others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass


@dataclass(frozen=True, slots=True)
class Ownership:
    kind: type[EC2NodeClass]  # of the classes that Holdfast launches from
    other_kinds: tuple[type[EC2NodeClass], ...]  # of the classes of another program
    template_prefix: str  # of the names of launch templates
    profile_root: str  # the first part of the path of instance profiles
    names_cluster_on_templates: bool  # whether launch templates have the tag `eks:eks-cluster-name`

    def is_ours(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags is launched from a class of our kind. The tags of a class may have any
        name, so an instance of another program may have our tag as well."""
        if self.kind.label not in tags:
            return False
        return not self.other_kinds or not any(kind.label in tags for kind in self.other_kinds)

    def template_tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        """The tags of a launch template, from those of its instances."""
        cluster = tags[aws.CLUSTER_NAME_TAG]
        kept = {
            key: value
            for key, value in tags.items()
            if key != aws.CLUSTER_NAME_TAG or self.names_cluster_on_templates
        }
        return kept | {aws.HOLDFAST_TAG: cluster}


ALONE: Final = Ownership(
    kind=EC2NodeClass,
    other_kinds=(),
    template_prefix=f"{aws.GROUP}/",
    profile_root="karpenter",
    names_cluster_on_templates=True,
)
BESIDE_KARPENTER: Final = Ownership(
    kind=HoldfastNodeClass,
    other_kinds=(EC2NodeClass,),
    template_prefix=f"{aws.HOLDFAST_GROUP}/",
    profile_root="holdfast",
    names_cluster_on_templates=False,
)
