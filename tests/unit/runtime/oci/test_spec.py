from dataclasses import replace
from typing import Any

import pytest

from shepherd.runtime.base import ContainerConfig, Mount, SheepError
from shepherd.runtime.oci import security, spec, users
from shepherd.runtime.oci.images import ImageDefaults

CONFIG = ContainerConfig("u-c-0", "u-0", "c", 0, "sha256:1")
EVERY_RIGHT = (1 << 41) - 1
AROUND = spec.Surroundings(
    user=users.ResolvedUser(0, 0, (0,), "/root"),
    hostname="pod",
    rootfs="/r",
    cgroup="/x/u-0/u-c-0",
    namespaces={"network": "/n", "mount": "", "pid": ""},
    files=(Mount("/s/hosts", "/etc/hosts"), Mount("/s/shm", "/dev/shm")),
    bounding=EVERY_RIGHT,
    oom_score_floor=0,
)
IMAGE = ImageDefaults(entrypoint=["/entry"], cmd=["cmd"], env=["A=1", "PATH=/bin"])


def build(**changes: Any) -> spec.Spec:
    return spec.build(replace(CONFIG, **changes), IMAGE, AROUND)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), ["/entry", "cmd"]),
        (("x",), (), ["x"]),
        ((), ("y",), ["/entry", "y"]),
        (("x",), ("y",), ["x", "y"]),
    ],
)
def test_command_and_args_replace_the_images_as_in_kubernetes(
    command: tuple[str, ...], args: tuple[str, ...], expected: list[str]
) -> None:
    assert build(command=command, args=args)["process"]["args"] == expected


def test_nothing_to_run_is_told() -> None:
    with pytest.raises(SheepError, match="no command specified"):
        spec.build(CONFIG, ImageDefaults(), AROUND)


def test_the_pods_variables_win_over_the_images() -> None:
    assert build(env=(("A", "2"), ("B", "=")))["process"]["env"] == [
        "PATH=/bin", "HOSTNAME=pod", "HOME=/root", "A=2", "B==",
    ]  # fmt: skip


def test_limits_become_cgroup_values() -> None:
    resources = build(cpu_millis=250, cpu_request_millis=100, memory_bytes=1 << 20, pids=9)
    found = resources["linux"]["resources"]
    assert found["cpu"] == {"shares": 102, "quota": 25_000, "period": 100_000}
    assert (found["memory"], found["pids"]) == ({"limit": 1 << 20}, {"limit": 9})


def test_a_memory_limit_allows_no_swap_where_swap_is_counted() -> None:
    built = spec.build(replace(CONFIG, memory_bytes=7), IMAGE, replace(AROUND, limits_swap=True))
    assert built["linux"]["resources"]["memory"] == {"limit": 7, "swap": 7}


def test_the_oom_score_is_not_below_our_own() -> None:
    around = replace(AROUND, oom_score_floor=-5)
    built = spec.build(replace(CONFIG, oom_score_adj=-997), IMAGE, around)
    assert built["process"]["oomScoreAdj"] == -5


def test_the_pods_mount_takes_the_place_of_ours_and_parents_come_first() -> None:
    mounts = (Mount("/b", "/data/in/side"), Mount("/a", "/data"), Mount("/h", "/etc/hosts"))
    built = build(mounts=mounts)["mounts"]
    places = [one["destination"] for one in built]
    assert places.count("/etc/hosts") == 1
    assert next(one for one in built if one["destination"] == "/etc/hosts")["source"] == "/h"
    assert places.index("/data") < places.index("/data/in/side")


def test_shared_propagation_needs_a_shared_root() -> None:
    assert "rootfsPropagation" not in build(mounts=(Mount("/a", "/a"),))["linux"]
    shared = build(mounts=(Mount("/a", "/a", propagation="rshared"),))["linux"]
    assert shared["rootfsPropagation"] == "rshared"


def test_a_privileged_container_is_hindered_by_nothing() -> None:
    linux = build(privileged=True, seccomp="RuntimeDefault")["linux"]
    assert not {"seccomp", "maskedPaths", "readonlyPaths"} & set(linux)
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm"}]


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ((), (), security.DEFAULT_CAPABILITIES),
        (("net_admin",), (), security.DEFAULT_CAPABILITIES | {"CAP_NET_ADMIN"}),
        ((), ("CAP_CHOWN",), security.DEFAULT_CAPABILITIES - {"CAP_CHOWN"}),
        (("CHOWN",), ("ALL",), {"CAP_CHOWN"}),
        (("ALL",), ("SYS_ADMIN",), set(security.CAPABILITIES) - {"CAP_SYS_ADMIN"}),
    ],
)
def test_capabilities_are_added_and_dropped(
    add: tuple[str, ...], drop: tuple[str, ...], expected: set[str]
) -> None:
    found = security.capabilities(add, drop, privileged=False, bounding=EVERY_RIGHT)
    assert set(found) == expected


def test_nobody_gets_what_shepherd_lacks() -> None:
    without = EVERY_RIGHT & ~(1 << security.CAPABILITIES.index("CAP_SYS_RESOURCE"))
    found = security.capabilities((), (), privileged=True, bounding=without)
    assert set(found) == set(security.CAPABILITIES) - {"CAP_SYS_RESOURCE"}


def test_a_granted_capability_frees_its_calls_in_the_default_profile() -> None:
    def blocked(*granted: str) -> set[str]:
        rules = security.default_seccomp(granted)["syscalls"]
        return {name for rule in rules for name in rule["names"]}

    assert {"mount", "clone", "clone3", "reboot", "keyctl"} <= blocked()
    assert not {"mount", "clone", "clone3"} & blocked("CAP_SYS_ADMIN")
    assert "reboot" in blocked("CAP_SYS_ADMIN")


PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\nbroken\n"
GROUP = "root:x:0:\napp:x:1001:\nextra:x:50:other,app\nwheel:x:10:root\n"


@pytest.mark.parametrize(
    ("image_user", "changes", "expected"),
    [
        ("", {}, users.ResolvedUser(0, 0, (0, 10), "/root")),
        ("app", {}, users.ResolvedUser(1000, 1001, (50, 1001), "/home/app")),
        ("1000", {}, users.ResolvedUser(1000, 1001, (50, 1001), "/home/app")),
        ("app:extra", {}, users.ResolvedUser(1000, 50, (50,), "/home/app")),
        ("77:88", {}, users.ResolvedUser(77, 88, (88,), "/")),
        ("app:extra", {"run_as_user": 5}, users.ResolvedUser(5, 0, (0,), "/")),
        ("app", {"run_as_group": 3}, users.ResolvedUser(1000, 3, (3, 50), "/home/app")),
        ("", {"supplemental_groups": (9,)}, users.ResolvedUser(0, 0, (0, 9, 10), "/root")),
    ],
)
def test_who_a_container_runs_as(
    image_user: str, changes: dict[str, Any], expected: users.ResolvedUser
) -> None:
    assert users.resolve(replace(CONFIG, **changes), image_user, PASSWD, GROUP) == expected


@pytest.mark.parametrize(
    ("image_user", "changes", "message"),
    [
        ("nobody", {}, "unable to find user nobody"),
        ("app:none", {}, "unable to find group none"),
        ("", {"run_as_non_root": True}, "runAsNonRoot and image will run as root"),
    ],
)
def test_who_it_cannot_run_as(image_user: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SheepError, match=message) as refused:
        users.resolve(replace(CONFIG, **changes), image_user, PASSWD, GROUP)
    assert refused.value.reason == "CreateContainerConfigError"
