"""The kinds that the API serves: the explicit table.

A new kind is one file beside this one and one line in `RESOURCES`.
"""

from shepherd.api.kinds.configuration import CONFIG_MAP, SECRET
from shepherd.api.kinds.customresourcedefinitions import CUSTOM_RESOURCE_DEFINITION
from shepherd.api.kinds.deployments import DEPLOYMENT
from shepherd.api.kinds.endpoints import ENDPOINT_SLICE, ENDPOINTS
from shepherd.api.kinds.events import EVENT
from shepherd.api.kinds.leases import LEASE
from shepherd.api.kinds.namespaces import NAMESPACE
from shepherd.api.kinds.nodes import NODE
from shepherd.api.kinds.pods import POD
from shepherd.api.kinds.replicasets import REPLICA_SET
from shepherd.api.kinds.serviceaccounts import SERVICE_ACCOUNT
from shepherd.api.kinds.services import SERVICE
from shepherd.api.resource import Resource

RESOURCES: tuple[Resource, ...] = (
    POD,
    NODE,
    SERVICE,
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    ENDPOINTS,
    ENDPOINT_SLICE,
    EVENT,
    DEPLOYMENT,
    REPLICA_SET,
    LEASE,
    CUSTOM_RESOURCE_DEFINITION,
)

__all__ = [
    "CONFIG_MAP",
    "CUSTOM_RESOURCE_DEFINITION",
    "DEPLOYMENT",
    "ENDPOINTS",
    "ENDPOINT_SLICE",
    "EVENT",
    "LEASE",
    "NAMESPACE",
    "NODE",
    "POD",
    "REPLICA_SET",
    "RESOURCES",
    "SECRET",
    "SERVICE",
    "SERVICE_ACCOUNT",
]
