"""Times the real controllers with many ProvisioningRequests that are created at once, and prints a table.

    PYTHONPATH=tests:tests/support .venv/bin/python tests/bench/bench_requests.py [--requests 300] [--pods 2]

In virtual time, on the embedded API server and the simulated EC2. Each pod needs a node. Once with a slot for every pod,
once with slots for half of them.
"""

import argparse
import time

import app_environment
import provisioning_requests as documents
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.simulate import parallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--pods", type=int, default=2)
    options = parser.parse_args()
    parallel.prepare()  # writes no log
    print("slots   provisioned   simulated time   CPU time")
    for slots in (options.requests * options.pods, options.requests * options.pods // 2):
        measure(options.requests, options.pods, slots)


def measure(requests: int, pods: int, slots: int) -> None:
    async def program(env: AppEnvironment) -> None:
        found = env.reserve(total=slots)
        await env.node_class(capacityReservationSelectorTerms=[{"id": found.id}])
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
        await env.create(documents.TEMPLATES, documents.template())
        for number in range(requests):
            await env.create(
                documents.PATH, documents.document(f"job-{number:04}", templates={"train": pods})
            )
        began_s, cpu_s = env.clock.now_s(), time.process_time()

        async def are_provisioned() -> bool:
            answered = await env.all(ProvisioningRequest)
            done = [documents.conditions(one).get("Provisioned", ("",))[0] == "True" for one in answered]
            return sum(done) == slots // pods

        await env.until(are_provisioned, within_s=600)
        took_s = time.process_time() - cpu_s
        print(f"{slots:5} {slots // pods:13} {env.clock.now_s() - began_s:14} s {took_s:8.1f} s", flush=True)

    app_environment.run(program, requests=True)


if __name__ == "__main__":
    main()
