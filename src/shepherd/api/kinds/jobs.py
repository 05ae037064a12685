"""Job, CronJob.

Source: kubernetes pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation, pkg/registry/batch/job
strategy.go.
"""

from collections.abc import Callable
from typing import Any

from shepherd.api.conditions import condition_is_true
from shepherd.api.errors import FieldError, invalid_value, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import (
    AGE,
    NONE,
    TEMPLATE_COLUMNS,
    column,
    count,
    human_duration,
    selector_text,
    since,
    value_at,
)
from shepherd.api.kinds.checks import Errors, absent, at_least, immutable, one_of
from shepherd.api.kinds.cron import Schedule, time_zone
from shepherd.api.kinds.jobpolicies import validate_failure_policy, validate_success_policy
from shepherd.api.kinds.podrules import validate_pods, validate_template
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.meta import parse_time
from shepherd.api.names import dns1123_label
from shepherd.api.resource import Column, Object, Resource

UID_LABEL = "batch.kubernetes.io/controller-uid"
NAME_LABEL = "batch.kubernetes.io/job-name"
_OLD_LABELS = {UID_LABEL: "controller-uid", NAME_LABEL: "job-name"}
_POLICIES = ("OnFailure", "Never")
_NO_LIMIT = 2**31 - 1
_LONGEST_MANAGER = 63
_MOST_PARALLEL = 100_000
_LONGEST_CRON_JOB = 52
"""Of the name: the 11 characters of its jobs' suffix must still fit a label."""


def _default_job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        fill(spec, {"completions": 1})
    limit = _NO_LIMIT if spec.get("backoffLimitPerIndex") is not None else 6
    fill(spec, {"parallelism": 1, "backoffLimit": limit, "completionMode": "NonIndexed"})
    spec.setdefault("suspend", False)
    failed_only = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    fill(spec, {"podReplacementPolicy": failed_only})
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            fill(condition, {"status": "True"})
    default_template(spec.get("template"))


def _default_job(job: Object) -> None:
    _default_job_spec(child(job, "spec"))
    child(job, "status")


def _prepare_job(job: Object, old: Object | None) -> None:
    """A new job's pods carry its UID, and by that it finds them."""
    spec, metadata = job["spec"], job.get("metadata") or {}
    template = spec.get("template")
    if old is not None or spec.get("manualSelector") or template is None:
        return
    labels = child(child(template, "metadata"), "labels")
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    for label, value in _generated(uid, name).items():
        labels.setdefault(label, value)
    child(child(spec, "selector"), "matchLabels").setdefault(UID_LABEL, uid)


def _generated(uid: str, name: str) -> dict[str, str]:
    """The labels by which a job finds its pods; validation refuses others in their place."""
    labels = {UID_LABEL: uid, NAME_LABEL: name}
    return labels | {_OLD_LABELS[label]: value for label, value in labels.items()}


def _validate_job(job: Object) -> list[FieldError]:
    spec = job.get("spec") or {}
    found = list(_validate_job_spec(spec, "spec"))
    if spec.get("manualSelector") and not spec.get("selector"):
        return [*found, required("spec.selector")]
    return [
        *found,
        *_validate_generated(job),
        *_validate_host_names(job),
        *validate_template(spec, "job", _POLICIES),
    ]


def _validate_generated(job: Object) -> Errors:
    """That who copies a job with all that was generated for it is told so."""
    spec, metadata = job.get("spec") or {}, job.get("metadata") or {}
    uid = metadata.get("uid")
    if spec.get("manualSelector") or not uid:
        return
    wanted = _generated(uid, metadata.get("name") or "")
    labels = value_at(spec, "template.metadata.labels") or {}
    at = "spec.template.metadata.labels"
    for label, value in wanted.items():
        if label not in labels:
            yield required(f"{at}[{label}]", f"must be '{value}'")
        elif labels[label] != value:
            yield invalid_value(f"{at}[{label}]", labels, f"must be '{value}'")
    chosen = value_at(spec, "selector.matchLabels") or {}
    if any(wanted.get(label) != value for label, value in chosen.items()):
        detail = "`selector` not auto-generated"
        yield invalid_value("spec.selector", spec["selector"], detail)


