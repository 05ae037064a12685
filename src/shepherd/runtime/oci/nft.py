"""nft scripts, run in process by libnftables (4 ms instead of 24 by the program, which reads the
whole ruleset anew each time), else by the program."""

import contextlib
import ctypes
import ctypes.util
import subprocess
import threading


class NftError(Exception):
    """nftables refused; the message is its own."""


class Nft:
    """Runs scripts in the network namespace of the thread that runs the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None
        self._context: ctypes.c_void_p | None = None
        with contextlib.suppress(OSError):
            self._library = _bind(ctypes.CDLL("libnftables.so.1"))

    def run(self, script: str) -> None:
        """All of it or nothing. Raises NftError. Blocks: call it in a thread."""
        with self._lock:
            if self._library is None:
                _run_program(script)
            else:
                self._run_in_process(self._library, script)

    def _run_in_process(self, library: ctypes.CDLL, script: str) -> None:
        if self._context is None:
            self._context = ctypes.c_void_p(library.nft_ctx_new(0))
            library.nft_ctx_buffer_error(self._context)
        if library.nft_run_cmd_from_buffer(self._context, script.encode()):
            message = library.nft_ctx_get_error_buffer(self._context)
            raise NftError((message or b"nft failed").decode(errors="replace").strip())

    def close(self) -> None:
        with self._lock:
            if self._library is not None and self._context is not None:
                self._library.nft_ctx_free(self._context)
                self._context = None


def _bind(library: ctypes.CDLL) -> ctypes.CDLL:
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_free.argtypes = [ctypes.c_void_p]
    library.nft_ctx_free.restype = None
    library.nft_ctx_buffer_error.argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    return library


def _run_program(script: str) -> None:
    try:
        done = subprocess.run(
            ["nft", "-f", "-"], input=script, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise NftError("nft is not installed: apt-get install nftables") from error
    if done.returncode:
        raise NftError(done.stderr.strip())
