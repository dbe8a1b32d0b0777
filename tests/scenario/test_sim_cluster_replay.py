"""A seed replays a run exactly: the same writes, in the same order, in another run and in another process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from cluster_environment import Environment, history, run, workload
from holdfast.sim.ec2 import control


async def fifteen_minutes_of_changes(env: Environment) -> None:
    first, second = env.launch(count=2)
    env.launch("c5.large", zone="b")
    await env.deploy(replicas=6, cpu="300m")
    claims = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    await env.create(
        "/apis/apps/v1/namespaces/default/statefulsets",
        workload("db", replicas=2, cpu="100m", volumeClaimTemplates=[claims]),
    )
    await env.create("/apis/batch/v1/namespaces/default/jobs", workload("sum", completions=3, parallelism=2))
    await env.create(
        "/apis/apps/v1/namespaces/default/daemonsets", workload("agent", cpu="10m", hostNetwork=True)
    )
    await env.sleep(200)
    control.kill(env.ec2.region, first)
    await env.sleep(100)
    await env.scale("web", 3)
    env.aws.reboot_instances(InstanceIds=[second])
    await env.sleep(600)


def digest(seed: int) -> str:
    lines = history(run(fifteen_minutes_of_changes, seed=seed))
    assert len(lines) > 300
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def in_process(hash_seed: int) -> str:
    """The digest as another process computes it, with this seed for the hashes of strings."""
    source = "import test_sim_cluster_replay; print(test_sim_cluster_replay.digest(7))"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    command = [sys.executable, "-c", source]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return result.stdout.splitlines()[-1]


def test_a_seed_replays_a_run_to_the_byte_and_another_seed_does_not() -> None:
    assert digest(7) == digest(7)
    assert digest(7) != digest(8)


def test_a_run_is_the_same_under_any_hash_seed() -> None:
    assert in_process(1) == in_process(2)
