"""Numbers at the edge of what the API takes stop nothing that acts on them.

Each object that is accepted stays; then time passes, and the cluster must still do its work.
"""

import logging
from typing import Any

import pytest

from shepherd.testing import Cluster
from shepherd.testing.rest import Rest, is_running, pod

EDGES = (0, 1, 2**31 - 1, 2**63 - 1)
PROBE = {"exec": {"command": ["true"]}, "initialDelaySeconds": 1}
POD_FIELDS = ("terminationGracePeriodSeconds", "activeDeadlineSeconds")
PROBE_FIELDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
JOB_FIELDS = ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
WEB_FIELDS = ("minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit")
CRON_FIELDS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit")
LABELS = {"app": "web"}


def template(**spec: Any) -> Any:
    return {"metadata": {"labels": LABELS}, "spec": pod("", **spec)["spec"]}


def probed(field: str, value: int) -> Any:
    made = pod("")
    made["spec"]["containers"][0] |= {"livenessProbe": PROBE | {field: value}}
    return made["spec"]


def objects(value: int) -> list[tuple[str, Any]]:
    """Paths and specs, one for each field."""
    batch, apps = "/apis/batch/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
    stay = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": value}
    job = {"template": template(restartPolicy="Never")}
    web = {"selector": {"matchLabels": LABELS}, "template": template()}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    return [
        *(("pods", pod("")["spec"] | {field: value}) for field in POD_FIELDS),
        *(("pods", probed(field, value)) for field in PROBE_FIELDS),
        ("pods", pod("", tolerations=[stay])["spec"]),
        *((f"{batch}/jobs", job | {field: value}) for field in JOB_FIELDS),
        *((f"{batch}/cronjobs", cron | {field: value}) for field in CRON_FIELDS),
        *((f"{apps}/deployments", web | {field: value}) for field in WEB_FIELDS),
    ]


def test_what_is_accepted_at_an_edge_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=1) as cluster:
        rest = Rest(cluster.settings)
        kept = []
        for value in EDGES:
            for number, (path, spec) in enumerate(objects(value)):
                name = f"a-{value}-{number}"
                answer = rest.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
                assert answer.get("code", 201) in (201, 400, 422), answer
                if answer["kind"] != "Status":
                    kept.append(f"{path}/{name}")
        assert len(kept) > 40
        cluster.clock.advance(90)
        for path in kept:
            answer = rest.ask("DELETE", path)
            assert answer.get("code", 200) in (200, 404), answer
        cluster.clock.advance(10)
        rest.ask("POST", "pods", pod("last"))
        rest.until("pods/last", is_running)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
