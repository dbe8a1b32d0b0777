"""User data: what an instance runs at its first start to become a node, for each AMI family.

Called by `templates`. Pure: a `Bootstrap` in, text out. The rules: what the class's user data says is kept,
and what Karpenter sets wins over it where both speak of one thing; two equal bootstraps are one text, for
the name of a launch template is derived from it.
"""

from collections.abc import Callable
from typing import Final

from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.launch.userdata import al2, al2023, bottlerocket, windows
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap

SIZE_MAX_BYTES: Final = 16384  # EC2 refuses more, before base64

_WRITERS: Final[dict[str, Callable[[Bootstrap], str]]] = {
    "AL2": al2.text,
    "AL2023": al2023.text,
    "Bottlerocket": bottlerocket.text,
    "Windows2019": windows.text,
    "Windows2022": windows.text,
    "Windows2025": windows.text,
    families.CUSTOM: lambda bootstrap: bootstrap.custom or "",
}


def text(family: str, bootstrap: Bootstrap) -> str:
    """Of a family, for one kind of node. NotReady or InvalidInput says what is missing or wrong."""
    return _WRITERS[family](bootstrap)
