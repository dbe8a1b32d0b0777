"""The files of a report, by name. Called by `cli.report`."""

from collections.abc import Mapping

from holdfast.api.simulation_results import Sizing
from holdfast.simulate.report import document, page, tables
from holdfast.simulate.report.study import Study


def build(study: Study, sizing: Sizing | None = None) -> Mapping[str, str]:
    """The content of each file."""
    return {
        "report.html": page.text(study, sizing),
        "report.json": document.text(document.build(study, sizing)),
        "variants.csv": tables.variants(study),
        "reservations.csv": tables.reservations(study),
    }
