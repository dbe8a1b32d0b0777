"""Check deploy/cloudformation.yaml and deploy/terraform with programs that are not part of this project: `make check-aws`.

cfn-lint, moto and python-hcl2 are installed from requirements/aws-checks.txt; Terraform has to be on PATH. Every check is
printed with its result. A check whose program is missing is printed as NOT RUN, and does not fail the command.

moto ignores resources of the types AWS::SQS::QueuePolicy and AWS::EKS::PodIdentityAssociation, ManagedPolicyArns of roles,
and partitions other than aws. For these, the template is resolved by tests/support/cloudformation.py, and Terraform, which
creates the queue policy, the attachments and other partitions in moto, is compared with the result.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import botocore.session

import cloudformation
import generate_aws
import interruption_events
import locked_environment

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements/aws-checks.txt"
MODULE: Final = ROOT / "deploy/terraform"
ACCOUNT: Final = "111122223333"
REGION: Final = "us-west-2"
REGIONS: Final = {"aws": REGION, "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
PROVIDER: Final = "oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
SERVICES: Final = ("cloudformation", "eks", "events", "iam", "sqs", "sts")
# The names are the placeholders of deploy/iam-policy.json, so that its tests can read the deployed policies.
NAMES: Final = {"ClusterName": "CLUSTER_NAME", "NodeRoleName": "NODE_ROLE", "QueueName": "QUEUE"}
CASES: Final[dict[str, dict[str, str]]] = {
    "Pod Identity": {"CreatePodIdentityAssociation": "false"},
    "IRSA": {"Identity": "IRSA", "OidcProvider": PROVIDER},
    "existing node role and queue": {
        "CreatePodIdentityAssociation": "false",
        "CreateNodeRole": "false",
        "CreateQueue": "false",
    },
}
RIGHTS: Final = ("test_rights.py", "test_iam_denials.py", "test_aws_policy.py")


class NotRun(Exception):
    """The program of a check is missing."""


class Failed(Exception):
    """A check found a problem."""


@dataclass(frozen=True)
class Installed:
    """What was created, in a form in which CloudFormation's and Terraform's results can be compared."""

    controller_trust: Any
    controller_policies: Any
    node_trust: Any
    node_policies: list[str]
    queue: dict[str, str]
    queue_policy: Any
    rules: dict[str, Any]  # name: pattern, description and targets


# --- Programs ---------------------------------------------------------------------------------------


def run(*command: str | Path, folder: Path = ROOT, **environ: str) -> str:
    """The output of a program; Failed if it fails."""
    process = subprocess.run(  # noqa: S603 - our own programs
        [str(word) for word in command],
        cwd=folder,
        env=os.environ | environ,
        capture_output=True,
        check=False,
        text=True,
    )
    if process.returncode != 0:
        raise Failed(f"{Path(command[0]).name} {command[1]}:\n{process.stdout}{process.stderr}")
    return process.stdout


def programs() -> Path:
    """The folder of cfn-lint and the others."""
    try:
        return locked_environment.folder(LOCK)
    except subprocess.CalledProcessError as error:
        raise NotRun(f"{LOCK.name} cannot be installed: pip exited with {error.returncode}") from error


def terraform(*words: str, folder: Path) -> str:
    program = shutil.which("terraform") or shutil.which("tofu")
    if program is None:
        raise NotRun("neither terraform nor tofu is on PATH")
    return run(program, *words, folder=folder, TF_IN_AUTOMATION="1", CHECKPOINT_DISABLE="1")


@contextlib.contextmanager
def moto() -> Iterator["Moto"]:
    python = programs() / "python"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = os.environ | {"MOTO_ACCOUNT_ID": ACCOUNT, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(  # noqa: S603 - our own program
            [str(python), str(ROOT / "scripts/moto_server.py"), str(port)],
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _until_listening(server, port)
            yield Moto(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait()


def _until_listening(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise Failed(f"moto exited with {server.wait(timeout=0.2)}")
    raise Failed("moto does not listen after a minute")


# --- What is installed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moto:
    url: str

    def client(self, service: str, region: str = REGION) -> Any:
        return botocore.session.get_session().create_client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id="x",
            aws_secret_access_key="x",  # noqa: S106 - moto accepts any
        )

    def deploy(self, parameters: Mapping[str, str]) -> str:
        """Creates a stack, and returns the controller role's name."""
        client = self.client("cloudformation")
        client.create_stack(
            StackName="Holdfast-check",
            TemplateBody=generate_aws.CLOUDFORMATION.read_text(encoding="utf-8"),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": one} for key, one in parameters.items()],
        )
        (stack,) = client.describe_stacks(StackName="Holdfast-check")["Stacks"]
        if stack["StackStatus"] != "CREATE_COMPLETE":
            raise Failed(f"the stack is {stack['StackStatus']}")
        outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
        return str(outputs["ControllerRoleArn"]).rpartition("/")[2]

    def installed(self, controller_role: str, region: str = REGION) -> Installed:
        iam = self.client("iam", region)
        queue = self._queue(region)
        trusts = {one["RoleName"]: one["AssumeRolePolicyDocument"] for one in iam.list_roles()["Roles"]}
        node_role = NAMES["NodeRoleName"] if NAMES["NodeRoleName"] in trusts else ""
        return Installed(
            controller_trust=canonical(trusts[controller_role]),
            controller_policies=canonical(
                [self.document(arn, region) for arn in _attached(iam, controller_role)]
            ),
            node_trust=canonical(trusts.get(node_role)),
            node_policies=_attached(iam, node_role) if node_role else [],
            queue={key: queue[key] for key in ("MessageRetentionPeriod", "SqsManagedSseEnabled") if queue},
            queue_policy=canonical(named_rules(queue["Policy"])) if "Policy" in queue else None,
            rules=self._rules(region),
        )

    def document(self, arn: str, region: str = REGION) -> Any:
        """The document of a managed policy."""
        iam = self.client("iam", region)
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        return iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]

    def _queue(self, region: str) -> dict[str, str]:
        client = self.client("sqs", region)
        found: dict[str, str] = {}
        for url in client.list_queues().get("QueueUrls", ()):
            found |= client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return found

    def _rules(self, region: str) -> dict[str, Any]:
        client = self.client("events", region)
        return {
            rule_name(one["Name"]): {
                "pattern": canonical(json.loads(one["EventPattern"])),
                "description": one["Description"],
                "targets": [
                    target["Arn"] for target in client.list_targets_by_rule(Rule=one["Name"])["Targets"]
                ],
            }
            for one in client.list_rules()["Rules"]
        }


