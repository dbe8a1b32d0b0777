"""Which controller a pod belongs to, from the pod alone."""

from dataclasses import dataclass
from typing import Final

from holdfast.api.pods import Pod
from holdfast.scenarios.history import shapes
from holdfast.state.conversion import pod_states

DEPLOYMENT: Final = "Deployment"
REPLICA_SET: Final = "ReplicaSet"
_COUNTING: Final = (REPLICA_SET, pod_states.STATEFUL_SET, "ReplicationController")
_JOB: Final = "Job"
_IGNORED: Final = (pod_states.DAEMON_SET, pod_states.MIRROR)
_KNOWN: Final = frozenset(
    {
        ("apps/v1", REPLICA_SET),
        ("apps/v1", pod_states.STATEFUL_SET),
        ("apps/v1", pod_states.DAEMON_SET),
        ("batch/v1", _JOB),
        ("v1", "ReplicationController"),
        ("v1", pod_states.MIRROR),
    }
)


@dataclass(frozen=True, slots=True)
class Owner:
    kind: str  # one of Kubernetes; empty for other kinds, whose name could be that of a company
    namespace: str
    name: str
    uid: str
    counts: bool  # it keeps a number of pods; otherwise each pod counts by itself
    revision: str = ""  # of a Deployment: which ReplicaSet the pod belongs to

    @property
    def is_ignored(self) -> bool:
        """DaemonSets are read themselves; the kubelet creates static pods on each node."""
        return self.kind in _IGNORED


def owner_of(pod: Pod) -> Owner:
    """A ReplicaSet that is named after the pod's template hash belongs to a Deployment, which keeps its name through a
    rollout."""
    meta = pod.metadata
    found = next((one for one in meta.owner_references if one.controller), None)
    if found is None:
        return Owner("", meta.namespace, "", "", counts=False)
    kind = found.kind if (found.api_version, found.kind) in _KNOWN else ""
    if kind == REPLICA_SET:
        for label in shapes.TEMPLATE_HASHES:
            revision = meta.labels.get(label, "")
            name = found.name.removesuffix(f"-{revision}")
            if revision and name and name != found.name:
                return Owner(DEPLOYMENT, meta.namespace, name, "", counts=True, revision=revision)
    counts = kind in _COUNTING or (kind != _JOB and pod.spec.restart_policy == "Always")
    return Owner(kind, meta.namespace, found.name, found.uid, counts)
