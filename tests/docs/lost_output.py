# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An example says so if what it prints cannot be written.

lost_output.py PROGRAM ARGUMENTS...
"""
import sys

from checked_program import CheckedProgram

checked = CheckedProgram(sys.argv[1])
checked.tells_lost_output(*sys.argv[2:])
checked.end()
