"""Binding, eviction, grace periods, garbage collection and namespaces in the embedded API server."""

import asyncio

from api_fronts import (
    BUDGETS,
    DEPLOYMENTS,
    MERGE,
    NODEPOOLS,
    NODES,
    PODS,
    Line,
    deployment,
    each_front,
    each_server,
    line,
    node,
    nodepool,
    owned,
    pod,
    with_crds,
)

BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "a"},
    "target": {"kind": "Node", "name": "n1"},
}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
TEAM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
REPLICASETS = DEPLOYMENTS.replace("deployments", "replicasets")


async def create_running_pod(line: Line, name: str = "a") -> None:
    await line.create(PODS, pod(name, nodeName="n1"))
    await line.patch(
        f"{PODS}/{name}/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )


async def create_budget(line: Line, allowed: int) -> None:
    selector = {"matchLabels": {"app": "web"}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    await line.create(BUDGETS, {**body, "spec": {"minAvailable": 1, "selector": selector}})
    counts = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
    }
    await line.patch(f"{BUDGETS}/b/status", {"status": counts})


@each_server
async def test_pod_can_be_bound_only_once(line: Line) -> None:
    await line.create(NODES, node(labels={"topology.kubernetes.io/zone": "z1", "other": "x"}))
    await line.create(PODS, pod())
    answer = await line.ask("POST", f"{PODS}/a/binding", BINDING)
    assert (answer.status, answer.value["status"]) == (201, "Success")
    bound = await line.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"] == {"app": "web", "topology.kubernetes.io/zone": "z1"}
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await line.ask("POST", f"{PODS}/a/binding", BINDING)
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    direct = await line.ask("PATCH", f"{PODS}/a", {"spec": {"nodeName": "n2"}}, type_=MERGE)
    assert direct.status == 422


@each_front
async def test_bound_pod_has_a_grace_period_until_a_delete_without_one(line: Line) -> None:
    await line.create(PODS, pod(nodeName="n1", terminationGracePeriodSeconds=20))
    terminating = (await line.ask("DELETE", f"{PODS}/a")).value
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 20
    assert terminating["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    assert (await line.get(f"{PODS}/a"))["metadata"]["deletionTimestamp"]
    assert (await line.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})).status == 200
    assert (await line.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})).status == 404


@each_server
async def test_pod_without_a_node_is_deleted_immediately(line: Line) -> None:
    await line.create(PODS, pod())
    await line.ask("DELETE", f"{PODS}/a")
    assert (await line.ask("GET", f"{PODS}/a")).status == 404


@each_server
async def test_an_eviction_is_refused_while_the_budget_forbids_it(line: Line) -> None:
    await create_running_pod(line)
    await create_budget(line, allowed=0)
    refused = await line.ask("POST", f"{PODS}/a/eviction", EVICTION)
    assert refused.status == 429
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = refused.value["details"]["causes"][0]
    assert cause == {
        "reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
    }
    assert "deletionTimestamp" not in (await line.get(f"{PODS}/a"))["metadata"]


@each_front
async def test_eviction_decrements_the_allowed_disruptions(line: Line) -> None:
    await create_running_pod(line)
    await create_running_pod(line, "b")
    await create_budget(line, allowed=1)
    wrong = {**EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}}
    assert (await line.ask("POST", f"{PODS}/a/eviction", wrong)).status == 409
    assert (await line.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 1
    assert (await line.ask("POST", f"{PODS}/a/eviction", EVICTION)).status == 201
    terminating = await line.get(f"{PODS}/a")
    assert terminating["metadata"]["deletionTimestamp"]
    assert "DisruptionTarget" in {c["type"] for c in terminating["status"]["conditions"]}
    status = (await line.get(f"{BUDGETS}/b"))["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    other = {**EVICTION, "metadata": {"name": "b"}}
    assert (await line.ask("POST", f"{PODS}/b/eviction", other)).status == 429


@each_server
async def test_disruption_budget_without_a_status_forbids_evictions(line: Line) -> None:
    await create_running_pod(line)
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    await line.create(BUDGETS, {**body, "spec": {"selector": {}}})
    refused = await line.ask("POST", f"{PODS}/a/eviction", EVICTION)
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")


@each_front
async def test_background_deletion_deletes_dependents(line: Line) -> None:
    owner = await line.create(DEPLOYMENTS, deployment())
    child = {**deployment("web-1"), "kind": "ReplicaSet", "metadata": {"name": "web-1", **owned(owner)}}
    set_ = await line.create(REPLICASETS, child)
    for name in ("a", "b"):
        await line.create(PODS, pod(name, metadata={"name": name, **owned(set_)}))
    await line.ask("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Background"})
    assert (await line.get(REPLICASETS))["items"] == []
    assert (await line.get(PODS))["items"] == []


@each_front
async def test_orphan_deletion_removes_only_the_owner_references(line: Line) -> None:
    owner = await line.create(DEPLOYMENTS, deployment())
    await line.create(PODS, pod(metadata={"name": "a", **owned(owner)}))
    await line.ask("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Orphan"})
    assert (await line.ask("GET", f"{DEPLOYMENTS}/web")).status == 404
    assert "ownerReferences" not in (await line.get(f"{PODS}/a"))["metadata"]


