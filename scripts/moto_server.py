"""Starts moto's server. Run by check_aws with the Python of requirements/aws-checks.txt: `moto_server.py PORT`.

moto's CloudFormation encodes the PolicyDocument of a managed policy that is a JSON string once more, and then rejects it.
CloudFormation accepts such a string (Karpenter's template has one), so it is decoded before moto reads it.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from moto.iam.models import ManagedPolicy
from moto.server import main

create = ManagedPolicy.create_from_cloudformation_json


def create_with_decoded_document(name: str, resource: Mapping[str, Any], *arguments: str, **more: str) -> Any:
    properties = dict(resource["Properties"])
    if isinstance(properties["PolicyDocument"], str):
        properties["PolicyDocument"] = json.loads(properties["PolicyDocument"])
    return create(name, {**resource, "Properties": properties}, *arguments, **more)


ManagedPolicy.create_from_cloudformation_json = create_with_decoded_document
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
