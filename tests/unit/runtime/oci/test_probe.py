"""Which runtime runs the containers: the first that can, not the first that is there."""

from pathlib import Path

import pytest

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci.probe import probe

BROKEN = "#!/bin/sh\necho cannot set up cgroups here >&2; exit 1\n"
WORKING = "#!/bin/sh\necho runc version 1.1.5\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with programs of the test's own alone."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    install(path, "conmon", WORKING)
    return path


def install(path: Path, name: str, script: str) -> None:
    (path / name).write_text(script)
    (path / name).chmod(0o755)


def test_a_runtime_that_cannot_start_anything_here_is_passed_over(
    programs: Path, tmp_path: Path
) -> None:
    """Own finding: crun 1.8.1 on hybrid cgroups comes first in PATH and fails every pod."""
    install(programs, "crun", BROKEN)
    install(programs, "runc", WORKING)
    found = probe(tmp_path, tmp_path / "state", "/shepherd")
    assert (found.binary, found.version) == (str(programs / "runc"), "1.1.5")
    [problem] = found.problems
    assert problem == "crun cannot create a container here: cannot set up cgroups here"
    assert probe(tmp_path, tmp_path / "state", "/shepherd") == found
    install(programs, "crun", WORKING)
    assert probe(tmp_path, tmp_path / "state", "/shepherd").binary == str(programs / "crun")


def test_a_machine_where_none_works_is_told_what_to_do(programs: Path, tmp_path: Path) -> None:
    install(programs, "crun", BROKEN)
    with pytest.raises(SheepError, match="runc is not installed: apt-get install runc"):
        probe(tmp_path, tmp_path / "state", "/shepherd")
