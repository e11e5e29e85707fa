"""The environment names versions and the machine, and nobody."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import sys
from pathlib import Path

import polysemy
from polysemy.core.environment import environment


def test_it_has_versions_machine_and_seed_and_is_json():
    found = json.loads(json.dumps(environment(7)))
    assert found["packages"]["polysemy"] == polysemy.__version__
    assert found["seed"] == 7
    assert found["cores"] >= 1
    assert found["python"].startswith("3.")


def test_it_has_no_name_of_a_user_host_or_home():
    text = json.dumps(environment())
    values = [v for v in json.loads(text).values() if isinstance(v, str)]
    assert not any(getpass.getuser() == v or socket.gethostname() in v for v in values)
    assert str(Path.home()) + "/" not in text
    assert str(Path(polysemy.__file__).parent) not in text


def test_core_does_not_import_torch():
    code = (
        "import sys, polysemy, polysemy.core.run, polysemy.core.budget; "
        "polysemy.core.run.environment(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
