"""Objects in the embedded API server, through both fronts: created, read, changed, selected, deleted."""

from api_fronts import (
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    Line,
    deployment,
    each_front,
    each_server,
    node,
    pod,
)

WRONG_TOKEN = "wrong"


@each_front
async def test_server_sets_uid_generation_and_creation_time_of_a_new_object(line: Line) -> None:
    made = await line.create(PODS, pod(metadata={"name": "a", "uid": "mine", "generation": 7}))
    meta = made["metadata"]
    assert meta["uid"] != "mine"
    assert (meta["generation"], meta["namespace"]) == (1, "default")
    assert meta["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert meta["resourceVersion"].isdecimal()
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert await line.get(f"{PODS}/a") == made


@each_server
async def test_generated_names_differ(line: Line) -> None:
    names = {
        (await line.create(PODS, pod(metadata={"name": "", "generateName": "web-"})))["metadata"]["name"]
        for _ in "12"
    }
    assert len(names) == 2
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


@each_server
async def test_resource_versions_increase_across_kinds(line: Line) -> None:
    made = [
        await line.create(PODS, pod()),
        await line.create(NODES, node()),
        await line.create(DEPLOYMENTS, deployment()),
    ]
    versions = [int(one["metadata"]["resourceVersion"]) for one in made]
    assert versions == sorted(set(versions))


@each_server
async def test_existing_name_is_a_conflict(line: Line) -> None:
    await line.create(PODS, pod())
    again = await line.ask("POST", PODS, pod())
    assert again.status == 409
    assert again.value == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "pods"},
        "code": 409,
    }


@each_server
async def test_missing_objects_and_paths_are_not_found(line: Line) -> None:
    answer = await line.ask("GET", f"{DEPLOYMENTS}/nope")
    assert (answer.status, answer.message) == (404, 'deployments.apps "nope" not found')
    assert answer.value["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}
    for path in ("/api/v1/foos", "/apis/apps/v1/namespaces/x/deployments/a/b/c", "/apis/apps/v9"):
        missing = await line.ask("GET", path)
        assert (missing.status, missing.value["reason"]) == (404, "NotFound"), path
        assert missing.message == "the server could not find the requested resource"
    for path in ("/apis/nope/v1/foos", "/apis/nope", "/nope"):
        missing = await line.ask("GET", path)
        assert (missing.status, missing.body) == (404, b"404 page not found\n"), path
    assert (
        await line.ask("POST", "/api/v1/namespaces/nowhere/pods", pod())
    ).message == 'namespaces "nowhere" not found'


@each_server
async def test_error_of_an_invalid_object_has_each_invalid_field(line: Line) -> None:
    answer = await line.ask("POST", PODS, pod(metadata={"name": "Bad_Name"}, containers=[]))
    assert answer.status == 422
    assert answer.value["details"]["kind"] == "Pod"
    fields = [(cause["reason"], cause["field"]) for cause in answer.value["details"]["causes"]]
    assert fields == [("FieldValueInvalid", "metadata.name"), ("FieldValueRequired", "spec.containers")]


@each_server
async def test_unknown_fields_are_refused_warned_of_or_dropped(line: Line) -> None:
    odd = pod(foo=1)
    strict = await line.ask("POST", f"{PODS}?fieldValidation=Strict", odd)
    assert strict.status == 400
    assert strict.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"'
    )
    warned = await line.ask("POST", f"{PODS}?fieldValidation=Warn", odd)
    assert warned.status == 201
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.foo\\""'
    assert "foo" not in warned.value["spec"]
    ignored = await line.ask("POST", f"{PODS}?fieldValidation=Ignore", pod("b", foo=1))
    assert "warning" not in ignored.headers


