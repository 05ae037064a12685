"""Typed views of API objects, with only the fields that the scheduler, controllers and agent read.

They are read-only views for deciding: whoever writes, patches the fields it owns (or updates the
JSON object under its resourceVersion). Never encode one of these back to the API as a whole: it
would drop the fields it does not know.
"""

from shepherd.api.objects.apps import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    DeploymentSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from shepherd.api.objects.cluster import Lease, Namespace
from shepherd.api.objects.custom import CustomResourceDefinition
from shepherd.api.objects.meta import LabelSelector, ObjectMeta, OwnerReference, decode
from shepherd.api.objects.network import EndpointSlice, Service
from shepherd.api.objects.node import Node, Taint
from shepherd.api.objects.pod import Container, Pod, PodSpec

__all__ = [
    "Container",
    "ControllerRevision",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "DeploymentSpec",
    "EndpointSlice",
    "LabelSelector",
    "Lease",
    "Namespace",
    "Node",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodSpec",
    "ReplicaSet",
    "ReplicationController",
    "Service",
    "StatefulSet",
    "Taint",
    "decode",
]
