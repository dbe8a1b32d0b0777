"""Which deleting nodes get a replacement that holds their slot."""

from disruption_builders import MEDIUM, catalog, disruption_input, load, managed_node
from holdfast import names
from holdfast.controllers.slot_holds import replacements_for
from holdfast.core.disruption.inputs import Settings
from planner_builders import is_in, pool, reservation, shape


def test_only_the_given_deleting_nodes_get_a_replacement() -> None:
    """Node b runs, and another command replaces node c."""
    full = [reservation("cr-1", MEDIUM, available=0, total=4)]
    pools = [pool("default", catalog(full), is_in(names.CAPACITY_TYPE, names.RESERVED))]
    nodes = [
        managed_node(name, MEDIUM, load(name, shape(3000)), slot="cr-1", deleting=name != "b")
        for name in "abcd"
    ]
    cluster = disruption_input(*nodes, reservations=full, pools=pools)
    found = replacements_for(cluster, settings=Settings(), provider_ids={"id-a", "id-b", "id-d"})
    assert [one.waits_for_instance for one in found] == ["id-a", "id-d"]