@each_server
async def test_a_dry_run_changes_nothing(line: Line) -> None:
    answer = await line.ask("POST", f"{PODS}?dryRun=All", pod())
    assert (answer.status, answer.value["metadata"]["name"]) == (201, "a")
    assert "resourceVersion" not in answer.value["metadata"]
    assert {"uid", "creationTimestamp"} <= answer.value["metadata"].keys()
    assert (await line.ask("GET", f"{PODS}/a")).status == 404
    made = await line.create(PODS, pod())
    await line.ask("PATCH", f"{PODS}/a?dryRun=All", {"metadata": {"labels": {"x": "y"}}}, type_=MERGE)
    await line.ask("DELETE", f"{PODS}/a?dryRun=All")
    assert await line.get(f"{PODS}/a") == made


@each_server
async def test_a_stale_version_is_refused_in_put_and_in_any_patch(line: Line) -> None:
    made = await line.create(PODS, pod())
    stale = made["metadata"]["resourceVersion"]
    newer = await line.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    put = await line.ask("PUT", f"{PODS}/a", made)
    merge = await line.ask("PATCH", f"{PODS}/a", {"metadata": {"resourceVersion": stale}}, type_=MERGE)
    change = [{"op": "replace", "path": "/metadata/resourceVersion", "value": stale}]
    patch = await line.ask("PATCH", f"{PODS}/a", change, type_=JSON_PATCH)
    for answer in (put, merge, patch):
        assert answer.status == 409
        assert answer.message == (
            'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the'
            " latest version and try again"
        )
    assert await line.get(f"{PODS}/a") == newer


@each_server
async def test_patch_without_a_change_leaves_the_resource_version(line: Line) -> None:
    made = await line.create(PODS, pod())
    same = await line.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "web"}}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@each_server
async def test_generation_counts_changes_of_the_spec_alone(line: Line) -> None:
    await line.create(DEPLOYMENTS, deployment())
    labelled = await line.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"x": "1"}}})
    scaled = await line.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 3}})
    reported = await line.patch(f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 3}})
    assert [o["metadata"]["generation"] for o in (labelled, scaled, reported)] == [1, 2, 2]


@each_server
async def test_status_subresource_writes_the_status_and_nothing_else(line: Line) -> None:
    await line.create(DEPLOYMENTS, deployment())
    by_main = await line.patch(f"{DEPLOYMENTS}/web", {"status": {"replicas": 9}, "spec": {"replicas": 2}})
    assert (by_main["spec"]["replicas"], by_main["status"]) == (2, {})
    by_status = await line.patch(
        f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 9}, "spec": {"replicas": 5}}
    )
    assert (by_status["spec"]["replicas"], by_status["status"]["replicas"]) == (2, 9)


@each_server
async def test_node_can_be_created_with_a_status(line: Line) -> None:
    made = await line.create(NODES, {**node(), "status": {"capacity": {"cpu": "1000m", "memory": "1.5Gi"}}})
    assert made["status"]["capacity"] == {"cpu": "1", "memory": "1536Mi"}
    assert made["status"]["allocatable"] == made["status"]["capacity"]


