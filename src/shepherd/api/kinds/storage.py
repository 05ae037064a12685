"""PersistentVolume, PersistentVolumeClaim, and the kinds of storage.k8s.io.

Source: kubernetes pkg/apis/core/validation (ValidatePersistentVolume and its claim),
pkg/apis/storage/validation, pkg/printers/internalversion.
"""

from typing import Any

from shepherd.api.errors import FieldError, forbidden_field, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, NONE, column, count, name_or_default, value_at
from shepherd.api.kinds.checks import Errors, immutable, label_selector, one_of, quantities
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import Column, Object, Resource

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_VOLUME_MODES = ("Block", "Filesystem")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NOT_A_SOURCE = frozenset((
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
    "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName", "volumeMode",
))  # fmt: skip


def _default_volume(volume: Object) -> None:
    spec = child(volume, "spec")
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    fill(child(volume, "status"), {"phase": "Pending"})


def default_claim(claim: Object) -> None:
    """Also of the claim templates of a StatefulSet."""
    fill(child(claim, "spec"), {"volumeMode": "Filesystem"})
    fill(child(claim, "status"), {"phase": "Pending"})


def _access_modes(spec: Object, path: str) -> Errors:
    modes = spec.get("accessModes") or []
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    for index, mode in enumerate(modes):
        yield from one_of(f"{path}.accessModes[{index}]", mode, _MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(f"{path}.accessModes", detail)


def _validate_volume(volume: Object) -> Errors:
    spec = volume.get("spec") or {}
    yield from _access_modes(spec, "spec")
    capacity = spec.get("capacity")
    if not capacity or "storage" not in capacity:
        yield required("spec.capacity")
    yield from quantities("spec.capacity", capacity)
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    yield from one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
    sources = spec.keys() - _NOT_A_SOURCE
    if not sources:
        yield required("spec", "must specify a volume type")
    for extra in sorted(sources)[1:]:
        yield forbidden_field(f"spec.{extra}", "may not specify more than 1 volume type")


def _source(volume: Object) -> Object:
    spec = volume.get("spec") or {}
    return {key: value for key, value in spec.items() if key not in _NOT_A_SOURCE}


def _validate_volume_update(volume: Object, old: Object) -> list[FieldError]:
    found = []
    if _source(volume) != _source(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        found.append(forbidden_field("spec.persistentvolumesource", detail))
    mode, before = value_at(volume, "spec.volumeMode"), value_at(old, "spec.volumeMode")
    return [*found, *immutable("volumeMode", mode, before)]


def validate_claim_spec(spec: Object, path: str) -> Errors:
    """Also of the claim templates of a StatefulSet."""
    yield from _access_modes(spec, path)
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    requests = (spec.get("resources") or {}).get("requests")
    if not requests or "storage" not in requests:
        yield required(f"{path}.resources[storage]")
    yield from quantities(f"{path}.resources.requests", requests)
    yield from one_of(f"{path}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def _validate_claim(claim: Object) -> Errors:
    yield from validate_claim_spec(claim.get("spec") or {}, "spec")


def _validate_claim_update(claim: Object, old: Object) -> list[FieldError]:
    """A binder may fill in the volume and the class; of the rest only the size may grow."""
    spec, before = dict(claim.get("spec") or {}), dict(old.get("spec") or {})
    for free in ("resources", "volumeAttributesClassName"):
        spec.pop(free, None)
        before.pop(free, None)
    for filled in ("volumeName", "storageClassName"):
        if not before.get(filled):
            spec.pop(filled, None)
            before.pop(filled, None)
    if spec == before:
        return []
    detail = (
        "spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims"
    )
    return [forbidden_field("spec", detail)]


def _modes_text(modes: list[str] | None) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


def _claim_of(volume: Object, now: float) -> str:
    claim = value_at(volume, "spec.claimRef") or {}
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _claim_modes(claim: Object, now: float) -> str:
    return _modes_text(value_at(claim, "status.accessModes"))


def _phase(obj: Object, now: float) -> str:
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    return value_at(obj, "status.phase") or ""


_PHASE = Column("Status", _phase, description="Whether volume and claim have found each other.")
_CLASS = column("StorageClass", "spec.storageClassName", "Its storage class.", missing="")
_ATTRIBUTES_CLASS = column(
    "VolumeAttributesClass",
    "spec.volumeAttributesClassName",
    "Its volume attributes class.",
    missing="<unset>",
)
_VOLUME_MODE = column("VolumeMode", "spec.volumeMode", "Filesystem or Block.", wide=True)

PERSISTENT_VOLUME = Resource(
    group="",
    version="v1",
    kind="PersistentVolume",
    plural="persistentvolumes",
    namespaced=False,
    shown_deleted=True,
    short_names=("pv",),
    status=True,
    idle=True,
    columns=(
        column("Capacity", "spec.capacity.storage", "Its size.", missing=""),
        Column(
            "Access Modes",
            lambda volume, now: _modes_text(value_at(volume, "spec.accessModes")),
            description="How it may be mounted.",
        ),
        column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", "What follows a release."),
        _PHASE,
        Column("Claim", _claim_of, description="Whose it is."),
        _CLASS,
        _ATTRIBUTES_CLASS,
        column("Reason", "status.reason", "Why it failed.", missing=""),
        AGE,
        _VOLUME_MODE,
    ),
    default=_default_volume,
    validate=validates("core.v1.PersistentVolume", _validate_volume),
    validate_update=_validate_volume_update,
)

PERSISTENT_VOLUME_CLAIM = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    shown_deleted=True,
    short_names=("pvc",),
    status=True,
    idle=True,
    columns=(
        _PHASE,
        column("Volume", "spec.volumeName", "The volume it has got.", missing=""),
        column("Capacity", "status.capacity.storage", "That volume's size.", missing=""),
        Column("Access Modes", _claim_modes, description="How it may be mounted."),
        _CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    default=default_claim,
    validate=validates("core.v1.PersistentVolumeClaim", _validate_claim),
    validate_update=_validate_claim_update,
)


def _default_class(storage_class: Object) -> None:
    fill(storage_class, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def _validate_class(storage_class: Object) -> Errors:
    yield from one_of("reclaimPolicy", storage_class.get("reclaimPolicy"), ("Delete", "Retain"))
    yield from one_of("volumeBindingMode", storage_class.get("volumeBindingMode"), _BINDING)


def _validate_class_update(storage_class: Object, old: Object) -> list[FieldError]:
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [
        forbidden_field(field, f"updates to {field} are forbidden.")
        for field in fixed
        if storage_class.get(field) != old.get(field)
    ]


STORAGE_CLASS = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    shown_deleted=True,
    short_names=("sc",),
    idle=True,
    columns=(
        name_or_default(_DEFAULT_CLASS),
        column("Provisioner", "provisioner", "Who makes the volumes."),
        column("ReclaimPolicy", "reclaimPolicy", "What follows a release."),
        column("VolumeBindingMode", "volumeBindingMode", "When claims get volumes."),
        column("AllowVolumeExpansion", "allowVolumeExpansion", "May grow.", missing="false"),
        AGE,
    ),
    default=_default_class,
    validate=validates("storage.v1.StorageClass", _validate_class),
    validate_update=_validate_class_update,
)


def _same_spec(obj: Object, old: Object) -> list[FieldError]:
    return list(immutable("spec", obj.get("spec"), old.get("spec")))


VOLUME_ATTACHMENT = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttachment",
    plural="volumeattachments",
    namespaced=False,
    shown_deleted=True,
    status=True,
    idle=True,
    columns=(
        column("Attacher", "spec.attacher", "Who attaches it."),
        column("PV", "spec.source.persistentVolumeName", "The volume.", missing=""),
        column("Node", "spec.nodeName", "Where to."),
        column("Attached", "status.attached", "Whether it is.", missing="false"),
        AGE,
    ),
    default=lambda attachment: fill(child(attachment, "status"), {"attached": False}),
    validate=validates("storage.v1.VolumeAttachment"),
    validate_update=_same_spec,
)


def _default_driver(driver: Object) -> None:
    spec: dict[str, Any] = child(driver, "spec")
    fill(spec, {"attachRequired": True, "podInfoOnMount": False, "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": False,
                "seLinuxMount": False})  # fmt: skip
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


CSI_DRIVER = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSIDriver",
    plural="csidrivers",
    namespaced=False,
    shown_deleted=True,
    idle=True,
    columns=(
        column("AttachRequired", "spec.attachRequired", "Needs an attach operation."),
        column("PodInfoOnMount", "spec.podInfoOnMount", "Is told of the pod."),
        column("StorageCapacity", "spec.storageCapacity", "Reports what is free."),
        Column(
            "TokenRequests",
            lambda driver, now: ",".join(
                item.get("audience", "") for item in value_at(driver, "spec.tokenRequests") or ()
            ) or "<unset>",
            description="Audiences of the tokens that it gets.",
        ),
        column("RequiresRepublish", "spec.requiresRepublish", "Is called again and again."),
        column("Modes", "spec.volumeLifecycleModes", "Persistent, Ephemeral."),
        AGE,
    ),
    default=_default_driver,
    validate=validates("storage.v1.CSIDriver"),
)  # fmt: skip

CSI_NODE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSINode",
    plural="csinodes",
    namespaced=False,
    shown_deleted=True,
    idle=True,
    columns=(count("Drivers", "spec.drivers", "Drivers on the node."), AGE),
    validate=validates("storage.v1.CSINode"),
)

CSI_STORAGE_CAPACITY = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    idle=True,
    columns=(
        column("StorageClassName", "storageClassName", "The storage class."),
        column("Capacity", "capacity", "What is free.", missing="<unset>"),
    ),
    validate=validates("storage.v1.CSIStorageCapacity"),
    validate_update=lambda obj, old: [
        *immutable("nodeTopology", obj.get("nodeTopology"), old.get("nodeTopology")),
        *immutable("storageClassName", obj.get("storageClassName"), old.get("storageClassName")),
    ],
)


VOLUME_ATTRIBUTES_CLASS = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    namespaced=False,
    shown_deleted=True,
    short_names=("vac",),
    idle=True,
    columns=(column("DriverName", "driverName", "Whose attributes these are.", missing=NONE), AGE),
    validate=validates("storage.v1.VolumeAttributesClass"),
    validate_update=lambda obj, old: [
        *immutable("driverName", obj.get("driverName"), old.get("driverName")),
        *immutable("parameters", obj.get("parameters"), old.get("parameters")),
    ],
)