def _attached(iam: Any, role: str) -> list[str]:
    return sorted(
        one["PolicyArn"] for one in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    )


def from_template(parameters: Mapping[str, str], partition: str = "aws") -> Installed:
    """What the template creates, without a deployment."""
    region = REGIONS[partition]
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    pseudo = {
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::AccountId": ACCOUNT,
        "AWS::URLSuffix": suffix,
    }
    resources = cloudformation.resolve(pseudo, **parameters).resources()
    properties = {name: one["Properties"] for name, one in resources.items()}
    node_role = properties.get("KarpenterNodeRole", {})
    queue_arn = f"arn:{partition}:sqs:{region}:{ACCOUNT}:{parameters['QueueName']}"
    text = json.dumps(properties).replace("KarpenterInterruptionQueue.Arn", queue_arn)
    properties = json.loads(text)
    queue = properties.get("KarpenterInterruptionQueue", {})
    queue_policy = properties.get("KarpenterInterruptionQueuePolicy", {}).get("PolicyDocument")
    return Installed(
        controller_trust=canonical(properties["HoldfastControllerRole"]["AssumeRolePolicyDocument"]),
        controller_policies=canonical(
            [
                properties[name]["PolicyDocument"]
                for name, resource in resources.items()
                if resource["Type"] == "AWS::IAM::ManagedPolicy"
            ]
        ),
        node_trust=canonical(node_role.get("AssumeRolePolicyDocument")),
        node_policies=node_role.get("ManagedPolicyArns", []),
        queue={
            key: str(queue[key]).lower()
            for key in ("MessageRetentionPeriod", "SqsManagedSseEnabled")
            if queue
        },
        queue_policy=canonical(named_rules(json.dumps(queue_policy))) if queue_policy else None,
        rules={
            name: {
                "pattern": canonical(properties[name]["EventPattern"]),
                "description": properties[name]["Description"],
                "targets": [target["Arn"] for target in properties[name]["Targets"]],
            }
            for name, resource in resources.items()
            if resource["Type"] == "AWS::Events::Rule"
        },
    )