def _validate_host_names(job: Object) -> Errors:
    """A pod of an indexed job is named after job and index."""
    completions = value_at(job, "spec.completions")
    if value_at(job, "spec.completionMode") == "Indexed" and completions:
        name = value_at(job, "metadata.name") or ""
        longest = f"{name}-{completions - 1}"
        if dns1123_label(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            yield invalid_value("metadata.name", name, detail)


def _validate_job_spec(spec: Object, path: str) -> Errors:
    for name in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        yield from at_least(f"{path}.{name}", spec.get(name))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    manager = spec.get("managedBy")
    if manager is not None and ("/" not in manager or len(manager) > _LONGEST_MANAGER):
        detail = f"must be a domain-prefixed path of at most {_LONGEST_MANAGER} characters"
        yield invalid_value(f"{path}.managedBy", manager, f"{detail} (such as acme.io/foo)")
    mode = spec.get("completionMode")
    yield from one_of(f"{path}.completionMode", mode, ("Indexed", "NonIndexed"))
    yield from _validate_indexed(spec, path) if mode == "Indexed" else _without_indexes(spec, path)
    allowed: tuple[str, ...] = ("Failed", "TerminatingOrFailed")
    if spec.get("podFailurePolicy") is not None:
        yield from validate_failure_policy(spec, f"{path}.podFailurePolicy")
        policy = value_at(spec, "template.spec.restartPolicy")
        if policy == "OnFailure":
            detail = 'only "Never" is supported when podFailurePolicy is specified'
            yield invalid_value(f"{path}.template.spec.restartPolicy", policy, detail)
        allowed = ("Failed",)
    replaced = spec.get("podReplacementPolicy")
    yield from one_of(f"{path}.podReplacementPolicy", replaced, allowed)


def _validate_indexed(spec: Object, path: str) -> Errors:
    completions, most_failed = spec.get("completions"), spec.get("maxFailedIndexes") or 0
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
        return
    if (spec.get("parallelism") or 0) > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        yield invalid_value(f"{path}.parallelism", spec["parallelism"], detail)
    if most_failed > completions:
        detail = "must be less than or equal to completions"
        yield invalid_value(f"{path}.maxFailedIndexes", most_failed, detail)
    if spec.get("successPolicy") is not None:
        yield from validate_success_policy(spec, f"{path}.successPolicy")


def _without_indexes(spec: Object, path: str) -> Errors:
    detail = "requires indexed completion mode"
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(name) is not None:
            yield invalid_value(f"{path}.{name}", spec[name], detail)


def _validate_job_update(job: Object, old: Object) -> list[FieldError]:
    spec, before = job.get("spec") or {}, old.get("spec") or {}
    found: list[FieldError] = []
    for name in ("completions", "selector", "completionMode", "podFailurePolicy", "successPolicy",
                 "backoffLimitPerIndex", "managedBy"):  # fmt: skip
        if name == "completions" and _elastic(spec):
            continue
        found += immutable(f"spec.{name}", spec.get(name), before.get(name))
    template, old_template = spec.get("template"), before.get("template")
    if before.get("suspend") and _rests(old):
        template, old_template = _undecided(template), _undecided(old_template)
    return [*found, *immutable("spec.template", template, old_template)]


def _rests(job: Object) -> bool:
    """A suspended job that has no pods: where they may run and what they get is still open."""
    stopped = not value_at(job, "status.startTime") or condition_is_true(job, "Suspended")
    return stopped and not value_at(job, "status.active")


def _elastic(spec: Object) -> bool:
    """An indexed job may change its completions together with its parallelism."""
    return spec.get("completionMode") == "Indexed" and (
        spec.get("completions") == spec.get("parallelism")
    )


def _undecided(template: Any) -> Object:
    """A template without what may change: scheduling directives, resources, labels, annotations."""
    spec = dict((template or {}).get("spec") or {})
    affinity = dict(spec.pop("affinity", None) or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    affinity.pop("nodeAffinity", None)
    for kind in ("initContainers", "containers"):
        spec[kind] = [dict(container, resources=None) for container in spec.get(kind) or ()]
    metadata = dict((template or {}).get("metadata") or {})
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
    return {"spec": spec, "metadata": metadata, "affinity": affinity}


def _job_state(job: Object, now: float) -> str:
    if condition_is_true(job, "Complete"):
        return "Complete"
    if condition_is_true(job, "Failed"):
        return "Failed"
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_is_true(job, state):
            return state
    return "Running"


def _completions(job: Object, now: float) -> str:
    done = value_at(job, "status.succeeded") or 0
    wanted, parallel = value_at(job, "spec.completions"), value_at(job, "spec.parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Object, now: float) -> str:
    start, end = value_at(job, "status.startTime"), value_at(job, "status.completionTime")
    if not start:
        return ""
    return human_duration((parse_time(end) if end else now) - parse_time(start))


JOB = Resource(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    categories=("all",),
    status=True,
    generation=True,
    orphans=True,
    columns=(
        Column("Status", _job_state, description="What has become of it."),
        Column("Completions", _completions, description="Pods that succeeded, of those wanted."),
        Column("Duration", _duration, description="How long it took or takes."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    default=_default_job,
    prepare=_prepare_job,
    validate=_validate_job,
    validate_update=_validate_job_update,
    warnings=lambda job: template_warnings(value_at(job, "spec.template")),
    fields=lambda job: {"status.successful": str(value_at(job, "status.succeeded") or 0)},
)


def _default_cron_job(cron_job: Object) -> None:
    spec = child(cron_job, "spec")
    fill(spec, {"concurrencyPolicy": "Allow", "suspend": False})
    fill(spec, {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})
    job_spec = child(child(spec, "jobTemplate"), "spec")
    _default_job_spec(job_spec)
    child(cron_job, "status")


def _validate_cron_job(cron_job: Object) -> Errors:
    spec, name = cron_job.get("spec") or {}, value_at(cron_job, "metadata.name") or ""
    if len(name) > _LONGEST_CRON_JOB:
        detail = f"must be no more than {_LONGEST_CRON_JOB} characters"
        yield invalid_value("metadata.name", name, detail)
    schedule = spec.get("schedule") or ""
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid_value("spec.schedule", schedule, detail)
    elif schedule:
        try:
            Schedule.parse(schedule)
        except ValueError as error:
            yield invalid_value("spec.schedule", schedule, str(error))
    policy = spec.get("concurrencyPolicy")
    yield from one_of("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    yield from _validate_time_zone(spec.get("timeZone"))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit",
                  "failedJobsHistoryLimit"):  # fmt: skip
        yield from at_least(f"spec.{field}", spec.get(field))
    at, job_spec = "spec.jobTemplate.spec", value_at(spec, "jobTemplate.spec") or {}
    yield from _validate_job_spec(job_spec, at)
    detail = "`selector` will be auto-generated"
    if job_spec.get("selector"):
        yield invalid_value(f"{at}.selector", job_spec["selector"], detail)
    yield from absent(f"{at}.manualSelector", job_spec.get("manualSelector"), "must not be set")
    yield from validate_pods(job_spec.get("template"), f"{at}.template", _POLICIES)


def _validate_time_zone(zone: str | None) -> Errors:
    if zone is None:
        return
    try:
        time_zone(zone)
    except ValueError as error:
        yield invalid_value("spec.timeZone", zone, str(error))


def _job_cell(cell: Callable[[Object, float], Any]) -> Callable[[Object, float], Any]:
    """A cell of the job template, as a job would show it."""
    return lambda cron_job, now: cell(value_at(cron_job, "spec.jobTemplate") or {}, now)


CRON_JOB = Resource(
    group="batch",
    version="v1",
    kind="CronJob",
    plural="cronjobs",
    short_names=("cj",),
    categories=("all",),
    status=True,
    generation=True,
    columns=(
        column("Schedule", "spec.schedule", "When it makes a job."),
        column("Timezone", "spec.timeZone", "Of the schedule."),
        Column(
            "Suspend",
            lambda obj, now: "True" if value_at(obj, "spec.suspend") else "False",
            description="Whether it rests.",
        ),
        count("Active", "status.active", "Jobs that run."),
        Column(
            "Last Schedule",
            lambda obj, now: since(t, now)
            if (t := value_at(obj, "status.lastScheduleTime"))
            else NONE,
            description="When it made the last one.",
        ),
        AGE,
        Column("Containers", _job_cell(TEMPLATE_COLUMNS[0].cell), wide=True,
               description="Names of the template's containers."),
        Column("Images", _job_cell(TEMPLATE_COLUMNS[1].cell), wide=True,
               description="Images of the template's containers."),
        Column("Selector", lambda obj, now: selector_text(
            value_at(obj, "spec.jobTemplate.spec.selector")), wide=True,
            description="Which pods belong to its jobs."),
    ),
    default=_default_cron_job,
    validate=validates("batch.v1.CronJob", _validate_cron_job),
    warnings=lambda obj: template_warnings(value_at(obj, "spec.jobTemplate.spec.template")),
)  # fmt: skip
