"""The resources that instances use, counted incrementally, so that a launch need not read all instances.

Part of `region_state`, read by launches and by DescribeSubnets. It is computed from the instances alone. The checkers
have their own counts.
"""

from collections import Counter

from holdfast.sim.ec2.entities import Instance


class Usage:
    def __init__(self) -> None:
        self.addresses: Counter[str] = Counter()  # by subnet
        self.private_ips: Counter[tuple[str, str]] = Counter()  # subnet and address
        self.outside: Counter[tuple[str, str]] = Counter()  # on demand in no reservation: account and type

    def change(self, before: Instance | None, after: Instance | None) -> None:
        if before:
            self._count(before, -1)
        if after:
            self._count(after, 1)

    def _count(self, instance: Instance, by: int) -> None:
        if instance.state == "terminated":
            return
        self.addresses[instance.subnet_id] += by * instance.spec.addresses
        address = instance.subnet_id, instance.private_ip
        self.private_ips[address] += by
        if not self.private_ips[address]:
            del self.private_ips[address]  # a subnet has thousands
        if instance.is_pending_or_running and not instance.lifecycle and not instance.reservation_id:
            self.outside[instance.account, instance.instance_type] += by
