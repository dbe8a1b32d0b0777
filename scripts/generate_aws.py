"""Write the IAM policy and the EventBridge rules into the CloudFormation template and the Terraform module.

The sources are deploy/iam-policy.json and deploy/interruption-rules.json. Run by `make generate`, and with --check by
`make check`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

DEPLOY: Final = Path(__file__).resolve().parents[1] / "deploy"
POLICY: Final = DEPLOY / "iam-policy.json"
RULES: Final = DEPLOY / "interruption-rules.json"
CLOUDFORMATION: Final = DEPLOY / "cloudformation.yaml"
TERRAFORM: Final = DEPLOY / "terraform" / "generated.tf.json"

BEGIN: Final = "  # Generated from iam-policy.json and interruption-rules.json by scripts/generate_aws.py; do not edit.\n"
END: Final = "  # End of the generated part.\n"
TARGET: Final = "KarpenterInterruptionQueueTarget"
# A managed policy has at most 6,144 characters. With the longest names the statements together have more.
STATEMENTS: Final = {
    "Read": (
        "DescribeEC2",
        "ReadPricesAndListProfiles",
        "ReadImageParameters",
        "DescribeCluster",
        "ReceiveInterruptions",
    ),
    "Instance": (
        "LaunchWithExistingResources",
        "LaunchFromOwnTemplates",
        "LaunchTaggedInstances",
        "CreateTaggedTemplates",
        "TagAtCreation",
        "TagOwnInstances",
        "TerminateAndRebootOwn",
    ),
    "InstanceProfile": (
        "PassNodeRole",
        "ReadInstanceProfiles",
        "CreateTaggedInstanceProfiles",
        "TagOwnInstanceProfiles",
        "ChangeOwnInstanceProfiles",
    ),
}
IN_CLOUDFORMATION: Final = {
    "PARTITION": "${AWS::Partition}",
    "REGION": "${AWS::Region}",
    "ACCOUNT_ID": "${AWS::AccountId}",
    "CLUSTER_NAME": "${ClusterName}",
    "NODE_ROLE": "${NodeRole}",
    "QUEUE": "${Queue}",
}
VARIABLES: Final = {
    "NodeRole": '!If [NodeRoleHasDefaultName, !Sub "KarpenterNodeRole-${ClusterName}", !Ref NodeRoleName]',
    "Queue": "!If [QueueHasDefaultName, !Ref ClusterName, !Ref QueueName]",
}
EITHER_QUEUE: Final = f"""!If
            - QueueIsCreated
            - !GetAtt KarpenterInterruptionQueue.Arn
            - !Sub
              - arn:${{AWS::Partition}}:sqs:${{AWS::Region}}:${{AWS::AccountId}}:${{Queue}}
              - Queue: {VARIABLES["Queue"]}"""
IN_TERRAFORM: Final = {
    "PARTITION": "${local.partition}",
    "REGION": "${local.region}",
    "ACCOUNT_ID": "${local.account_id}",
    "CLUSTER_NAME": "${var.cluster_name}",
    "NODE_ROLE": "${local.node_role}",
    "QUEUE": "${local.queue}",
}


class WrongSource(Exception):
    """The sources do not give a complete policy."""


def policies() -> dict[str, dict[str, Any]]:
    """The managed policies by name, with the placeholders of the source."""
    text = POLICY.read_text(encoding="utf-8")
    if "${" in text or "%{" in text:
        raise WrongSource(
            f"{POLICY.name}: a policy variable would be replaced by CloudFormation or Terraform"
        )
    source = json.loads(text)
    statements = {statement["Sid"]: statement for statement in source["Statement"]}
    listed = [sid for sids in STATEMENTS.values() for sid in sids]
    if sorted(listed) != sorted(statements) or len(statements) != len(source["Statement"]):
        differing = sorted(set(listed) ^ statements.keys())
        raise WrongSource(f"every statement must be once in STATEMENTS and in {POLICY.name}: {differing}")
    return {
        name: {"Version": source["Version"], "Statement": [statements[sid] for sid in sids]}
        for name, sids in STATEMENTS.items()
    }


def rules() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(RULES.read_text(encoding="utf-8"))
    return found


def fill(text: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def cloudformation(template: str) -> str:
    """The template with its generated part written anew."""
    before, begin, rest = template.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise WrongSource(f"{CLOUDFORMATION.name}: the two comments around the generated part are missing")
    written = [_cloudformation_policy(name, document) for name, document in policies().items()]
    written += [_cloudformation_rule(name, rule) for name, rule in rules().items()]
    return before + BEGIN + "".join(written) + END + after


def _cloudformation_policy(name: str, document: Mapping[str, Any]) -> str:
    # A JSON string, because keys of conditions have placeholders: CloudFormation replaces nothing in keys.
    text = fill(json.dumps(document, indent=2), IN_CLOUDFORMATION)
    head = (
        f"  Holdfast{name}Policy:\n    Type: AWS::IAM::ManagedPolicy\n"
        "    Properties:\n      Roles: [!Ref HoldfastControllerRole]\n"
    )
    variables = [f"{key}: {value}" for key, value in VARIABLES.items() if f"${{{key}}}" in text]
    if not variables:
        return f"{head}      PolicyDocument: !Sub |\n{_indented(text, 8)}"
    given = "- " + "\n  ".join(variables)
    return f"{head}      PolicyDocument: !Sub\n        - |\n{_indented(text, 10)}{_indented(given, 8)}"


def _cloudformation_rule(name: str, rule: Mapping[str, Any]) -> str:
    # With an existing queue, the rules of Karpenter already send the events that Karpenter handles.
    condition = "    Condition: QueueIsCreated\n" if rule["inKarpenter"] else ""
    arn = "!GetAtt KarpenterInterruptionQueue.Arn" if rule["inKarpenter"] else EITHER_QUEUE
    return (
        f"  {name}:\n    Type: AWS::Events::Rule\n{condition}    Properties:\n"
        f"      Description: {rule['description']}\n"
        f"      EventPattern: {_indented(json.dumps(rule['pattern'], indent=2), 6).lstrip()}"
        f"      Targets:\n        - Id: {TARGET}\n          Arn: {arn}\n"
    )


def _indented(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


def terraform() -> str:
    """A file in Terraform's JSON syntax, in which every string and every key is a template."""
    made_from = (
        f"Generated from {POLICY.name} and {RULES.name} by scripts/{Path(__file__).name}; do not edit."
    )
    document = {
        "//": made_from,
        "locals": {
            "controller_policies": json.loads(fill(json.dumps(policies()), IN_TERRAFORM)),
            "interruption_rules": rules(),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def main() -> int:
    present = {
        path: path.read_text(encoding="utf-8") if path.exists() else ""
        for path in (CLOUDFORMATION, TERRAFORM)
    }
    try:
        wanted = {CLOUDFORMATION: cloudformation(present[CLOUDFORMATION]), TERRAFORM: terraform()}
    except WrongSource as error:
        print(error)
        return 1
    stale = [path for path, text in wanted.items() if present[path] != text]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(str(path.relative_to(DEPLOY.parent)) for path in stale)
            print(f"stale: {names}; run `make generate`")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
