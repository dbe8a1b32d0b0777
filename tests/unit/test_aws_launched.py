"""The instance as read from CreateFleet, before DescribeInstances lists it."""

import pytest

from aws_launches import AROUND, capacity_type, claim, resolved, types
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS
from holdfast.cloud.aws.launch import choice, launch_groups, launched_instances, templates
from holdfast.cloud.aws.launch.fleets import Launched
from holdfast.ports import LaunchRequest
from holdfast.state.conversion import claims


@pytest.mark.parametrize(("name", "image"), [("m5.large", "ami-x86"), ("m6g.large", "ami-arm")])
def test_an_instance_has_the_image_of_the_template_that_names_its_type(name: str, image: str) -> None:
    node_class, nodeclaim = resolved(), claim(capacity_type("on-demand"))
    known = types(node_class, names=("m5.large", "m6g.large"))
    chosen = choice.choose(known, claims.view(nodeclaim, CLOUD_LABELS))
    launch_templates = templates.templates(chosen, nodeclaim, node_class, AROUND)
    assert {template.image_id for template in launch_templates} == {"ami-x86", "ami-arm"}
    member = launch_groups.member(0, LaunchRequest(nodeclaim, node_class, "t" * 32, None, known))
    found = launched_instances.instance(
        Launched(instance_id="i-1", instance_type=name, zone="us-west-2a"),
        member,
        chosen,
        launch_templates,
        now_s=1000,
    )
    assert (found.instance_type, found.image_id) == (name, image)
