"""Pod. Source: kubernetes/api core/v1 types.go; "Pod Lifecycle" in the Kubernetes documentation."""

from typing import Any

from msgspec import field

from shepherd.api.objects.meta import Condition, LabelSelector, ObjectMeta, View
from shepherd.api.objects.node import NodeSelector, NodeSelectorTerm


class KeySelector(View):
    """A key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldSelector(View):
    api_version: str = "v1"
    field_path: str = ""


class ResourceFieldSelector(View):
    container_name: str = ""
    resource: str = ""
    divisor: str | int = "0"


class EnvVarSource(View):
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(View):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class SourceRef(View):
    name: str = ""
    optional: bool = False


class EnvFromSource(View):
    prefix: str = ""
    config_map_ref: SourceRef | None = None
    secret_ref: SourceRef | None = None


class ContainerPort(View):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class VolumeMount(View):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str = ""


class ResourceRequirements(View):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ExecAction(View):
    command: list[str] = []


class HTTPHeader(View):
    name: str = ""
    value: str = ""


class HTTPGetAction(View):
    path: str = "/"
    port: int | str = 0
    host: str = ""
    scheme: str = "HTTP"
    http_headers: list[HTTPHeader] = []


class TCPSocketAction(View):
    port: int | str = 0
    host: str = ""


class GRPCAction(View):
    port: int = 0
    service: str = ""


class SleepAction(View):
    seconds: int = 0


class Probe(View):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(View):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(View):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class Capabilities(View):
    add: list[str] = []
    drop: list[str] = []


class SeccompProfile(View):
    type: str = ""
    localhost_profile: str = ""


class SecurityContext(View):
    """Container level."""

    capabilities: Capabilities | None = None
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool = False
    allow_privilege_escalation: bool | None = None
    proc_mount: str = ""
    seccomp_profile: SeccompProfile | None = None


class Sysctl(View):
    name: str = ""
    value: str = ""


class PodSecurityContext(View):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: list[int] = []
    fs_group: int | None = None
    sysctls: list[Sysctl] = []
    seccomp_profile: SeccompProfile | None = None


class Container(View):
    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    working_dir: str = ""
    ports: list[ContainerPort] = []
    env_from: list[EnvFromSource] = []
    env: list[EnvVar] = []
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str = ""
    """Only init containers: `Always` makes a sidecar."""
    volume_mounts: list[VolumeMount] = []
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container):
    """Added to a pod that runs, to look around in it; runs once."""

    target_container_name: str = ""
    """The container whose processes it sees."""


class KeyToPath(View):
    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapVolume(View):
    name: str = ""
    items: list[KeyToPath] = []
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(View):
    secret_name: str = ""
    items: list[KeyToPath] = []
    default_mode: int = 0o644
    optional: bool = False


class EmptyDirVolume(View):
    medium: str = ""
    size_limit: str | int | None = None


class HostPathVolume(View):
    path: str = ""
    type: str = ""


class DownwardFile(View):
    path: str = ""
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardVolume(View):
    items: list[DownwardFile] = []
    default_mode: int = 0o644


class ServiceAccountTokenProjection(View):
    audience: str = ""
    expiration_seconds: int = 3600
    path: str = ""


class NamedProjection(View):
    name: str = ""
    items: list[KeyToPath] = []
    optional: bool = False


class VolumeProjection(View):
    secret: NamedProjection | None = None
    config_map: NamedProjection | None = None
    downward_api: DownwardVolume | None = field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolume(View):
    sources: list[VolumeProjection] = []
    default_mode: int = 0o644


class PersistentVolumeClaimVolume(View):
    claim_name: str = ""
    read_only: bool = False


class Volume(View):
    name: str = ""
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPathVolume | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None


class Toleration(View):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PreferredSchedulingTerm(View):
    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(View):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(View):
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(View):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(View):
    """Of affinity and of anti-affinity alike."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []


class Affinity(View):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class SourceName(View):
    name: str = ""


class HostAlias(View):
    ip: str = ""
    hostnames: list[str] = []


class PodDNSOption(View):
    name: str = ""
    value: str | None = None


class PodDNSConfig(View):
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[PodDNSOption] = []


class ReadinessGate(View):
    condition_type: str = ""


class PodSpec(View):
    volumes: list[Volume] = []
    init_containers: list[Container] = []
    containers: list[Container] = []
    ephemeral_containers: list[EphemeralContainer] = []
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    dns_policy: str = "ClusterFirst"
    dns_config: PodDNSConfig | None = None
    node_selector: dict[str, str] = {}
    service_account_name: str = "default"
    automount_service_account_token: bool = True
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    share_process_namespace: bool = False
    security_context: PodSecurityContext = field(default_factory=PodSecurityContext)
    image_pull_secrets: list[SourceName] = []
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = "default-scheduler"
    tolerations: list[Toleration] = []
    host_aliases: list[HostAlias] = []
    priority: int = 0
    priority_class_name: str = ""
    enable_service_links: bool = True
    overhead: dict[str, str | int | float] = {}
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    scheduling_gates: list[SourceName] = []
    readiness_gates: list[ReadinessGate] = []

    @property
    def everyone(self) -> list[Container]:
        """Init, main and ephemeral containers."""
        return [*self.init_containers, *self.containers, *self.ephemeral_containers]


class ContainerStatus(View):
    name: str = ""
    state: dict[str, Any] = {}
    """One of waiting, running, terminated (core/v1 ContainerState)."""
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = field(default="", name="imageID")
    container_id: str = field(default="", name="containerID")
    started: bool | None = None


class PodStatus(View):
    phase: str = "Pending"
    conditions: list[Condition] = []
    reason: str = ""
    message: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    start_time: str | None = None
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class Pod(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def finished(self) -> bool:
        """Its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        """Condition Ready is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
