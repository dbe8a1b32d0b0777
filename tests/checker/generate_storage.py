"""Random volumes: claims bound to a zone, claims that wait for their first pod, and their classes."""

from collections.abc import Iterator
from typing import Final

from checker import generate_catalog
from checker.dice import Dice
from checker.generate_catalog import Document
from holdfast import names

DRIVER: Final = "ebs.csi.aws.com"
NAMESPACES: Final = ("default", "shop")


def volumes(dice: Dice) -> list[Document]:
    """Claims bound to a volume in a zone, and claims that wait for their first pod."""
    found = list(_classes())
    for index in range(dice.number(0, 4)):
        where, name = dice.pick(NAMESPACES), f"data-{index}"
        if dice.chance(0.6):
            found += _bound(name, where, dice.some(generate_catalog.ZONES[:2]))
        else:
            found.append(
                _claim(name, where, {"storageClassName": dice.pick(("anywhere", "zonal"))}, "Pending")
            )
    return found


def _classes() -> Iterator[Document]:
    zones = [{"key": names.ZONE, "values": list(generate_catalog.ZONES[:2])}]
    common = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    yield common | {"metadata": {"name": "anywhere"}}
    yield common | {"metadata": {"name": "zonal"}, "allowedTopologies": [{"matchLabelExpressions": zones}]}


def _bound(name: str, where: str, zones: list[str]) -> list[Document]:
    expression = {"key": names.ZONE, "operator": "In", "values": zones}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "anywhere",
        "csi": {"driver": DRIVER, "volumeHandle": f"vol-{where}-{name}"},
        "claimRef": {"namespace": where, "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    volume = f"pv-{where}-{name}"
    claim = _claim(name, where, {"storageClassName": "anywhere", "volumeName": volume}, "Bound")
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": volume}
    status = {"phase": "Bound"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        },
        claim,
    ]


def _claim(name: str, where: str, spec: Document, phase: str) -> Document:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": where},
        "spec": size | spec,
        "status": {"phase": phase},
    }