def rule_name(text: str) -> str:
    """The name in the template of a rule that CloudFormation or Terraform named."""
    (name,) = [name for name in generate_aws.rules() if name in text.replace(":rule/", "-").split("-")]
    return name


def named_rules(text: str) -> Any:
    """A queue policy with the names of its rules, because the ARNs of rules have random parts."""
    document = json.loads(text)
    for statement in document["Statement"]:
        arns = statement.get("Condition", {}).get("ArnEquals", {})
        if "aws:SourceArn" in arns:
            arns["aws:SourceArn"] = [
                rule_name(arn.removesuffix(".Arn")) for arn in _listed(arns["aws:SourceArn"])
            ]
    return document


def canonical(document: Any) -> Any:
    """A policy or a pattern with sorted lists; a list of one value is the value."""
    if isinstance(document, str) and document.lstrip().startswith("{"):
        return canonical(json.loads(document))
    if isinstance(document, Mapping):
        return {key: canonical(value) for key, value in sorted(document.items())}
    if isinstance(document, list):
        values = sorted((canonical(one) for one in document), key=lambda one: json.dumps(one, sort_keys=True))
        return values[0] if len(values) == 1 else values
    return document


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def assert_equal(found: Any, wanted: Any, about: str) -> None:
    if found != wanted:
        raise Failed(
            f"{about}: found\n{json.dumps(found, indent=1, sort_keys=True, default=str)}\n"
            f"instead of\n{json.dumps(wanted, indent=1, sort_keys=True, default=str)}"
        )


# --- Checks -----------------------------------------------------------------------------------------


def check_cfn_lint() -> str:
    folder = programs()
    command: list[str | Path] = [
        folder / "cfn-lint",
        "--non-zero-exit-code",
        "informational",
        "--regions",
        *REGIONS.values(),
        "--",
    ]
    run(*command, generate_aws.CLOUDFORMATION)
    with tempfile.TemporaryDirectory() as name:
        # cfn-lint does not read a policy that is a string, so it gets the policies and the trust again as objects.
        file = Path(name) / "template.json"
        file.write_text(json.dumps(_with_objects(NAMES | CASES["IRSA"])), encoding="utf-8")
        run(*command, file)
    version = run(folder / "cfn-lint", "--version").strip()
    return f"{version}, {len(REGIONS)} regions: no findings"


def _with_objects(parameters: Mapping[str, str]) -> dict[str, Any]:
    found = from_template(parameters)
    role = {"AssumeRolePolicyDocument": found.controller_trust}
    resources = {"Role": {"Type": "AWS::IAM::Role", "Properties": role}}
    for number, document in enumerate(found.controller_policies):
        properties = {"PolicyDocument": document}
        resources[f"Policy{number}"] = {"Type": "AWS::IAM::ManagedPolicy", "Properties": properties}
    return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}


def check_cloudformation() -> str:
    """moto deploys what the template says, and delivers every handled event to the queue once."""
    for about, case in CASES.items():
        parameters = NAMES | case
        with moto() as server:
            found = server.installed(server.deploy(parameters))
            wanted = from_template(parameters)
            for field in ("controller_trust", "controller_policies", "node_trust", "queue", "rules"):
                assert_equal(getattr(found, field), getattr(wanted, field), f"{about}: {field}")
            if "CreateQueue" not in case:
                _check_delivery(server)
    return f"moto, {len(CASES)} cases; {len(interruption_events.handled())} events delivered once each"


