"""kubectl 1.37 on Jobs and CronJobs that run, on a hollow node."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.testing import Cluster

KUBECTL = str(Path(sys.executable).parent / "kubectl")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def kubectl(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    """What kubectl prints on both of its outputs."""
    home = {"HOME": str(cluster.kubeconfig.parent)}
    environment = os.environ | cluster.settings.environment | home
    command = [KUBECTL, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_job_is_created_waited_for_and_described(cluster: Cluster) -> None:
    made = kubectl(cluster, "create", "job", "good", "--image=demo:1", "--", "sh", "-c", "exit 0")
    assert made == "job.batch/good created\n"  # and no warning that nobody acts on it
    waited = kubectl(cluster, "wait", "job/good", "--for=condition=complete", "--timeout=20s")
    assert waited == "job.batch/good condition met\n"
    row = kubectl(cluster, "get", "job", "good", "--no-headers").split()
    assert row[:3] == ["good", "Complete", "1/1"]
    told = kubectl(cluster, "describe", "job", "good")
    for text in ("Pods Statuses:    0 Active (0 Ready) / 1 Succeeded / 0 Failed",
                 "SuccessfulCreate", "Completed", "Job completed"):  # fmt: skip
        assert text in told
    pods = kubectl(cluster, "get", "pods", "-l", "job-name=good", "--no-headers").split()
    assert pods[2] == "Completed"
    kubectl(cluster, "delete", "job", "good", "--timeout=20s")
    kubectl(cluster, "wait", "pod", "-l", "job-name=good", "--for=delete", "--timeout=20s")


def test_a_job_that_fails_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
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
    kubectl(cluster, "apply", "--server-side", "-f", str(manifest))
    kubectl(cluster, "wait", "job/bad", "--for=condition=failed", "--timeout=20s")
    row = kubectl(cluster, "get", "job", "bad", "--no-headers").split()
    assert row[:3] == ["bad", "Failed", "0/1"]
    assert "BackoffLimitExceeded" in kubectl(cluster, "describe", "job", "bad")
    again = kubectl(cluster, "apply", "--server-side", "-f", str(manifest))
    assert again == "job.batch/bad serverside-applied\n"


def test_a_cron_job_and_a_job_of_it(cluster: Cluster) -> None:
    command = ("--image=demo:1", "--schedule=0 2 * * *", "--", "sh", "-c", "exit 0")
    assert kubectl(cluster, "create", "cronjob", "nightly", *command).count("\n") == 1
    zone = '{"spec":{"timeZone":"Europe/Berlin"}}'
    kubectl(cluster, "patch", "cronjob", "nightly", "--type=merge", "-p", zone)
    kubectl(cluster, "create", "job", "now", "--from=cronjob/nightly")
    kubectl(cluster, "wait", "job/now", "--for=condition=complete", "--timeout=20s")
    told = kubectl(cluster, "describe", "cronjob", "nightly")
    assert "Time Zone:" in told
    assert "Europe/Berlin" in told
    row = kubectl(cluster, "get", "cronjob", "nightly", "--no-headers").split()
    assert row[:9] == ["nightly", "0", "2", "*", "*", "*", "Europe/Berlin", "False", "0"]
    bad = kubectl(cluster, "patch", "cronjob", "nightly", "--type=merge",
                  "-p", '{"spec":{"timeZone":"Mars/Base"}}', code=1)  # fmt: skip
    assert "unknown time zone Mars/Base" in bad
