# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A page of docs/ with pictures and a table that a program makes, between <!-- TAG --> and <!-- /TAG -->."""
import dataclasses
import pathlib
import re
import shlex


@dataclasses.dataclass
class gallery:
    root: pathlib.Path
    page: str         # 'docs/schedules.md'
    folder: str       # of its pictures, below docs/
    pattern: str      # of their names: others in the folder belong to other pages
    tag: str          # of the table

    def faults(self, pictures, table):
        """What is missing, left over, different or not shown; `pictures` are bytes by name."""
        there = {path.name: path for path in (self.root / 'docs' / self.folder).glob(self.pattern)}
        for name in sorted(pictures.keys() - there.keys()):
            yield f'docs/{self.folder}/{name} is missing'
        for name in sorted(there.keys() - pictures.keys()):
            yield f'docs/{self.folder}/{name} is left over'
        for name in sorted(there.keys() & pictures.keys()):
            if there[name].read_bytes() != pictures[name]:
                yield f'docs/{self.folder}/{name} differs from the schedule'
        text = (self.root / self.page).read_text(encoding='utf-8')
        if self.between().findall(text) != [table]:
            yield f'{self.page}: the table of {self.tag} differs from that of the schedules'
        for name in sorted(pictures):
            if f']({self.folder}/{name})' not in text:
                yield f'{self.page} does not show {self.folder}/{name}'

    def mend(self, pictures, table):
        folder, page = self.root / 'docs' / self.folder, self.root / self.page
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(self.pattern):
            path.unlink()
        for name, picture in pictures.items():
            (folder / name).write_bytes(picture)
        page.write_text(self.between().sub(lambda _: table, page.read_text(encoding='utf-8')), encoding='utf-8')

    def compare(self, arguments, pictures, table):
        """The faults, after they have been mended if the command line says so, and how to mend them."""
        if '--mend' in arguments:
            self.mend(pictures, table)
        faults = list(self.faults(pictures, table))
        if faults:
            script = self.root / 'tests/docs' / pathlib.Path(arguments[0]).name
            faults.append('to mend: ' + shlex.join(['python3', str(script), str(self.root), arguments[2], '--mend']))
        return faults

    def between(self):
        return re.compile(rf'(?<=^<!-- {self.tag} -->\n).*?(?=^<!-- /{self.tag} -->$)', re.M | re.S)
