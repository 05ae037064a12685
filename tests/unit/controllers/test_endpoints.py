"""From pods to slices: who is in, at which port, and how little is written."""

from typing import Any

from shepherd.api.objects import EndpointSlice, Pod, Service, decode
from shepherd.controllers.endpoint_rules import Port, backends
from shepherd.controllers.endpoints import subsets
from shepherd.controllers.endpointslice import SlicePlan, plan_slices


def service(**spec: Any) -> Service:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "raw", "port": 9}]
    meta = {"name": "web", "namespace": "ns", "uid": "svc", "labels": {"team": "a"}}
    return decode(
        {"metadata": meta, "spec": {"selector": {"app": "web"}, "ports": ports} | spec}, Service
    )


def pod(number: int, *, ready: bool = True, port: int = 8080, **extra: Any) -> Pod:
    meta = {"name": f"p{number:03}", "namespace": "ns", "uid": f"u{number}",
            "labels": {"app": "web"}}  # fmt: skip
    ports = [{"name": "http", "containerPort": port}] if port else []
    return decode(
        {
            "metadata": meta | extra.pop("metadata", {}),
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]}
            | extra.pop("spec", {}),
            "status": {
                "phase": "Running",
                "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
                "conditions": [{"type": "Ready", "status": str(ready)}],
            }
            | extra,
        },
        Pod,
    )


def written(plan: SlicePlan) -> list[EndpointSlice]:
    """What a server would hold after `create`."""
    return [
        decode(
            body | {"metadata": body["metadata"] | {"name": f"s{n}", "uid": f"s{n}"}}, EndpointSlice
        )
        for n, body in enumerate(plan.create)
    ]


def test_ports_are_looked_up_in_each_pod() -> None:
    found = backends(service(), [pod(1, port=8080), pod(2, port=9090), pod(3, port=0)])
    raw = Port("raw", "TCP", 9)
    assert [b.ports for b in found] == [
        (Port("web", "TCP", 8080), raw),
        (Port("web", "TCP", 9090), raw),
        (raw,),
    ]
    plan = plan_slices(service(), found, [])
    assert len(plan.create) == 3, "endpoints of a slice have their ports in common"


def test_who_is_in_and_in_which_condition() -> None:
    leaving = pod(3, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    others = [
        pod(4, phase="Succeeded"),
        pod(5, podIP=""),
        pod(6, metadata={"labels": {"app": "other"}}),
    ]
    pods = [pod(1), pod(2, ready=False), leaving, *others]
    states = [(b.ready, b.serving, b.terminating) for b in backends(service(), pods)]
    assert states == [(True, True, False), (False, False, False), (False, True, True)]
    published = backends(service(publishNotReadyAddresses=True), pods)
    assert [b.ready for b in published] == [True, True, True]


def test_a_hostname_counts_in_the_services_own_subdomain() -> None:
    named = pod(1, spec={"hostname": "db-0", "subdomain": "web"})
    other = pod(2, spec={"hostname": "db-1", "subdomain": "elsewhere"})
    assert [b.hostname for b in backends(service(), [named, other])] == ["db-0", ""]


def test_what_is_right_is_not_written_again() -> None:
    members = backends(service(), [pod(n) for n in range(150)])
    slices = written(plan_slices(service(), members, []))
    assert sorted(len(s.endpoints) for s in slices) == [50, 100]
    assert plan_slices(service(), members, slices) == SlicePlan()


def test_a_change_touches_the_slices_that_it_must() -> None:
    members = backends(service(), [pod(n) for n in range(150)])
    slices = written(plan_slices(service(), members, []))
    large = next(s for s in slices if len(s.endpoints) == 100)
    gone = large.endpoints[0].target_ref
    assert gone
    left = [b for b in members if b.uid != gone.uid]
    plan = plan_slices(service(), left, slices)
    assert [item.metadata.name for item, _ in plan.update] == [large.metadata.name]
    new = plan_slices(service(), [*members, *backends(service(), [pod(999)])], slices)
    [(filled, body)] = new.update
    assert filled is not large, "only the other one has room"
    assert len(body["endpoints"]) == 51
    assert not plan.create
    assert not new.create


def test_an_emptied_service_keeps_one_empty_slice_and_a_renamed_port_moves_all() -> None:
    plan = plan_slices(service(), [], [])
    assert [body["endpoints"] for body in plan.create] == [[]]
    empty = written(plan)
    assert plan_slices(service(), [], empty) == SlicePlan()
    members = backends(service(), [pod(1)])
    plan = plan_slices(service(), members, empty)
    assert plan.delete == empty
    assert len(plan.create) == 1


def test_a_changed_label_of_the_service_is_passed_on() -> None:
    members = backends(service(), [pod(1)])
    slices = written(plan_slices(service(), members, []))
    renamed = service()
    renamed.metadata.labels["team"] = "b"
    [(_, body)] = plan_slices(renamed, members, slices).update
    assert body["metadata"]["labels"]["team"] == "b"


def test_endpoints_hold_ready_and_unready_apart_and_leave_out_who_goes() -> None:
    leaving = pod(3, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    members = backends(service(), [pod(1), pod(2, ready=False), leaving])
    [subset] = subsets(service(), members)
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.2"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.0.0.3"]
    assert subset["ports"][0] == {"name": "web", "protocol": "TCP", "port": 8080}
