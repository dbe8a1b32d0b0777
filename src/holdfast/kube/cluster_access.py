"""Chooses the connection to the cluster's API server: the pod's service account, or a kubeconfig."""

import dataclasses
from collections.abc import Mapping

from holdfast.kube import incluster, kubeconfig
from holdfast.kube.connection import Connection
from holdfast.ports import Clock


def connection(
    *, file: str, context: str, environ: Mapping[str, str], clock: Clock, namespace: str = ""
) -> Connection:
    """From the file or the context if one is given, else from the pod's service account, else from the file that
    kubectl would read. `namespace` replaces that of a kubeconfig. Raises InvalidInput."""
    if not file and not context and incluster.is_in_pod(environ):
        return incluster.load(environ=environ, clock=clock)
    found = kubeconfig.load(kubeconfig.files(environ, file), environ=environ, clock=clock, context=context)
    return dataclasses.replace(found, namespace=namespace or found.namespace)
