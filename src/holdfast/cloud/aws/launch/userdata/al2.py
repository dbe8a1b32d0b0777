"""User data of Amazon Linux 2: a script that calls the image's bootstrap script."""

import shlex
from typing import Final

from holdfast.cloud.aws.launch.userdata import mime
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap, kubelet_arguments

_LOG: Final = "exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1"


def text(bootstrap: Bootstrap) -> str:
    """The class's own parts run first."""
    custom = bootstrap.custom or ""
    own = mime.parts(custom) if mime.is_mime(custom) else (mime.shell(custom),) if custom.strip() else ()
    return mime.text([*own, mime.shell(_script(bootstrap))])


def _script(bootstrap: Bootstrap) -> str:
    cluster = bootstrap.cluster
    arguments = [shlex.quote(cluster.name), f"--apiserver-endpoint {shlex.quote(cluster.endpoint)}"]
    if cluster.ca_bundle:
        arguments.append(f"--b64-cluster-ca {shlex.quote(cluster.ca_bundle)}")
    if cluster.ipv6:
        arguments.append("--ip-family ipv6")
    if bootstrap.dns_ip:
        arguments.append(f"--dns-cluster-ip {shlex.quote(bootstrap.dns_ip)}")
    arguments.append("--use-max-pods false")
    arguments.append(f"--kubelet-extra-args {shlex.quote(kubelet_arguments(bootstrap))}")
    if bootstrap.raid0:
        arguments.append("--local-disks raid0")
    call = " \\\n".join(["/etc/eks/bootstrap.sh " + arguments[0], *arguments[1:]])
    return f"#!/bin/bash -xe\n{_LOG}\n{call}\n"
