"""What nodes cost an hour, for metrics and reports: the list price, or the spot price of the last catalog."""

from collections.abc import Iterable, Mapping

from holdfast import names
from holdfast.model.offerings import InstanceType
from holdfast.ports import Cloud
from holdfast.state.cluster.cluster_state import ClusterState

Types = tuple[InstanceType, ...]


class Prices:
    """The prices of one catalog. None: unknown."""

    def __init__(self, types: Iterable[Types], list_prices: Mapping[str, int]) -> None:
        self._types = [{one.name: one for one in found} for found in types]
        self._list_prices = list_prices
        self._spot: dict[tuple[str, str], int | None] = {}

    def list_price_nano(self, instance_type: str) -> int | None:
        return self._list_prices.get(instance_type)

    def nano(self, capacity_type: str, instance_type: str, zone: str) -> int | None:
        """Of a reserved node the list price: the reservation is paid for whether it is used or not."""
        if capacity_type != names.SPOT:
            return self._list_prices.get(instance_type)
        key = (instance_type, zone)
        if key not in self._spot:
            self._spot[key] = self._spot_nano(instance_type, zone)
        return self._spot[key]

    def _spot_nano(self, instance_type: str, zone: str) -> int | None:
        found = (
            offering.price_nano_usd_per_hour
            for types in self._types
            if instance_type in types
            for offering in types[instance_type].offerings
            if offering.capacity_type == names.SPOT and offering.zone == zone
        )
        return next(found, None)


class NodePrices:
    def __init__(self, cluster_state: ClusterState, cloud: Cloud) -> None:
        self._cluster_state = cluster_state
        self._cloud = cloud
        self._types: tuple[Types, ...] = ()
        self._list_prices: Mapping[str, int] = {}
        self._prices = Prices((), {})

    def current(self) -> Prices:
        """Built again when the catalog or the list prices change. Catalogs are compared by identity: they are large, and a
        new one is a new tuple."""
        types, list_prices = tuple(self._cluster_state.types.values()), self._cloud.list_prices()
        is_same = [*map(id, types)] == [*map(id, self._types)] and list_prices == self._list_prices
        if not is_same:
            self._types, self._list_prices = types, list_prices
            self._prices = Prices(types, list_prices)
        return self._prices
