"""The kinds that the API serves: the explicit table.

A new kind is one file beside this one and one line in `RESOURCES`.
"""

from shepherd.api.kinds.admissions import (
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from shepherd.api.kinds.autoscaling import (
    HORIZONTAL_POD_AUTOSCALER,
)
from shepherd.api.kinds.certificates import (
    CERTIFICATE_SIGNING_REQUEST,
    CLUSTER_TRUST_BUNDLE,
    POD_CERTIFICATE_REQUEST,
)
from shepherd.api.kinds.cluster import (
    API_SERVICE,
    COMPONENT_STATUS,
    RUNTIME_CLASS,
    STORAGE_VERSION_MIGRATION,
)
from shepherd.api.kinds.configuration import CONFIG_MAP, SECRET
from shepherd.api.kinds.customresourcedefinitions import CUSTOM_RESOURCE_DEFINITION
from shepherd.api.kinds.daemonsets import (
    DAEMON_SET,
)
from shepherd.api.kinds.deployments import DEPLOYMENT
from shepherd.api.kinds.devices import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from shepherd.api.kinds.disruption import (
    POD_DISRUPTION_BUDGET,
)
from shepherd.api.kinds.endpoints import ENDPOINT_SLICE, ENDPOINTS
from shepherd.api.kinds.events import EVENT
from shepherd.api.kinds.flowcontrol import (
    FLOW_SCHEMA,
    PRIORITY_LEVEL_CONFIGURATION,
)
from shepherd.api.kinds.jobs import (
    CRON_JOB,
    JOB,
)
from shepherd.api.kinds.leases import LEASE
from shepherd.api.kinds.namespaces import NAMESPACE
from shepherd.api.kinds.networking import (
    INGRESS,
    INGRESS_CLASS,
    IP_ADDRESS,
    NETWORK_POLICY,
    SERVICE_CIDR,
)
from shepherd.api.kinds.nodes import NODE
from shepherd.api.kinds.pods import POD
from shepherd.api.kinds.priorities import (
    PRIORITY_CLASS,
)
from shepherd.api.kinds.quotas import (
    LIMIT_RANGE,
    RESOURCE_QUOTA,
)
from shepherd.api.kinds.rbac import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
)
from shepherd.api.kinds.replicasets import REPLICA_SET
from shepherd.api.kinds.replicationcontrollers import (
    CONTROLLER_REVISION,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
)
from shepherd.api.kinds.reviews import (
    BINDING,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
)
from shepherd.api.kinds.serviceaccounts import SERVICE_ACCOUNT
from shepherd.api.kinds.services import SERVICE
from shepherd.api.kinds.statefulsets import (
    STATEFUL_SET,
)
from shepherd.api.kinds.storage import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
)
from shepherd.api.resource import Resource

RESOURCES: tuple[Resource, ...] = (
    # core
    BINDING,
    COMPONENT_STATUS,
    CONFIG_MAP,
    ENDPOINTS,
    EVENT,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    POD,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    # apiregistration.k8s.io
    API_SERVICE,
    # apiextensions.k8s.io
    CUSTOM_RESOURCE_DEFINITION,
    # apps
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    # authentication.k8s.io
    SELF_SUBJECT_REVIEW,
    TOKEN_REVIEW,
    # authorization.k8s.io
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    # autoscaling
    HORIZONTAL_POD_AUTOSCALER,
    # batch
    CRON_JOB,
    JOB,
    # certificates.k8s.io
    CERTIFICATE_SIGNING_REQUEST,
    CLUSTER_TRUST_BUNDLE,
    POD_CERTIFICATE_REQUEST,
    # networking.k8s.io
    INGRESS,
    INGRESS_CLASS,
    IP_ADDRESS,
    NETWORK_POLICY,
    SERVICE_CIDR,
    # policy
    POD_DISRUPTION_BUDGET,
    # rbac.authorization.k8s.io
    CLUSTER_ROLE_BINDING,
    CLUSTER_ROLE,
    ROLE_BINDING,
    ROLE,
    # storage.k8s.io
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    # admissionregistration.k8s.io
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
    # scheduling.k8s.io
    PRIORITY_CLASS,
    # coordination.k8s.io
    LEASE,
    # node.k8s.io
    RUNTIME_CLASS,
    # discovery.k8s.io
    ENDPOINT_SLICE,
    # flowcontrol.apiserver.k8s.io
    FLOW_SCHEMA,
    PRIORITY_LEVEL_CONFIGURATION,
    # resource.k8s.io
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    # storagemigration.k8s.io
    STORAGE_VERSION_MIGRATION,
)
"""By group, in the order in which discovery lists the groups."""

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
