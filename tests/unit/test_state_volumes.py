"""Requirements of the volumes of a pod: attachments, topology, and reasons why a volume cannot be used."""

from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.state.conversion import volumes
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import Converted, PodContext
from holdfast.state.conversion.pods import PodConverter
from objects import AN_HOUR_AGO, bound_claim, claim, in_places, pod, storage_class, volume

RULES = LabelRules(WELL_KNOWN_LABELS, {"topology.ebs.csi.aws.com/zone": names.ZONE})
EBS: dict[str, Any] = {"csi": {"driver": "ebs.csi.aws.com"}}


def converted(made: Pod, *objects: Any) -> Converted:
    known = volumes.storage(
        [o for o in objects if o.kind == "PersistentVolumeClaim"],
        [o for o in objects if o.kind == "PersistentVolume"],
        [o for o in objects if o.kind == "StorageClass"],
    )
    return PodConverter(RULES, PodContext(storage=known)).convert(made)


def with_claims(*names: str) -> Pod:
    return pod(volumes=[{"name": f"v{n}", "persistentVolumeClaim": {"claimName": n}} for n in names])


def alternatives(made: Converted) -> list[str]:
    assert not made.problems
    return [str(alternative) for alternative in made.shape.volumes.alternatives]


@pytest.mark.parametrize(
    ("objects", "driver"),
    [
        ([bound_claim("data", "vol"), volume(**EBS)], "ebs.csi.aws.com"),
        ([bound_claim("data", "vol"), volume(awsElasticBlockStore={"volumeID": "v"})], "ebs.csi.aws.com"),
        ([bound_claim("data", "vol"), volume(gcePersistentDisk={"pdName": "d"})], "pd.csi.storage.gke.io"),
        (
            [
                claim(spec={"storageClassName": "gp2"}),
                storage_class("gp2", provisioner="kubernetes.io/aws-ebs"),
            ],
            "ebs.csi.aws.com",
        ),
        (
            [claim(spec={"storageClassName": "efs"}), storage_class("efs", provisioner="efs.csi.aws.com")],
            "efs.csi.aws.com",
        ),
    ],
)
def test_attachments_are_counted_under_the_name_of_the_csi_driver(objects: list[Any], driver: str) -> None:
    got = converted(with_claims("data"), *objects).shape.volumes
    assert got.claims == ((driver, "default/data"),)


def test_one_claim_in_two_volumes_is_one_attachment() -> None:
    got = converted(with_claims("data", "data"), bound_claim("data", "vol"), volume(**EBS))
    assert len(got.shape.volumes.claims) == 1


@pytest.mark.fact("S-96")
def test_each_term_of_a_volume_or_storage_class_is_an_alternative() -> None:
    bound = converted(
        with_claims("data"),
        bound_claim("data", "vol"),
        volume(**EBS, nodeAffinity=in_places({names.ZONE: ["a"]}, {"topology.ebs.csi.aws.com/zone": ["b"]})),
    )
    assert alternatives(bound) == [f"{names.ZONE} In [a]", f"{names.ZONE} In [b]"]
    terms = [{"matchLabelExpressions": [{"key": names.ZONE, "values": v}]} for v in (["a", "b"], ["c"])]
    unbound = converted(
        with_claims("data"),
        claim(spec={"storageClassName": "gp3"}),
        storage_class(allowedTopologies=terms),
    )
    assert alternatives(unbound) == [f"{names.ZONE} In [a b]", f"{names.ZONE} In [c]"]


@pytest.mark.fact("S-96")
def test_the_alternatives_of_several_volumes_are_intersected() -> None:
    one = volume("one", **EBS, nodeAffinity=in_places({names.ZONE: ["a"]}, {names.ZONE: ["b"]}))
    two = volume("two", **EBS, nodeAffinity=in_places({names.ZONE: ["b"]}, {names.ZONE: ["c"]}))
    made = converted(with_claims("x", "y"), bound_claim("x", "one"), bound_claim("y", "two"), one, two)
    assert alternatives(made) == [f"{names.ZONE} In [b]"]


@pytest.mark.fact("S-96")
def test_volumes_without_a_common_zone_get_an_unsatisfiable_alternative() -> None:
    one = volume("one", **EBS, nodeAffinity=in_places({names.ZONE: ["a"]}))
    two = volume("two", **EBS, nodeAffinity=in_places({names.ZONE: ["b"]}))
    made = converted(with_claims("x", "y"), bound_claim("x", "one"), bound_claim("y", "two"), one, two)
    assert alternatives(made) == [f"{names.ZONE} DoesNotExist"]


def test_the_number_of_alternatives_is_bounded() -> None:
    rows = [in_places(*({f"key{n}": [str(v)]} for v in range(8))) for n in range(5)]
    made = converted(
        with_claims(*(f"c{n}" for n in range(5))),
        *(bound_claim(f"c{n}", f"v{n}") for n in range(5)),
        *(volume(f"v{n}", **EBS, nodeAffinity=row) for n, row in enumerate(rows)),
    )
    assert len(made.shape.volumes.alternatives) == volumes.ALTERNATIVES_MAX