def _check_delivery(server: Moto) -> None:
    events, sqs = server.client("events"), server.client("sqs")
    url = sqs.get_queue_url(QueueName=NAMES["QueueName"])["QueueUrl"]

    def delivered(one: Mapping[str, Any]) -> list[Any]:
        detail = {"Detail": json.dumps(one["detail"]), "Resources": one["resources"]}
        events.put_events(Entries=[{"Source": one["source"], "DetailType": one["detail-type"], **detail}])
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in found]

    for one in interruption_events.handled():
        bodies = delivered(one)
        if len(bodies) != 1 or not interruption_events.is_handled(bodies[0]):
            raise Failed(f"{one['detail-type']} {one['detail']}: delivered {len(bodies)} times")
    for one in interruption_events.ignored():
        assert_equal(delivered(one), [], f"{one['detail-type']} {one['detail']}")


def check_rights() -> str:
    """The tests of deploy/iam-policy.json, with the policies that moto deployed."""
    with moto() as server, tempfile.TemporaryDirectory() as folder:
        iam = server.client("iam")
        role = server.deploy(NAMES | CASES["Pod Identity"])
        statements: list[Any] = []
        for arn in _attached(iam, role):
            statements += server.document(arn)["Statement"]
        text = json.dumps({"Version": "2012-10-17", "Statement": statements})
        file = Path(folder) / "policy.json"
        file.write_text(text, encoding="utf-8")
        paths = [f"tests/contract/{name}" for name in RIGHTS]
        # These two are about the file deploy/iam-policy.json.
        others = "not documented_command and not too_long"
        output = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", others, *paths,
                     HOLDFAST_IAM_POLICY=str(file))  # fmt: skip
    return output.strip().splitlines()[-1]


def check_hcl() -> str:
    """python-hcl2 reads the module; it has the resources of the template and its generated policies and rules."""
    folder = programs()
    found: dict[str, set[str]] = {"resource": set(), "variable": set(), "output": set()}
    files = sorted(MODULE.glob("*.tf"))
    for file in files:
        parsed = json.loads(run(folder / "hcl2tojson", file))
        for kind, names in found.items():
            for block in parsed.get(kind, ()):
                names |= {key.strip('"') for key in block if not key.startswith("__")}
    template = cloudformation.template()
    types = {one["Type"] for one in template["Resources"].values()}
    pairs = {
        "AWS::EKS::PodIdentityAssociation": "aws_eks_pod_identity_association",
        "AWS::Events::Rule": "aws_cloudwatch_event_rule",
        "AWS::IAM::ManagedPolicy": "aws_iam_policy",
        "AWS::IAM::Role": "aws_iam_role",
        "AWS::SQS::Queue": "aws_sqs_queue",
        "AWS::SQS::QueuePolicy": "aws_sqs_queue_policy",
    }
    inside = {
        "aws_cloudwatch_event_target",
        "aws_iam_role_policy_attachment",
    }  # parts of a rule and of a role
    assert_equal(found["resource"], {pairs[kind] for kind in types} | inside, "resources")
    assert_equal(found["variable"], {snake(name) for name in template["Parameters"]}, "variables")
    assert_equal(found["output"], {snake(name) for name in template["Outputs"]}, "outputs")
    return f"{len(files)} files; resources, variables and outputs are those of the template"


def snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).removeprefix("_")


def check_terraform_files() -> str:
    terraform("fmt", "-check", "-diff", str(MODULE), folder=ROOT)
    with module() as folder:
        _initialize(folder)
        terraform("validate", "-no-color", folder=folder)
        version = json.loads(terraform("version", "-json", folder=folder))
    providers = ", ".join(f"{name} {one}" for name, one in version["provider_selections"].items())
    return f"{version['terraform_version']}, {providers}: formatted and valid"


@contextlib.contextmanager
def module() -> Iterator[Path]:
    """A copy of the module, in which Terraform may write."""
    with tempfile.TemporaryDirectory(prefix="holdfast-terraform-") as name:
        folder = Path(name) / "module"
        shutil.copytree(MODULE, folder)
        yield folder


def _initialize(folder: Path) -> None:
    """HOLDFAST_TERRAFORM_PLUGINS is a folder with the AWS provider, where Terraform's registry is out of reach."""
    plugins = os.environ.get("HOLDFAST_TERRAFORM_PLUGINS")
    try:
        terraform("init", "-no-color", *([f"-plugin-dir={plugins}"] if plugins else []), folder=folder)
    except Failed as error:
        if "provider packages" not in str(error):
            raise
        raise NotRun(f"the AWS provider is not available; set HOLDFAST_TERRAFORM_PLUGINS\n{error}") from error


