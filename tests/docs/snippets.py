# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the documentation shows code that is compiled and tested, and that its links lead somewhere.

snippets.py SOURCE_ROOT

- Each block of C++, CMake, Meson, make, ini, JSON or Python of README.md and of the pages of docs (but errors.md, which
  is written by tests/compile_fail/page.py) follows a line `<!-- snippet: NAME -->` and equals, less its indentation, a
  region of tested code: "// [NAME]" to "// [/NAME]" in tests/docs or a header of examples (those of docs/clusters.md: in tests/mpi and
  tests/processes; of NCCL: in tests/cuda; those of docs/concepts: in tests/concepts), or, if NAME is the path of an
  example or of a consumer's project, that file less the comments that it begins with. Each region is shown.
- A line `<!-- results: FILE TEXT ... -->` is followed by what `bench/plot FILE --table --only TEXT ...` prints.
- Relative links of the documentation lead to files that exist, and to headings that do.
- A page that begins with a numbered table of contents names all of its chapters there, in their order.
"""
import difflib
import pathlib
import re
import subprocess
import sys
import textwrap

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import ends  # noqa: E402

MARK = re.compile(r'^<!-- snippet: (\S+) -->$')
LINK = re.compile(r'\]\(([^)\s]+)\)')


def regions(path):
    """The marked regions of a source file, by name, and complaints about the marks."""
    found, faults, name, lines = {}, [], None, []
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        begins, ends = re.match(r'\s*// \[([\w.-]+)\]$', line), re.match(r'\s*// \[/([\w.-]+)\]$', line)
        at = f'{path.name}:{number}'
        if begins:
            if name or begins[1] in found:
                faults.append(f'{at}: region {begins[1]} begins twice, or inside of {name}')
            name, lines = begins[1], []
        elif ends:
            if ends[1] != name:
                faults.append(f'{at}: region {ends[1]} ends, but {name} is open')
            found[ends[1]], name = textwrap.dedent('\n'.join(lines)).strip('\n'), None
        elif name:
            lines.append(line)
    return found, faults + ([f'{path.name}: region {name} does not end'] if name else [])


def blocks(path):
    """Each block of code of a page: its line, its name (None without a mark) and its text."""
    before, kind, lines, start = '', None, [], 0
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        if kind is None and line.startswith('```'):
            kind, lines, start, mark = line[3:].strip(), [], number, MARK.match(before)
        elif kind is not None and line.startswith('```'):
            if kind in ('cpp', 'cmake', 'meson', 'make', 'ini', 'json', 'python'):
                yield start, mark and mark[1], '\n'.join(lines)
            kind = None
        elif kind is not None:
            lines.append(line)
        before = line


def named(root, pattern):
    return [path.relative_to(root).as_posix() for path in sorted(root.glob(pattern))]


def check_snippets(root):
    wanted = {}
    for source in (*named(root, 'tests/docs/*.cpp'), *named(root, 'examples/*.hpp'), 'tests/docs/gpu.cu', 'tests/cuda/nccl.cu', 'tests/mpi/ranks.cpp', 'tests/mpi/stages.cpp', 'tests/mpi/nccl.cu',
                   'tests/processes/trainer.cpp', *named(root, 'tests/concepts/*.cpp')):
        found, faults = regions(root / source)
        yield from faults
        wanted |= found
    shown = set()
    for page in ('README.md', 'docs/guide.md', 'docs/schedules.md', 'docs/pipelines.md', 'docs/gpu.md', 'docs/clusters.md', 'docs/packages.md',
                 *named(root, 'docs/concepts/*.md')):
        for line, name, text in blocks(root / page):
            if name is None:
                yield f'{page}:{line}: a block of code needs <!-- snippet: NAME --> in the line above'
                continue
            if '/' in name and (root / name).is_file():
                shown.add(name)
                source = (root / name).read_text(encoding='utf-8')
                begin = r'^#include' if name.endswith('.cpp') else r'^[^#\n]'
                tested = source[re.search(begin, source, flags=re.M).start():].strip('\n')
            elif name in wanted:
                tested = wanted[name]
                shown.add(name)
            else:
                yield f'{page}:{line}: there is no region {name} in tests/docs'
                continue
            if text != tested:
                yield f'{page}:{line}: the block is not the tested code of {name}:\n' + '\n'.join(
                    difflib.unified_diff(text.split('\n'), tested.split('\n'), page, name, lineterm=''))
    if 'examples/first.cpp' not in shown:
        yield 'README.md: the first listing, examples/first.cpp, is missing'
    for name in sorted(set(wanted) - shown):
        yield f'tests/docs: no page shows the region {name}'


def check_results(root):
    for page in sorted((root / 'docs').rglob('*.md')):
        text = page.read_text(encoding='utf-8')
        for found in re.finditer(r'^<!-- results: (\S+)((?: \S+)*) -->\n((?:\|.*\n)*)', text, flags=re.M):
            only = ['--only', *found[2].split()] if found[2] else []
            measured = subprocess.run([sys.executable, str(root / 'bench/plot'), str(root / found[1]), '--table', *only],
                                      capture_output=True, text=True)
            if measured.returncode or not found[3] or measured.stdout != found[3]:
                yield (f'{page.name}: the table is not that of {found[1]}{found[2]}; it is\n{measured.stdout}'
                       f'{measured.stderr}')


def anchors(page):
    """The names that a forge gives to the headings of a page."""
    text = re.sub(r'^```.*?^```', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)
    for heading in re.findall(r'^#+ (.*)$', text, flags=re.M):
        yield re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')


def check_links(root):
    for page in [root / 'README.md', root / 'CONTRIBUTING.md', *sorted((root / 'docs').rglob('*.md'))]:
        name = page.relative_to(root).as_posix()
        raw = page.read_bytes()
        if not raw.isascii():
            yield f'{name}: not ASCII'
        for target in LINK.findall(re.sub(r'^```.*?^```', '', raw.decode(), flags=re.M | re.S)):
            if '://' in target:
                continue
            file, _, anchor = target.partition('#')
            there = page.parent / file if file else page
            if not there.exists():
                yield f'{name}: the link {target} leads nowhere'
            elif anchor and anchor not in anchors(there):
                yield f'{name}: the link {target} leads to no heading'


def check_contents(root):
    for page in sorted((root / 'docs').rglob('*.md')):
        text = re.sub(r'^```.*?^```', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)
        before, *chapters = re.split(r'^## ', text, flags=re.M)
        listed = re.findall(r'^\d+\. \[([^\]]+)\]\(#', before, flags=re.M)
        there = [chapter.partition('\n')[0] for chapter in chapters]
        if listed and listed != there:
            yield f'{page.name}: the table of contents is not that of the chapters:\n' + '\n'.join(
                difflib.unified_diff(listed, there, 'contents', 'chapters', lineterm='', n=1))


if __name__ == '__main__':
    top = pathlib.Path(sys.argv[1])
    complaints = [*check_snippets(top), *check_results(top), *check_links(top), *check_contents(top)]
    sys.exit(ends(complaints, 1))
