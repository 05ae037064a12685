"""Job, CronJob. Source: kubernetes/api batch/v1 types.go."""

from typing import Any

from msgspec import field

from shepherd.api.objects.meta import Condition, LabelSelector, ObjectMeta, View

JOB_CONTROLLER = "kubernetes.io/job-controller"


class ExitCodes(View):
    """Of a container that ended with an error."""

    container_name: str = ""
    """Empty: of any."""
    operator: str = "In"
    values: list[int] = []


class ConditionPattern(View):
    type: str = ""
    status: str = "True"


class PodFailureRule(View):
    action: str = "Count"
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: list[ConditionPattern] = []


class PodFailurePolicy(View):
    rules: list[PodFailureRule] = []


class SuccessRule(View):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View):
    rules: list[SuccessRule] = []


class JobSpec(View):
    parallelism: int = 1
    completions: int | None = None
    """None: the job is complete when one pod has succeeded and no other runs."""
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    """The pod template as JSON: it is copied whole."""
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = JOB_CONTROLLER
    """A job that names another is left to that one."""

    @property
    def indexed(self) -> bool:
        return self.completion_mode == "Indexed"


class UncountedPods(View):
    """UIDs of pods that have ended and are in none of the counters yet."""

    succeeded: list[str] = []
    failed: list[str] = []


class JobStatus(View):
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods = field(default_factory=UncountedPods)
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] = []


class Job(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)

    @property
    def finish(self) -> Condition | None:
        """The condition Complete or Failed, once it is True: nothing changes after that."""
        for condition in self.status.conditions:
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                return condition
        return None


def managed(job: Job) -> bool:
    """It is for this system's own controller to act on."""
    return job.spec.managed_by in ("", JOB_CONTROLLER)


class CronJobSpec(View):
    schedule: str = ""
    time_zone: str = "UTC"
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: dict[str, Any] = {}
    """The job's metadata and spec as JSON: it is copied whole."""
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class JobReference(View):
    """core/v1 ObjectReference."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class CronJobStatus(View):
    active: list[JobReference] = []
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)
