"""The patterns of the CRDs, each with an explanation.

`validation` shows the explanation instead of the regular expression.
"""

from typing import Final

QUALIFIED_NAME: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
LABEL_VALUE: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
DURATION: Final = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER: Final = r"^(([0-9]+(s|m|h))+|Never)$"
QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
GROUP: Final = r"^[^/]*$"
BUDGET_NODES: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
BUDGET_SCHEDULE: Final = (
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
)
BUDGET_DURATION: Final = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
CONDITION_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
CONDITION_REASON_OR_NOTHING: Final = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"
RESERVATION_ID: Final = r"^cr-[0-9a-z]+$"
ACCOUNT: Final = r"^[0-9]{12}$"
AMI_ID: Final = r"ami-[0-9a-z]+"
SUBNET_ID: Final = r"subnet-[0-9a-z]+"
SECURITY_GROUP_ID: Final = r"sg-[0-9a-z]+"
PLACEMENT_GROUP_ID: Final = r"^pg-[0-9a-z]+$"
RESOURCE_GROUP_ARN: Final = r"^arn:[^:]+:resource-groups:[^:]+:[0-9]{12}:group/.+$"
VOLUME_SIZE: Final = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
)
PRICE: Final = r"^[0-9]{1,9}(\.[0-9]{1,9})?$"
KUBERNETES_VERSION: Final = r"^1\.[0-9]+$"

_NAME_WORDS: Final = "letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
WORDS: Final = {
    QUALIFIED_NAME: f"{_NAME_WORDS}, after an optional DNS domain and '/'",
    LABEL_VALUE: f"nothing, or {_NAME_WORDS}",
    DURATION: "a duration in hours, minutes and seconds such as 1h30m",
    DURATION_OR_NEVER: "a duration in hours, minutes and seconds such as 720h or 1h30m, or Never",
    QUANTITY: "a quantity such as 500m, 2, 1.5 or 4Gi",
    GROUP: "an API group without a version, such as karpenter.k8s.aws",
    BUDGET_NODES: "a number of nodes such as 3, or a share from 0% to 100%",
    BUDGET_SCHEDULE: "five cron fields such as '0 9 * * mon-fri', or @daily and the like",
    BUDGET_DURATION: "a duration in hours and minutes such as 8h or 1h30m",
    CONDITION_TYPE: f"{_NAME_WORDS}, after an optional DNS domain and '/'",
    CONDITION_REASON: "one word that starts with a letter",
    CONDITION_REASON_OR_NOTHING: "nothing, or one word that starts with a letter",
    PRICE: "USD an hour as a decimal in quotes below 1000000000, such as '0.096'",
    KUBERNETES_VERSION: "a version in quotes, such as '1.36'",
    RESERVATION_ID: "the id of a capacity reservation such as cr-0123456789abcdef0",
    ACCOUNT: "the twelve digits of an account, in quotes",
    AMI_ID: "the id of an image such as ami-0123456789abcdef0",
    SUBNET_ID: "the id of a subnet such as subnet-0123456789abcdef0",
    SECURITY_GROUP_ID: "the id of a security group such as sg-0123456789abcdef0",
    PLACEMENT_GROUP_ID: "the id of a placement group such as pg-0123456789abcdef0",
    RESOURCE_GROUP_ARN: "the ARN of a resource group such as arn:aws:resource-groups:us-west-2:123456789012:group/gpus",
    VOLUME_SIZE: "a size from 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T",
}
