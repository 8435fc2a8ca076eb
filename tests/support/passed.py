# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Remembers what a compiler has been found to do, as ccache does for what it makes: by all that the answer depends on.
Kept in the user's cache folder, so that a fresh clone finds it; CCACHE_DISABLE asks for nothing to be remembered."""
import hashlib
import os
import pathlib
import subprocess
import time

FOLDER = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'trireme' / 'passed'
DAYS = 30 # what nobody has asked for as long is forgotten


class passed:
    def __init__(self, *common):
        """`common`: strings and bytes that every answer depends on, the compiler's version among them."""
        self.common = hashlib.sha256()
        add(self.common, common)
        self.off = bool(os.environ.get('CCACHE_DISABLE'))

    def _file(self, parts):
        key = self.common.copy()
        add(key, parts)
        return FOLDER / key.hexdigest()

    def knows(self, *parts):
        """Whether a check that depends on these has passed before."""
        try:
            if not self.off:
                os.utime(self._file(parts))
                return True
        except OSError:
            pass
        return False

    def note(self, *parts):
        """A check that depends on these has passed."""
        try:
            if not self.off:
                FOLDER.mkdir(parents=True, exist_ok=True)
                self._file(parts).touch()
        except OSError:
            pass # then it is checked again

    @staticmethod
    def forget_old():
        """Removes what has not been asked for lately."""
        try:
            for file in FOLDER.iterdir():
                if file.stat().st_mtime < time.time() - DAYS * 86400:
                    file.unlink(missing_ok=True)
        except OSError:
            pass


def add(key, parts):
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        key.update(len(data).to_bytes(8, 'little') + data) # so that no two lists of parts look alike


def of(command, root, *parts):
    """What a compiler, with its flags, has been found to do of a tree, wherever that lies, and of these parts."""
    return passed(version_of(command), *versions_of_libraries(), *(word.replace(str(root), '.') for word in command), *parts)


def version_of(command):
    """What a compiler, the first words of a command, says of itself, and what it calls in the end."""
    words = 2 if pathlib.Path(command[0]).name == 'ccache' else 1
    asked = [command[:words], *([word.removeprefix('-ccbin=')] for word in command if word.startswith('-ccbin='))]
    return b''.join(subprocess.run([*words, '--version'], stdout=subprocess.PIPE, check=False).stdout for words in asked)


def versions_of_libraries():
    """The headers that say them, of the libraries that programs here include."""
    for name in ('doctest/doctest.h', 'CLI/Version.hpp', 'oneapi/dnnl/dnnl_version.h', 'zlib.h'):
        path = pathlib.Path('/usr/include', name)
        yield path.read_bytes() if path.is_file() else b''
    for path in sorted([*pathlib.Path('/usr/lib').glob('*/openmpi/include/mpi.h'),
                        *pathlib.Path('/usr/include').glob('*/mpich/mpi.h')]):
        yield path.read_bytes()
