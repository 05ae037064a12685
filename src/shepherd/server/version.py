"""The version that the API answers with: of the Kubernetes API it speaks, and our own."""

import platform

from shepherd import __version__

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": f"v1.37.0+shepherd.{__version__}",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": platform.python_implementation().lower(),
    "platform": f"linux/{platform.machine().replace('x86_64', 'amd64')}",
}
