"""User data of each AMI family: what an instance runs at its first start to become a node.

Called by `templates`. Pure. The class's own user data is kept; settings of Holdfast override it, as in Karpenter. Equal
bootstraps give equal texts, because the name of a launch template is derived from the text.
"""

from collections.abc import Callable
from typing import Final

from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.launch.userdata import al2, al2023, bottlerocket, windows
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap

SIZE_MAX_BYTES: Final = 16384  # EC2's limit, before base64

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
    """The user data for one kind of node. Raises NotReady or InvalidInput."""
    return _WRITERS[family](bootstrap)
