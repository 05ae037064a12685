"""kubectl 1.37 on Jobs and CronJobs that run, on a hollow node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_a_job_is_created_waited_for_and_described(kubectl: Any) -> None:
    made = kubectl("create", "job", "good", "--image=demo:1", "--", "sh", "-c", "exit 0")
    assert made == "job.batch/good created\n"  # and no warning that nobody acts on it
    waited = kubectl("wait", "job/good", "--for=condition=complete", "--timeout=20s")
    assert waited == "job.batch/good condition met\n"
    row = kubectl("get", "job", "good", "--no-headers").split()
    assert row[:3] == ["good", "Complete", "1/1"]
    told = kubectl("describe", "job", "good")
    for text in ("Pods Statuses:    0 Active (0 Ready) / 1 Succeeded / 0 Failed",
                 "SuccessfulCreate", "Completed", "Job completed"):  # fmt: skip
        assert text in told
    pods = kubectl("get", "pods", "-l", "job-name=good", "--no-headers").split()
    assert pods[2] == "Completed"
    kubectl("delete", "job", "good", "--timeout=20s")
    kubectl("wait", "pod", "-l", "job-name=good", "--for=delete", "--timeout=20s")


def test_a_job_that_fails_is_waited_for(kubectl: Any, tmp_path: Path) -> None:
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(
        """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: bad}
        spec:
          backoffLimit: 0
          template:
            spec:
              restartPolicy: Never
              containers: [{name: main, image: "demo:1", command: [sh, -c, exit 7]}]
        """
    )
    kubectl("apply", "--server-side", "-f", str(manifest))
    kubectl("wait", "job/bad", "--for=condition=failed", "--timeout=20s")
    row = kubectl("get", "job", "bad", "--no-headers").split()
    assert row[:3] == ["bad", "Failed", "0/1"]
    assert "BackoffLimitExceeded" in kubectl("describe", "job", "bad")
    again = kubectl("apply", "--server-side", "-f", str(manifest))
    assert again == "job.batch/bad serverside-applied\n"


def test_a_cron_job_and_a_job_of_it(kubectl: Any) -> None:
    command = ("--image=demo:1", "--schedule=0 2 * * *", "--", "sh", "-c", "exit 0")
    assert kubectl("create", "cronjob", "nightly", *command).count("\n") == 1
    zone = '{"spec":{"timeZone":"Europe/Berlin"}}'
    kubectl("patch", "cronjob", "nightly", "--type=merge", "-p", zone)
    kubectl("create", "job", "now", "--from=cronjob/nightly")
    kubectl("wait", "job/now", "--for=condition=complete", "--timeout=20s")
    told = kubectl("describe", "cronjob", "nightly")
    assert "Time Zone:" in told
    assert "Europe/Berlin" in told
    row = kubectl("get", "cronjob", "nightly", "--no-headers").split()
    assert row[:9] == ["nightly", "0", "2", "*", "*", "*", "Europe/Berlin", "False", "0"]
    bad = kubectl("patch", "cronjob", "nightly", "--type=merge",
                  "-p", '{"spec":{"timeZone":"Mars/Base"}}', code=1)  # fmt: skip
    assert "unknown time zone Mars/Base" in bad
