"""Job, CronJob.

Source: kubernetes pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation, pkg/registry/batch/job
strategy.go.
"""

from collections.abc import Callable
from typing import Any

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
from shepherd.api.kinds.podrules import validate_pods, validate_template
from shepherd.api.kinds.podspec import default_template
from shepherd.api.kinds.podwarnings import template_warnings
from shepherd.api.kinds.shape import child, fill
from shepherd.api.meta import parse_time
from shepherd.api.resource import Column, Object, Resource

UID_LABEL = "batch.kubernetes.io/controller-uid"
NAME_LABEL = "batch.kubernetes.io/job-name"
_OLD_LABELS = {UID_LABEL: "controller-uid", NAME_LABEL: "job-name"}
_POLICIES = ("OnFailure", "Never")
_NO_LIMIT = 2**31 - 1
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
    for label, value in ((UID_LABEL, uid), (NAME_LABEL, name)):
        labels[label] = labels[_OLD_LABELS[label]] = value
    child(child(spec, "selector"), "matchLabels")[UID_LABEL] = uid


def _validate_job(job: Object) -> list[FieldError]:
    spec = job.get("spec") or {}
    found = list(_validate_job_spec(spec, "spec"))
    if spec.get("manualSelector") and not spec.get("selector"):
        return [*found, required("spec.selector")]
    return [*found, *validate_template(spec, "job", _POLICIES)]


def _validate_job_spec(spec: Object, path: str) -> Errors:
    for name in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        yield from at_least(f"{path}.{name}", spec.get(name))
    mode = spec.get("completionMode")
    yield from one_of(f"{path}.completionMode", mode, ("Indexed", "NonIndexed"))
    replaced = spec.get("podReplacementPolicy")
    allowed = ("Failed", "TerminatingOrFailed")
    yield from one_of(f"{path}.podReplacementPolicy", replaced, allowed)
    if mode == "Indexed":
        if spec.get("completions") is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        return
    detail = "requires indexed completion mode"
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
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
    # Where the pods of a job that waits may run is still open.
    waits = before.get("suspend") and not value_at(old, "status.startTime")
    template, old_template = spec.get("template"), before.get("template")
    if waits:
        template, old_template = _unplaced(template), _unplaced(old_template)
    return [*found, *immutable("spec.template", template, old_template)]


def _elastic(spec: Object) -> bool:
    """An indexed job may change its completions together with its parallelism."""
    return spec.get("completionMode") == "Indexed" and (
        spec.get("completions") == spec.get("parallelism")
    )


def _unplaced(template: Any) -> Object:
    spec = dict((template or {}).get("spec") or {})
    for name in ("nodeSelector", "affinity", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    metadata = dict((template or {}).get("metadata") or {})
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
    return {"spec": spec, "metadata": metadata}


def _condition(job: Object, type: str) -> bool:
    conditions = value_at(job, "status.conditions") or ()
    return any(c.get("type") == type and c.get("status") == "True" for c in conditions)


def _job_state(job: Object, now: float) -> str:
    if _condition(job, "Complete"):
        return "Complete"
    if _condition(job, "Failed"):
        return "Failed"
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _condition(job, state):
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
