"""The roles and bindings that every cluster has.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy, as of 1.37, without the roles of
upstream's single controllers (here they are one program, an administrator) and without what only
add-ons of upstream's own use (heapster, kube-dns).
"""

import msgspec

from shepherd.api.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from shepherd.api.objects import decode
from shepherd.api.objects.rbac import PolicyRule, Role
from shepherd.api.rbac import aggregated
from shepherd.api.resource import Object, Resource

_RBAC = "rbac.authorization.k8s.io"
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
"""Annotation; with "false" an object is left alone at the next start."""
_METADATA = {
    "annotations": {AUTO_UPDATE: "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}

_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_ALL = f"{_READ} {_WRITE}"

_APPS, _CERTIFICATES, _STORAGE = "apps", "certificates.k8s.io", "storage.k8s.io"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_AUTOSCALING, _BATCH, _COORDINATION = "autoscaling", "batch", "coordination.k8s.io"
_DISCOVERY, _EVENTS, _EXTENSIONS = "discovery.k8s.io", "events.k8s.io", "extensions"
_METRICS, _NETWORKING, _POLICY = "metrics.k8s.io", "networking.k8s.io", "policy"
_RESOURCE = "resource.k8s.io"


def _to(verbs: str, resources: str, *groups: str, names: str = "") -> Object:
    """A rule about resources; without a group: of the core group."""
    rule: Object = {
        "apiGroups": list(groups) or [""],
        "resources": sorted(resources.split()),
        "verbs": sorted(verbs.split()),
    }
    return rule | ({"resourceNames": names.split()} if names else {})


def _at(paths: str, verbs: str = "get") -> Object:
    """A rule about documents."""
    return {"nonResourceURLs": paths.split(), "verbs": verbs.split()}


_TELL = _to("create patch update", "events", "", _EVENTS)
_REVIEW = (
    _to("create", "tokenreviews", _AUTHENTICATION),
    _to("create", "subjectaccessreviews", _AUTHORIZATION),
)
_PODS_INSIDE = "pods/attach pods/exec pods/portforward pods/proxy"
_WORKLOADS = (
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets "
    "statefulsets/scale"
)

_VIEW = (
    _to(
        _READ,
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
        "services/status",
    ),
    _to(
        _READ,
        "bindings events limitranges namespaces/status pods/log pods/status "
        "replicationcontrollers/status resourcequotas resourcequotas/status",
    ),
    _to(_READ, "namespaces"),  # a role in a namespace lets see that namespace
    _to(_READ, "endpointslices", _DISCOVERY),
    _to(
        _READ,
        f"controllerrevisions {_WORKLOADS} daemonsets/status deployments/status "
        "replicasets/status statefulsets/status",
        _APPS,
    ),
    _to(_READ, "horizontalpodautoscalers horizontalpodautoscalers/status", _AUTOSCALING),
    _to(_READ, "cronjobs cronjobs/status jobs jobs/status", _BATCH),
    _to(_READ, "poddisruptionbudgets poddisruptionbudgets/status", _POLICY),
    _to(_READ, "ingresses ingresses/status networkpolicies", _NETWORKING),
)
_EDIT = (
    _to(_READ, f"{_PODS_INSIDE} secrets services/proxy"),  # reading these is power
    _to("impersonate", "serviceaccounts"),
    _to(_WRITE, f"pods {_PODS_INSIDE}"),
    _to("create", "pods/eviction"),
    _to(
        _WRITE,
        "configmaps events persistentvolumeclaims replicationcontrollers "
        "replicationcontrollers/scale secrets serviceaccounts services services/proxy",
    ),
    _to("create", "serviceaccounts/token"),
    _to(_WRITE, f"{_WORKLOADS} deployments/rollback", _APPS),
    _to(_WRITE, "horizontalpodautoscalers", _AUTOSCALING),
    _to(_WRITE, "cronjobs jobs", _BATCH),
    _to(_WRITE, "poddisruptionbudgets", _POLICY),
    _to(_WRITE, "ingresses networkpolicies", _NETWORKING),
    _to(_ALL, "leases", _COORDINATION),
)
_ADMIN = (
    _to("create", "localsubjectaccessreviews", _AUTHORIZATION),
    _to(_ALL, "rolebindings roles", _RBAC),
)

_NODE = (
    *_REVIEW,
    _to("create", "localsubjectaccessreviews", _AUTHORIZATION),
    _to(_READ, "services"),
    _to(f"create patch update {_READ}", "nodes"),
    _to("patch update", "nodes/status"),
    _to("create patch update", "events"),
    _to(f"create delete {_READ}", "pods"),
    _to("patch update", "pods/status"),
    _to("create", "pods/eviction"),
    _to(_READ, "configmaps secrets"),
    _to("get", "endpoints persistentvolumeclaims persistentvolumes"),
    _to(f"create {_READ}", "certificatesigningrequests", _CERTIFICATES),
    _to("create delete get patch update", "leases", _COORDINATION),
    _to("create", "serviceaccounts/token"),
    _to(_READ, "csidrivers", _STORAGE),
    _to(_READ, "runtimeclasses", "node.k8s.io"),
    # Upstream's kube-proxy is a pod of its own; the agent is both.
    _to("list watch", "endpointslices", _DISCOVERY),
)
"""Without upstream's csinodes, volumeattachments, resourceclaims and resourceslices: those are
given to a node for drivers that speak to a kubelet, and the agent has no such thing."""

_SCHEDULER = (
    _TELL,
    _to("create", "leases", _COORDINATION),
    _to(f"{_READ} update", "leases", _COORDINATION, names="kube-scheduler"),
    _to(_ALL, "leasecandidates", _COORDINATION),
    _to(_READ, "nodes"),
    _to(f"delete {_READ}", "pods"),
    _to("create", "bindings pods/binding"),
    _to("patch update", "pods/status"),
    _to(_READ, "namespaces persistentvolumeclaims persistentvolumes"),
    _to(_READ, "replicationcontrollers services"),
    _to(_READ, "replicasets", _APPS, _EXTENSIONS),
    _to(_READ, "statefulsets", _APPS),
    _to(_READ, "poddisruptionbudgets", _POLICY),
    *_REVIEW,
    _to(_READ, "csidrivers csinodes csistoragecapacities volumeattachments", _STORAGE),
    _to(_READ, "deviceclasses resourceslices", _RESOURCE),
    _to(f"{_READ} patch update", "resourceclaims resourceclaims/status", _RESOURCE),
    _to(f"{_READ} patch update", "pods/finalizers"),
)
_CONTROLLER_MANAGER = (
    _TELL,
    _to("create", "leases", _COORDINATION),
    _to("get update", "leases", _COORDINATION, names="kube-controller-manager"),
    _to("create get update", "secrets serviceaccounts"),
    _to("delete", "secrets"),
    _to("get", "configmaps namespaces"),
    *_REVIEW,
    _to("list watch", "*", "*"),
    _to("create", "serviceaccounts/token"),
)
_PROVISIONER = (
    _to(f"create delete {_READ}", "persistentvolumes"),
    _to(f"{_READ} update", "persistentvolumeclaims"),
    _to(_READ, "storageclasses", _STORAGE),
    _to("watch", "events"),
    _TELL,
)

_ROLES: dict[str, tuple[Object, ...]] = (
    {
        "cluster-admin": (_to("*", "*", "*"), _at("*", "*")),
        "system:aggregate-to-admin": _ADMIN,
        "system:aggregate-to-edit": _EDIT,
        "system:aggregate-to-view": _VIEW,
        "system:aggregated-metrics-reader": (_to(_READ, "nodes pods", _METRICS),),
        "system:auth-delegator": _REVIEW,
        "system:basic-user": (
            _to("create", "selfsubjectaccessreviews selfsubjectrulesreviews", _AUTHORIZATION),
            _to("create", "selfsubjectreviews", _AUTHENTICATION),
        ),
        "system:discovery": (
            _at(
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
                "/version/"
            ),
        ),
        "system:kube-aggregator": (_to(_READ, "endpoints services"),),
        "system:kube-controller-manager": _CONTROLLER_MANAGER,
        "system:kube-scheduler": _SCHEDULER,
        "system:kubelet-api-admin": (
            _to(_READ, "nodes"),
            _to("proxy", "nodes"),
            _to("*", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        ),
        "system:monitoring": (
            _at("/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
        ),
        "system:node": _NODE,
        "system:node-bootstrapper": (
            _to(f"create {_READ}", "certificatesigningrequests", _CERTIFICATES),
        ),
        "system:node-problem-detector": (_to("get", "nodes"), _to("patch", "nodes/status"), _TELL),
        "system:node-proxier": (
            _to("list watch", "endpoints services"),
            _to(_READ, "nodes"),
            _TELL,
            _to("list watch", "endpointslices", _DISCOVERY),
        ),
        "system:persistent-volume-provisioner": _PROVISIONER,
        "system:public-info-viewer": (_at("/healthz /livez /readyz /version /version/"),),
        "system:service-account-issuer-discovery": (
            _at(
                "/.well-known/openid-configuration /.well-known/openid-configuration/ "
                "/openid/v1/jwks /openid/v1/jwks/"
            ),
        ),
        "system:shepherd-info": (_at("/shepherd/v1/cluster"),),
        "system:volume-scheduler": (
            _to(f"{_READ} patch update", "persistentvolumeclaims persistentvolumes"),
            _to(_READ, "storageclasses", _STORAGE),
        ),
    }
    | {
        f"system:certificates.k8s.io:certificatesigningrequests:{own}": (
            _to("create", f"certificatesigningrequests/{own}", _CERTIFICATES),
        )
        for own in ("nodeclient", "selfnodeclient")
    }
    | {
        f"system:certificates.k8s.io:{signer}-approver": (
            _to("approve", "signers", _CERTIFICATES, names=f"kubernetes.io/{signer}"),
        )
        for signer in (
            "kube-apiserver-client",
            "kube-apiserver-client-kubelet",
            "kubelet-serving",
            "legacy-unknown",
        )
    }
)

_AGGREGATED = ("view", "edit", "admin")
"""Roles that are made of others, each of which adds to the next."""
_ADDS_TO = {
    "view": "edit",
    "edit": "admin",
    "system:aggregate-to-view": "view",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregated-metrics-reader": "view",
}

_BINDINGS = {
    "cluster-admin": "Group system:masters",
    "system:basic-user": "Group system:authenticated",
    "system:discovery": "Group system:authenticated",
    "system:kube-controller-manager": "User system:kube-controller-manager",
    "system:kube-scheduler": "User system:kube-scheduler",
    "system:monitoring": "Group system:monitoring",
    "system:node": "",  # what the Node authorizer gives is more exact
    "system:node-proxier": "User system:kube-proxy",
    "system:public-info-viewer": "Group system:authenticated, Group system:unauthenticated",
    "system:service-account-issuer-discovery": "Group system:serviceaccounts",
    "system:shepherd-info": "Group system:authenticated",
    "system:volume-scheduler": "User system:kube-scheduler",
}
"""To whom roles are bound, each by a binding of the role's name."""

NODE_RULES = tuple(decode(rule, PolicyRule) for rule in _NODE)
"""What every node may do, of the kinds that the Node authorizer does not look at more closely."""


def cluster_roles() -> list[Object]:
    """The default ClusterRoles; of aggregated ones with the rules that they begin with."""
    roles = {name: _role(name, list(rules)) for name, rules in _ROLES.items()}
    for name in _AGGREGATED:
        selector = {"matchLabels": {_aggregates_to(name): "true"}}
        role = _role(name, []) | {"aggregationRule": {"clusterRoleSelectors": [selector]}}
        views = [decode(other, Role) for other in roles.values()]
        role["rules"] = msgspec.to_builtins(aggregated(decode(role, Role), views))
        roles[name] = role
    return list(roles.values())


def _role(name: str, rules: list[Object]) -> Object:
    role = _object(CLUSTER_ROLE, name) | {"rules": rules}
    if to := _ADDS_TO.get(name):
        role["metadata"]["labels"][_aggregates_to(to)] = "true"
    return role


def _aggregates_to(name: str) -> str:
    return f"{_RBAC}/aggregate-to-{name}"


def cluster_role_bindings() -> list[Object]:
    """The default ClusterRoleBindings."""
    return [
        _object(CLUSTER_ROLE_BINDING, name)
        | {
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [_subject(*text.split()) for text in to.split(",") if text],
        }
        for name, to in _BINDINGS.items()
    ]


def _subject(kind: str, name: str) -> Object:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _object(resource: Resource, name: str) -> Object:
    metadata = {"name": name} | {field: dict(pairs) for field, pairs in _METADATA.items()}
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
