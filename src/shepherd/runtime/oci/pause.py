"""The program of process 1 in a PID namespace that a pod's containers share.

It sleeps for ever and lets the kernel reap orphans (SIGCHLD ignored with SA_NOCLDWAIT). A static
program of 200 bytes, written here as machine code, needs no image, no libc and 4 KiB of memory; it
also is what the probe of `probe` creates.
"""

import json
import platform
import struct
from pathlib import Path

_LOAD_ADDRESS = 0x400000
_ELF_HEADER_BYTES, _PROGRAM_HEADER_BYTES = 64, 56

# struct kernel_sigaction: SIG_IGN, SA_NOCLDWAIT, no restorer, no mask
_SIGACTION = struct.pack("<QQQQ", 1, 2, 0, 0)


def _x86_64() -> bytes:
    return bytes.fromhex(
        "b80d000000"  # mov eax, 13       rt_sigaction(
        "bf11000000"  # mov edi, 17         SIGCHLD,
        "488d3517000000"  # lea rsi, [rip+23]   the struct behind the code,
        "31d2"  # xor edx, edx        0,
        "41ba08000000"  # mov r10d, 8         8)
        "0f05"  # syscall
        "b822000000"  # mov eax, 34       for ever: pause()
        "0f05"  # syscall
        "ebf7"  # jmp -9
        "90909090"
    )


def _aarch64() -> bytes:
    def move(register: int, value: int) -> int:
        return 0xD2800000 | value << 5 | register

    call, nop = 0xD4000001, 0xD503201F
    address_of_struct = 0x10000000 | (48 >> 2) << 5 | 1  # adr x1, +48
    back = 0x14000000 | (-6 & 0x3FFFFFF)
    words = [
        move(8, 134), move(0, 17), address_of_struct, move(2, 0), move(3, 8), call,
        move(8, 73), move(0, 0), move(1, 0), move(2, 0), move(3, 0), call,  # ppoll: wait for ever
        back, nop,
    ]  # fmt: skip
    return struct.pack(f"<{len(words)}I", *words)


def program() -> bytes:
    """The executable for this machine. Raises KeyError for a processor it does not know."""
    code, machine = {"x86_64": (_x86_64, 62), "aarch64": (_aarch64, 183)}[platform.machine()]
    body = code() + _SIGACTION
    start = _ELF_HEADER_BYTES + _PROGRAM_HEADER_BYTES
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = identity + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, _LOAD_ADDRESS + start, _ELF_HEADER_BYTES, 0, 0,
        _ELF_HEADER_BYTES, _PROGRAM_HEADER_BYTES, 1, 0, 0, 0,
    )  # fmt: skip
    size = start + len(body)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    return header + load + body


def write_bundle(bundle: Path, cgroup: str, namespaces: dict[str, str]) -> None:
    """An OCI bundle of the program, without any right, in these namespaces (kind to path, or empty
    for a new one)."""
    for folder in ("dev", "proc"):
        (bundle / "rootfs" / folder).mkdir(parents=True)
    executable = bundle / "rootfs" / "pause"
    executable.write_bytes(program())
    executable.chmod(0o755)
    joined = [
        {"type": kind, "path": path} if path else {"type": kind}
        for kind, path in {"mount": "", **namespaces}.items()
    ]
    spec = {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/pause"], "cwd": "/"},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"cgroupsPath": cgroup, "namespaces": joined},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
