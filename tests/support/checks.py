# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that scripts count, the last line by which tests/summary.py counts them, and pages that scripts write."""
import difflib
import sys


class Checks:
    """Counts the checks that hold, and says the others."""
    def __init__(self):
        self.passed = self.failed = 0

    def expect(self, holds, what):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        if not holds:
            print(what, flush=True)

    def end(self):
        """The script ends: well if some checks have passed and none has failed."""
        print(f'{self.passed} passed, {self.failed} failed')
        sys.exit(1 if self.failed or not self.passed else 0)


def ends(faults, of):
    """Prints the faults and the counts, where `of` is the number of all checks; the exit code."""
    print('\n'.join([*faults, f'{max(0, of - len(faults))} passed, {len(faults)} failed']))
    return 1 if faults or not of else 0


def write_or_check(root, pages, faults, script):
    """Pages, texts by name, that `script` makes: they are written if there are no faults, or by --check compared with
    the files; the exit code."""
    faults = list(faults)
    if '--check' not in sys.argv:
        if faults:
            print('\n'.join(faults))
        for name, text in pages.items() if not faults else ():
            path = root / name
            if not path.is_file() or path.read_text(encoding='utf-8') != text:
                path.write_text(text, encoding='utf-8')
        return 1 if faults else 0
    for name, text in pages.items() if not faults else ():
        path = root / name
        old = path.read_text(encoding='utf-8') if path.is_file() else ''
        if old != text:
            faults.append('\n'.join([f'{name} is not what {script} writes; run it:', *difflib.unified_diff(
                old.split('\n'), text.split('\n'), name, 'written', lineterm='')]))
    return ends(faults, len(pages))


def lacks_fashion_mnist(said):
    """Whether a program has ended because the data set is not on this machine."""
    return 'fashion-mnist' in said and 'is not there' in said