def check_terraform_apply() -> str:
    """Terraform creates in moto what the template describes, in every partition."""
    runs = [(about, "aws") for about in CASES] + [("IRSA", one) for one in REGIONS if one != "aws"]
    for about, partition in runs:
        region, parameters = REGIONS[partition], NAMES | CASES[about]
        with moto() as server, module() as folder:
            root = _calling_module(folder, server, region)
            _initialize(root)
            found = server.installed(_apply(root, parameters), region)
        wanted = from_template(parameters, partition)
        for field in Installed.__dataclass_fields__:
            assert_equal(getattr(found, field), getattr(wanted, field), f"{about}, {partition}: {field}")
    return f"{len(CASES)} cases and {len(REGIONS)} partitions: the same as CloudFormation"


def _calling_module(folder: Path, server: Moto, region: str) -> Path:
    """A configuration that calls the module, with moto as AWS."""
    provider = {
        "region": region,
        "access_key": "x",
        "secret_key": "x",
        "skip_credentials_validation": True,
        "skip_metadata_api_check": True,
        "endpoints": [dict.fromkeys(SERVICES, server.url)],
    }
    names = [snake(name) for name in cloudformation.template()["Parameters"]]
    configuration = {
        "provider": {"aws": provider},
        "variable": {name: {"default": None} for name in names},
        "module": {"holdfast": {"source": "./module"} | {name: f"${{var.{name}}}" for name in names}},
        "output": {"role": {"value": "${module.holdfast.controller_role_arn}"}},
    }
    (folder.parent / "main.tf.json").write_text(json.dumps(configuration), encoding="utf-8")
    return folder.parent


def _apply(root: Path, parameters: Mapping[str, str]) -> str:
    """The name of the controller role."""
    values = {snake(name): value for name, value in parameters.items()}
    (root / "terraform.tfvars.json").write_text(json.dumps(values), encoding="utf-8")
    terraform("apply", "-auto-approve", "-no-color", folder=root)
    arn = json.loads(terraform("output", "-json", "role", folder=root))
    return str(arn).rpartition("/")[2]


def check_terraform_errors() -> str:
    """Wrong variables are refused with a message that names the variable."""
    wrong = {
        "oidc_provider must be the issuer": {"Identity": "IRSA", "OidcProvider": f"https://{PROVIDER}"},
        "identity must be PodIdentity or IRSA": {"Identity": "irsa"},
        "cluster_name must be the name": {"ClusterName": "a/b"},
        "node_role_name must be the name": {"NodeRoleName": f"arn:aws:iam::{ACCOUNT}:role/x"},
        "queue_name must be the name": {"QueueName": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/x"},
        "identity IRSA needs oidc_provider": {"Identity": "IRSA"},
    }
    with moto() as server, module() as folder:
        root = _calling_module(folder, server, REGION)
        _initialize(root)
        for message, variables in wrong.items():
            try:
                _apply(root, {"ClusterName": "demo", **variables})
            except Failed as error:
                if message not in " ".join(str(error).replace("│", " ").split()):
                    raise
            else:
                raise Failed(f"{variables}: not refused")
    return f"{len(wrong)} wrong values are refused by name"


CHECKS: Final[dict[str, Callable[[], str]]] = {
    "cfn-lint": check_cfn_lint,
    "CloudFormation in moto": check_cloudformation,
    "rights of the deployed role": check_rights,
    "python-hcl2": check_hcl,
    "terraform fmt and validate": check_terraform_files,
    "terraform apply in moto": check_terraform_apply,
    "terraform with wrong variables": check_terraform_errors,
}


def main() -> int:
    wanted = sys.argv[1:] or list(CHECKS)
    if unknown := set(wanted) - CHECKS.keys():
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
        return 2
    code = 0
    for name in wanted:
        try:
            print(f"ok       {name}: {CHECKS[name]()}", flush=True)
        except NotRun as error:
            print(f"NOT RUN  {name}: {error}", flush=True)
        except Failed as error:
            print(f"FAILED   {name}: {error}", flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
