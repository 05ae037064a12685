"""The operator tests of our documentation, as a reader copies them.

kopf and kr8s against embedded clusters, in an environment that holds what pip brings with Shepherd
and nothing else of it.
"""

import re
import shutil
from pathlib import Path

from clients.install import BUILD, ROOT, venv
from clients.suite import Command, Suite

_PAGES = ("README.md", "docs/testing-operators.md")
_FILE = re.compile(r"<!-- (\w+\.py) -->\n```python\n(.*?)```", re.DOTALL)


def _python() -> Path:
    return venv("embedded", "pytest", "kopf", "kr8s", str(ROOT))


def _command(kubeconfig: Path) -> Command:
    folder = BUILD / "embedded" / "copied"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for page in _PAGES:
        for name, text in _FILE.findall((ROOT / page).read_text()):
            (folder / name).write_text(text)
    # What is installed may be older than what is here.
    return Command(_python(), folder, (), {"PYTHONPATH": str(ROOT / "src")})


SUITE = Suite("embedded", "kopf and kr8s as our documentation shows, embedded", _python, _command)