@each_server
async def test_strategic_patches_merge_lists_by_their_keys(line: Line) -> None:
    await line.create(NODES, {**node(), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    for type_ in ("Ready", "MemoryPressure"):
        change = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
        await line.patch(f"{NODES}/n1/status", change, STRATEGIC)
    change = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    after = await line.patch(f"{NODES}/n1/status", change, STRATEGIC)
    found = {c["type"]: c["status"] for c in after["status"]["conditions"]}
    assert found == {"Ready": "False", "MemoryPressure": "True"}
    removal = {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}
    after = await line.patch(f"{NODES}/n1/status", removal, STRATEGIC)
    assert [c["type"] for c in after["status"]["conditions"]] == ["MemoryPressure"]
    taints = await line.patch(
        f"{NODES}/n1", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC
    )
    assert [taint["key"] for taint in taints["spec"]["taints"]] == [
        "b"
    ]  # a patch replaces the whole list of taints
    held = await line.patch(f"{NODES}/n1", {"metadata": {"finalizers": ["x.dev/a"]}}, STRATEGIC)
    assert held["metadata"]["finalizers"] == ["x.dev/a"]
    more = await line.patch(f"{NODES}/n1", {"metadata": {"finalizers": ["x.dev/b"]}}, STRATEGIC)
    assert sorted(more["metadata"]["finalizers"]) == ["x.dev/a", "x.dev/b"]  # merged as a set
    free = await line.patch(f"{NODES}/n1", {"metadata": {"finalizers": None}}, STRATEGIC)
    assert "finalizers" not in free["metadata"]


@each_server
async def test_json_patches_apply_as_a_whole_or_not_at_all(line: Line) -> None:
    made = await line.create(PODS, pod())
    change = [
        {"op": "add", "path": "/metadata/labels/x", "value": "1"},
        {"op": "test", "path": "/metadata/name", "value": "other"},
    ]
    assert (await line.ask("PATCH", f"{PODS}/a", change, type_=JSON_PATCH)).status == 422
    assert await line.get(f"{PODS}/a") == made
    after = await line.patch(f"{PODS}/a", change[:1], JSON_PATCH)
    assert after["metadata"]["labels"] == {"app": "web", "x": "1"}
    moved = [{"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/y~1z"}]
    after = await line.patch(f"{PODS}/a", moved, JSON_PATCH)
    assert after["metadata"]["labels"] == {"app": "web", "y/z": "1"}


@each_server
async def test_lists_are_selected_by_labels_and_fields(line: Line) -> None:
    for name, tier, node_name in (("a", "front", "n1"), ("b", "back", ""), ("c", "back", "n2")):
        await line.create(
            PODS, pod(name, metadata={"name": name, "labels": {"tier": tier}}, nodeName=node_name)
        )

    async def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await line.get(f"/api/v1/pods?{query}"))["items"]]

    assert await names("labelSelector=tier=back") == ["b", "c"]
    assert await names("labelSelector=tier in (front,other),!zone") == ["a"]
    assert await names("labelSelector=tier!=back") == ["a"]
    assert await names("fieldSelector=spec.nodeName=") == ["b"]
    assert await names("fieldSelector=spec.nodeName!=,metadata.name!=a") == ["c"]
    assert await names("fieldSelector=status.phase=Pending&labelSelector=tier=front") == ["a"]
    unknown = await line.ask("GET", "/api/v1/pods?fieldSelector=spec.foo=x")
    assert (unknown.status, unknown.message) == (400, "field label not supported: spec.foo")
    assert (await line.ask("GET", "/api/v1/pods?labelSelector=a b")).status == 400