@pytest.mark.fact("S-97")
@pytest.mark.parametrize("source", [{"local": {"path": "/d"}}, {"hostPath": {"path": "/d"}}])
def test_a_local_volume_does_not_require_its_old_node(source: dict[str, Any]) -> None:
    both = volume(**source, nodeAffinity=in_places({names.HOSTNAME: ["n"], names.ZONE: ["a"]}))
    assert alternatives(converted(with_claims("d"), bound_claim("d", "vol"), both)) == [
        f"{names.ZONE} In [a]"
    ]
    alone = volume(**source, nodeAffinity=in_places({names.HOSTNAME: ["n"]}))
    assert alternatives(converted(with_claims("d"), bound_claim("d", "vol"), alone)) == []


@pytest.mark.fact("S-98")
def test_the_topology_of_volumes_is_separate_from_the_requirements_of_the_pod() -> None:
    where = volume(**EBS, nodeAffinity=in_places({names.ZONE: ["a"]}))
    shape = converted(with_claims("d"), bound_claim("d", "vol"), where).shape
    assert shape.node_selector == NO_REQUIREMENTS
    assert shape.required_terms == ()


@pytest.mark.fact("S-99")
def test_the_claim_of_an_ephemeral_volume_is_named_after_pod_and_volume() -> None:
    made = pod("web-0", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    objects = claim("web-0-scratch", spec={"storageClassName": "gp3"}), storage_class()
    assert converted(made, *objects).shape.volumes.claims == (("ebs.csi.aws.com", "default/web-0-scratch"),)
    assert converted(made).shape.volumes.claims == ()


WAIT_FOR_FIRST_CONSUMER = storage_class()
UNBOUND = claim(spec={"storageClassName": "gp3"})
HOSTNAME_TOPOLOGY = [{"matchLabelExpressions": [{"key": names.HOSTNAME, "values": ["n"]}]}]


@pytest.mark.fact("S-100", "S-8")
@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "does not exist"),
        ([claim("data", {"deletionTimestamp": AN_HOUR_AGO}), WAIT_FOR_FIRST_CONSUMER], "being deleted"),
        ([claim(spec={"volumeName": "vol"}, status={"phase": "Lost"}), volume(**EBS)], "lost"),
        ([bound_claim("data", "vol")], "volume vol does not exist"),
        ([bound_claim("data", "vol"), volume("vol", {"deletionTimestamp": AN_HOUR_AGO})], "being deleted"),
        ([claim(spec={"volumeName": "vol"}), volume(**EBS)], "not complete"),
        ([claim()], "names no storage class"),
        ([claim(spec={"storageClassName": ""})], "names no storage class"),
        ([UNBOUND], "storage class gp3 does not exist"),
        ([UNBOUND, storage_class(volumeBindingMode="Immediate")], "binds at once"),
        ([UNBOUND, storage_class(provisioner="kubernetes.io/no-provisioner")], "makes no volumes"),
        ([UNBOUND, storage_class(allowedTopologies=HOSTNAME_TOPOLOGY)], "topology"),
    ],
)
def test_a_pod_with_an_unusable_volume_is_rejected(objects: list[Any], message: str) -> None:
    (reason,) = converted(with_claims("data"), *objects).problems
    assert reason.code is ReasonCode.VOLUMES
    assert reason.subject == "data"
    assert message in reason.text


def test_a_pod_with_an_unreadable_volume_is_rejected() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
    strange = volume(**EBS, nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    assert converted(with_claims("data"), bound_claim("data", "vol"), strange).problems


# --- Pods that do not exist yet -----------------------------------------------------------------------


def with_ephemeral(**spec: Any) -> Pod:
    return pod(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])


def virtual(made: Pod, *classes: Any) -> Converted:
    return PodConverter(RULES, PodContext(storage=volumes.storage([], [], classes))).convert_virtual(made)


def default_class(name: str, created: str) -> Any:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    made = storage_class(name, provisioner=f"{name}.csi.aws.com", volumeBindingMode="WaitForFirstConsumer")
    meta = structs.replace(
        made.metadata, annotations=annotations, creation_timestamp=datetime.fromisoformat(created)
    )
    return structs.replace(made, metadata=meta)


def test_claims_of_ephemeral_volumes_are_created_with_their_pod() -> None:
    gp3 = storage_class("gp3", provisioner="ebs.csi.aws.com", volumeBindingMode="WaitForFirstConsumer")
    made = with_ephemeral(storageClassName="gp3")
    assert [reason.text for reason in converted(made, gp3).problems] == ["it does not exist"]
    assert not virtual(made, gp3).problems
    (attachment,) = virtual(made, gp3).shape.volumes.claims
    assert attachment[0] == "ebs.csi.aws.com"


def test_claims_without_a_class_get_the_newest_default_class() -> None:
    old, new = default_class("old", "2026-01-01T00:00:00Z"), default_class("new", "2026-02-01T00:00:00Z")
    (attachment,) = virtual(with_ephemeral(), old, new).shape.volumes.claims
    assert attachment[0] == "new.csi.aws.com"


def test_a_claim_without_any_class_is_a_problem() -> None:
    (problem,) = virtual(with_ephemeral()).problems
    assert problem.text == "it is not bound and names no storage class"
