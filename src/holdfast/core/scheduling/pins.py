"""What a node was counted on, said as requirements.

Called by `run` and `finalize` when a run that could use only some rows is opened to all of them again, and by `claims`
when requirements are written.
"""

from holdfast.core.scheduling import offers
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Shapes
from holdfast.model import requirement
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements


def pinned(p: Problem, shapes: Shapes, shape: int) -> Requirements:
    """The requirements of a shape, and the domains that the run counted on where more would be possible.

    A run that may use only some rows can find a node in one zone without having to say so; once all rows may be used
    again, it must be said.
    """
    of_shape = shapes.all[shape]
    rows = p.templates[of_shape.template].rows
    wanted = of_shape.requirements
    possible = offers.possible_domains(rows, offers.satisfying(rows, wanted), wanted, p.domains)
    counted = shapes.s_domains[shape]
    for k, key in enumerate(p.domains.keys):
        begin, end = p.domains.first[k], p.domains.first[k + 1]
        if (possible[begin:end] > counted[begin:end]).any():
            kept = [d for d, is_kept in zip(p.domains.domains[k], counted[begin:end], strict=True) if is_kept]
            wanted = wanted.add(requirement.of(key, Operator.IN, kept))
    return wanted
