"""What a Job or CronJob may say, and which of it may change."""

from copy import deepcopy
from typing import Any

import pytest

from shepherd.api.errors import FieldError
from shepherd.api.kinds.jobs import CRON_JOB, JOB
from shepherd.api.resource import Object

EXIT_42 = {"operator": "In", "values": [42]}


def job(**spec: Any) -> Object:
    container = {"name": "main", "image": "demo:1"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    made: Object = {"metadata": {"name": "work", "uid": "u"}, "spec": {"template": {"spec": pod}}}
    made["spec"] |= spec
    JOB.default(made)
    JOB.prepare(made, None)
    return made


def texts(errors: list[FieldError]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


INDEXED: Object = {"completions": 3, "completionMode": "Indexed"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}},
         ["spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: "
          "requires indexed completion mode"]),
        (INDEXED | {"successPolicy": {"rules": [{"succeededCount": 1}]}}, []),
        (INDEXED | {"successPolicy": {"rules": [{}]}},
         ["spec.successPolicy.rules[0]: Required value: at least one of succeededCount or "
          "succeededIndexes must be specified"]),
        (INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "1,3"}]}},
         ["spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"1,3\": error parsing "
          "succeededIndexes: too large index: \"3\""]),
        (INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}},
         ["spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or "
          "equal to 2 (the number of indexes in the specified succeededIndexes field)"]),
        (INDEXED | {"maxFailedIndexes": 1},
         ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"]),
        (INDEXED | {"maxFailedIndexes": 4, "backoffLimitPerIndex": 0},
         ["spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
        ({"managedBy": "me"},
         ["spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path of at most 63 "
          "characters (such as acme.io/foo)"]),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": EXIT_42}]}}, []),
        ({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": EXIT_42}]}},
         ["spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the "
          "backoffLimitPerIndex to be set"]),
        ({"podFailurePolicy": {"rules": [{"action": "Count"}]}},
         ["spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and "
          "OnPodConditions is required"]),
        ({"podFailurePolicy": {"rules": [
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0]}}]}},
         ["spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 "
          "for the In operator",
          "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0]: "
          "must be ordered"]),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"},
         ["spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported "
          "values: \"Failed\""]),
    ],
)  # fmt: skip
def test_a_job_says_what_makes_sense(spec: Object, expected: list[str]) -> None:
    assert texts(JOB.validate(job(**spec))) == expected


def test_pods_of_a_job_end() -> None:
    made = job()
    del made["spec"]["template"]["spec"]["restartPolicy"]
    expected = (
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    )
    assert texts(JOB.validate(made)) == [expected]


def test_what_was_generated_for_another_job_is_refused() -> None:
    copied = job()
    copied["metadata"]["uid"] = "another"
    JOB.prepare(copied, None)
    found = texts(JOB.validate(copied))
    assert len(found) == 3
    assert found[0].startswith(
        "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: Invalid value: "
    )
    assert found[0].endswith(": must be 'another'")
    assert found[-1].endswith("`selector` not auto-generated")


def test_the_name_of_an_indexed_job_leaves_room_for_its_pods() -> None:
    made = job(completionMode="Indexed", completions=101)
    made["metadata"]["name"] = "a" * 60
    (found,) = (text for text in texts(JOB.validate(made)) if "metadata.name" in text)
    assert "will not able to create pod with invalid DNS label: " in found


def changed(path: str, value: Any, old: Object) -> list[str]:
    """What a change of one field of the spec meets."""
    new = deepcopy(old)
    at: Any = new["spec"]
    *parents, last = path.split(".")
    for name in parents:
        at = at[int(name) if isinstance(at, list) else name]
    at[last] = value
    return texts(JOB.validate_update(new, old))


PLACES = [
    ("template.spec.nodeSelector", {"zone": "a"}),
    ("template.spec.tolerations", [{"key": "a"}]),
    ("template.spec.affinity", {"nodeAffinity": {}}),
    ("template.spec.containers.0.resources", {"requests": {"cpu": "4"}}),
]


@pytest.mark.parametrize(("path", "value"), PLACES)
def test_where_a_suspended_job_will_run_is_open_while_it_has_no_pods(path: str, value: Any) -> None:
    status: Object = {"startTime": "2026-01-01T00:00:00Z"}
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert changed(path, value, job(suspend=True)) == []
    assert changed(path, value, job(suspend=True) | {"status": status | suspended}) == []
    for fixed in (
        job(),
        job(suspend=True) | {"status": status},
        job(suspend=True) | {"status": suspended | {"active": 1}},
    ):
        (found,) = changed(path, value, fixed)
        assert found.endswith("field is immutable")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("template.spec.containers.0.image", "demo:2"),
        ("template.spec.affinity", {"podAffinity": {"a": 1}}),
        ("completions", 4),
        ("completionMode", "Indexed"),
        ("managedBy", "a/b"),
        ("selector", {"matchLabels": {"a": "b"}}),
    ],
)
def test_what_never_changes(path: str, value: Any) -> None:
    found = changed(path, value, job(suspend=True))
    assert found[0].endswith("field is immutable")


@pytest.mark.parametrize(("path", "value"), [("parallelism", 5), ("suspend", True),
                         ("backoffLimit", 1), ("activeDeadlineSeconds", 9)])  # fmt: skip
def test_what_may_change(path: str, value: Any) -> None:
    assert changed(path, value, job()) == []


def cron_job(**spec: Any) -> Object:
    template = {"spec": {"template": job()["spec"]["template"]}}
    made: Object = {"metadata": {"name": "tick"},
                    "spec": {"schedule": "* * * * *", "jobTemplate": template} | spec}  # fmt: skip
    CRON_JOB.default(made)
    return made


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"timeZone": "Europe/Berlin"}, []),
        ({"timeZone": "Mars/Base"},
         ['spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base']),
        ({"schedule": "TZ=UTC 0 * * * *"},
         ['spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, '
          "use timeZone field instead"]),
        ({"schedule": "CRON_TZ=UTC 0 * * * *"},
         ['spec.schedule: Invalid value: "CRON_TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in '
          "schedule, use timeZone field instead"]),
        ({"schedule": "@every 5m"}, []),
    ],
)  # fmt: skip
def test_78795_a_cron_job_names_its_zone_in_one_place(spec: Object, expected: list[str]) -> None:
    """kubernetes/kubernetes#78795, #47202; kubernetes/website#19003."""
    assert texts(CRON_JOB.validate(cron_job(**spec))) == expected