@each_front
async def test_foreground_deletion_waits_for_blocking_dependents(line: Line) -> None:
    await with_crds(line)
    owner = await line.create(NODEPOOLS, nodepool())
    held = {"name": "a", "finalizers": ["x.dev/hold"], **owned(owner, blockOwnerDeletion=True)}
    await line.create(PODS, pod(metadata=held))
    await line.ask("DELETE", f"{NODEPOOLS}/default", {"propagationPolicy": "Foreground"})
    waiting = await line.get(f"{NODEPOOLS}/default")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (await line.get(f"{PODS}/a"))["metadata"]["deletionTimestamp"]
    await line.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert (await line.ask("GET", f"{NODEPOOLS}/default")).status == 404


@each_front
async def test_dependent_is_deleted_unless_another_owner_exists(line: Line) -> None:
    one, two = await line.create(NODES, node("n1")), await line.create(NODES, node("n2"))
    both = owned(one)["ownerReferences"] + owned(two)["ownerReferences"]
    await line.create(PODS, pod(metadata={"name": "a", "ownerReferences": both}))
    await line.ask("DELETE", f"{NODES}/n1")
    assert [r["name"] for r in (await line.get(f"{PODS}/a"))["metadata"]["ownerReferences"]] == ["n2"]
    await line.create(PODS, pod("late", metadata={"name": "late", **owned(one)}))
    assert (await line.ask("GET", f"{PODS}/late")).status == 404


@each_front
async def test_namespace_is_deleted_when_it_is_empty(line: Line) -> None:
    space = "/api/v1/namespaces/team"
    await line.create("/api/v1/namespaces", TEAM)
    held = pod(metadata={"name": "a", "finalizers": ["x.dev/hold"]})
    await line.create(f"{space}/pods", held)
    await line.create(f"{space}/pods", pod("b"))
    assert (await line.ask("DELETE", space)).value["status"]["phase"] == "Terminating"
    assert [p["metadata"]["name"] for p in (await line.get(f"{space}/pods"))["items"]] == ["a"]
    late = await line.ask("POST", f"{space}/pods", pod("c"))
    assert (late.status, late.value["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    await line.patch(f"{space}/pods/a", {"metadata": {"finalizers": None}})
    assert (await line.ask("GET", space)).status == 404


def test_namespace_with_many_pods_is_deleted_without_deep_recursion() -> None:
    async def run() -> None:
        async with line() as inside:
            await inside.create("/api/v1/namespaces", TEAM)
            owner = await inside.create(NODES, node())
            for n in range(1200):
                metadata = {"name": f"p{n}", **owned(owner, blockOwnerDeletion=True)}
                await inside.create("/api/v1/namespaces/team/pods", pod(metadata=metadata))
            await inside.ask("DELETE", f"{NODES}/n1", {"propagationPolicy": "Foreground"})
            assert (await inside.get("/api/v1/namespaces/team/pods"))["items"] == []
            assert (await inside.ask("DELETE", "/api/v1/namespaces/team")).status == 200
            assert (await inside.ask("GET", "/api/v1/namespaces/team")).status == 404

    asyncio.run(run())


@each_server
async def test_admission_sets_priority_requests_and_tolerations_of_a_pod(line: Line) -> None:
    body = pod(priorityClassName="system-node-critical")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "0.5", "memory": "1Gi"}}
    made = await line.create(PODS, body)
    assert made["spec"]["priority"] == 2_000_001_000
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"
    assert [t["tolerationSeconds"] for t in made["spec"]["tolerations"]] == [300, 300]
    unknown = await line.ask("POST", PODS, pod("b", priorityClassName="nope"))
    assert unknown.message == 'pods "b" is forbidden: no PriorityClass with name nope was found'
