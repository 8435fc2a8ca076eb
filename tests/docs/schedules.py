# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the pictures and the table of docs/schedules.md with those that examples/draw_schedules makes.

schedules.py SOURCE_ROOT DRAW_SCHEDULES [--mend]    --mend writes them

The pictures are docs/pictures/schedule-*.svg; the table stands between <!-- costs --> and <!-- /costs -->.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from gallery import gallery  # noqa: E402
from checks import ends  # noqa: E402


def drawn(program):
    """The pictures by name, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([program, folder], capture_output=True, text=True, timeout=300)
        if ran.returncode != 0:
            sys.exit(f'{program} ended with {ran.returncode}: {ran.stderr.strip()}')
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}, ran.stdout


root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
page = gallery(root, 'docs/schedules.md', 'pictures', 'schedule-*.svg', 'costs')
faults = page.compare(sys.argv, *drawn(program))
sys.exit(ends(faults, 1))
