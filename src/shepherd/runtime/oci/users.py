"""Who a container runs as: pure, from the image's `passwd` and `group` files."""

from dataclasses import dataclass

from shepherd.runtime.base import ContainerConfig, SheepError


@dataclass(frozen=True, slots=True)
class ResolvedUser:
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def _entries(text: str, fields: int) -> list[list[str]]:
    lines = (line.split(":") for line in text.splitlines())
    return [line for line in lines if len(line) >= fields and line[2].isdigit()]


def resolve(config: ContainerConfig, image_user: str, passwd: str, group: str) -> ResolvedUser:
    """The pod's user, else the image's (`user[:group]`, names or numbers), else root.

    Raises SheepError (CreateContainerConfigError) for a name the image does not know, and for root
    where the pod demands otherwise.
    """
    name, _, group_name = image_user.partition(":")
    if config.run_as_user is not None:
        name = str(config.run_as_user)
        group_name = ""
    if config.run_as_group is not None:
        group_name = str(config.run_as_group)
    entry = _find_user(name or "0", passwd)
    uid = int(entry[2]) if entry else _number(name or "0", "user")
    if group_name:
        gid = _group_number(group_name, group)
    else:
        gid = int(entry[3]) if entry and entry[3].isdigit() else 0
    if config.run_as_non_root and uid == 0:
        message = "container has runAsNonRoot and image will run as root"
        raise SheepError("CreateContainerConfigError", message)
    groups = set(config.supplemental_groups)
    if entry:
        members = (line for line in _entries(group, 4) if entry[0] in line[3].split(","))
        groups |= {int(line[2]) for line in members}
    home = entry[5] if entry and len(entry) > 5 and entry[5] else "/"
    return ResolvedUser(uid, gid, tuple(sorted(groups | {gid})), home)


def _find_user(name: str, passwd: str) -> list[str] | None:
    for line in _entries(passwd, 4):
        if name in (line[0], line[2]):
            return line
    return None


def _group_number(name: str, group: str) -> int:
    for line in _entries(group, 3):
        if line[0] == name:
            return int(line[2])
    return _number(name, "group")


def _number(text: str, what: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 2**31:
        return int(text)
    message = f"unable to find {what} {text}: no such entry in the image's files"
    raise SheepError("CreateContainerConfigError", message)