@each_server
async def test_pages_of_a_list_have_one_resource_version(line: Line) -> None:
    for name in "abcde":
        await line.create(PODS, pod(name))
    first = await line.get(f"{PODS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    await line.ask("DELETE", f"{PODS}/d")
    await line.create(PODS, pod("bb"))
    rest = await line.get(f"{PODS}?limit=9&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in rest["metadata"]


@each_server
async def test_list_can_have_an_exact_older_version(line: Line) -> None:
    old = (await line.create(PODS, pod("a")))["metadata"]["resourceVersion"]
    await line.create(PODS, pod("b"))
    then = await line.get(f"{PODS}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in then["items"]] == ["a"]
    for query in (f"resourceVersion={old}", "resourceVersion=0"):
        assert len((await line.get(f"{PODS}?{query}"))["items"]) == 2
    future = await line.ask("GET", f"{PODS}?resourceVersion=999999")
    assert future.status == 504
    assert future.value["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@each_front
async def test_object_with_a_finalizer_stays_until_the_finalizer_is_removed(line: Line) -> None:
    await line.create(NODES, node(finalizers=["x.dev/hold"]))
    held = await line.ask("DELETE", f"{NODES}/n1")
    assert held.status == 200
    assert held.value["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    more = await line.ask(
        "PATCH", f"{NODES}/n1", {"metadata": {"finalizers": ["x.dev/hold", "x.dev/b"]}}, type_=MERGE
    )
    assert more.status == 422
    await line.patch(f"{NODES}/n1", {"metadata": {"finalizers": None}})
    assert (await line.ask("GET", f"{NODES}/n1")).status == 404


@each_server
async def test_delete_checks_its_preconditions(line: Line) -> None:
    made = await line.create(NODES, node())
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        answer = await line.ask("DELETE", f"{NODES}/n1", {"preconditions": wrong})
        assert (answer.status, answer.value["reason"]) == (409, "Conflict")
    right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    answer = await line.ask("DELETE", f"{NODES}/n1", {"preconditions": right})
    assert (answer.status, answer.value["status"]) == (200, "Success")
    assert answer.value["details"] == {"name": "n1", "kind": "nodes", "uid": made["metadata"]["uid"]}


@each_server
async def test_a_collection_is_deleted_by_its_selector(line: Line) -> None:
    for name in "abc":
        await line.create(NODES, node(name, labels={"old": "yes" if name != "b" else "no"}))
    assert (await line.ask("DELETE", f"{NODES}?labelSelector=old=yes")).status == 200
    assert [item["metadata"]["name"] for item in (await line.get(NODES))["items"]] == ["b"]


@each_server
async def test_request_with_a_wrong_token_is_unauthorized(line: Line) -> None:
    answer = await line.ask("GET", NODES, token=WRONG_TOKEN)
    assert (answer.status, answer.value["reason"]) == (401, "Unauthorized")
    assert (await line.ask("GET", "/readyz", token=WRONG_TOKEN)).status == 401
    assert (await line.ask("GET", "/readyz", headers={"authorization": ""})).body == b"ok"


@each_server
async def test_a_body_that_is_too_big_is_refused(line: Line) -> None:
    answer = await line.ask("POST", PODS, b" " * (3 * 1024 * 1024 + 1))
    assert (answer.status, answer.value["reason"]) == (413, "RequestEntityTooLarge")


@each_server
async def test_yaml_bodies_are_read_like_json(line: Line) -> None:
    text = b"apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  labels: {team: 'yes'}\n"
    answer = await line.ask("POST", NODES, text, type_="application/yaml")
    assert (answer.status, answer.value["metadata"]["labels"]) == (201, {"team": "yes"})


JOBS = "/apis/batch/v1/namespaces/default/jobs"


@each_server
async def test_scheduling_and_resources_of_a_suspended_job_may_change(line: Line) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/app"}]}}
    document = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
    await line.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **document})
    queue = {
        "metadata": {"annotations": {"example.com/admitted": "yes"}},
        "spec": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    }
    for name, change in {
        "image": {"containers": [{"name": "main", "image": "example/other"}]},
        "affinity to pods": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
        ]}}},
        "priority": {"priorityClassName": "system-node-critical"},
    }.items():  # fmt: skip
        refused = await line.ask(
            "PATCH", f"{JOBS}/train", {"spec": {"template": {"spec": change}}}, type_=MERGE
        )
        found = (refused.status, refused.value["details"]["causes"][0]["field"])
        assert found == (422, "spec.template.spec"), name
    requests = {
        "containers": [{"name": "main", "image": "example/app", "resources": {"requests": {"cpu": "2"}}}]
    }
    await line.patch(f"{JOBS}/train", {"spec": {"template": {"spec": requests}}})
    started = await line.patch(f"{JOBS}/train", {"spec": {"suspend": False, "template": queue}})
    assert started["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    moved = {"spec": {"nodeSelector": {"pool": "other"}}}
    late = await line.ask("PATCH", f"{JOBS}/train", {"spec": {"template": moved}}, type_=MERGE)
    assert (late.status, late.value["details"]["causes"][0]["field"]) == (422, "spec.template")
