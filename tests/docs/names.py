# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds names in the documentation that the tree does not have.

names.py SOURCE_ROOT

Checked are README.md, CONTRIBUTING.md, the unreleased part of CHANGELOG.md and the pages of docs: what stands in
backticks, in blocks that nothing compiles (sh, text, console), and words with an underscore anywhere. Blocks of C++,
CMake, Meson, make, ini, JSON and Python are the matter of snippets.py and errors.py.

- An identifier stands in the code of include, examples, tests, bench or a build file: not in a comment; in a string,
  if it is part of a sentence.
- A path leads to a file or folder, from the root, include, include/trireme or docs; the name of a program, to its
  source. NAME, FOLDER and the like stand for any name.
- A TRI code stands in a header. An option -DNAME= is Meson's or ours, a suite (--suite NAME) a test's.
- `sh SCRIPT NAME --flag`: the example or benchmark exists, and it or its script takes the flag; the flags of other
  commands stand in the tree.

FOREIGN has the names that are another project's, or that a page rejects; one that no page needs there is a fault, too.
"""
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import ends  # noqa: E402

FOREIGN = {
    'Meson and CMake': 'b_sanitize b_lundef --print-errorlogs CMAKE_PREFIX_PATH CMAKE_TOOLCHAIN_FILE CMAKE_BUILD_TYPE',
    'MPI, its launchers and networks': 'MPI_Win_allocate_shared --host --nodes --ntasks FI_PROVIDER',
    'TensorBoard': '--logdir',
    'package managers': '--confirm purge source_url source_hash sha256sum vcpkg_download_distfile --overlay-ports',
    'Linux and containers': 'memfd MADV_COLLAPSE process_vm_readv eth0 shareProcessNamespace',
    'what a compiler says': 'enclosed initializer',
    'forms of names': 'snake_case PascalCase',
    "a user's project": 'subprojects/trireme subprojects/trireme.wrap',
}
SOURCES = {'.hpp', '.cpp', '.cu', '.py', '.sh', '.build', '.txt', '.cmake', '.wrap', ''}
SKIPPED = ('tests/docs/names.py', 'bench/results/')
BUILD_FILES = ('meson.build', 'meson_options.txt')
CODE_FENCES = ('cpp', 'cmake', 'meson', 'make', 'ini', 'json', 'python')

WORD = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.M | re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
SPAN = re.compile(r'`([^`\n]+(?:\n[^`\n]+)?)`')
URL = re.compile(r'https?://[^\s)>]+')
LINK_TARGET = re.compile(r'\]\([^)\s]+\)')
MARK = re.compile(r'<!--.*?-->', re.S)
PATH_IN_CODE = re.compile(r'(?<![\w./<-])<?(?:\.\./)*[\w.*-]+(?:/[\w.*-]+)+/?')
PATH_IN_PROSE = re.compile(r'(?<![\w./-])[\w.-]+(?:/[\w.-]+)*\.(?:hpp|cpp|cu|py|sh|md|build)(?![\w-])')
NOT_OF_THE_TREE = re.compile(r'(?<![\w.>*])/[\w./-]+|\bbuild/[\w./-]+') # absolute, or made by a build
PLACEHOLDER = re.compile(r'(?<![A-Z])(?:NAME|FOLDER|FILE|DIR|FAMILY|LAYER)(?![A-Z])')
PATH_ENDS = re.compile(r'/$|\.(?:hpp|cpp|cu|py|sh|md|json|svg|txt|build)$')


def without_comments(path, text):
    """The code of a file, in which strings count, comments do not."""
    if path.suffix in ('.hpp', '.cpp', '.cu'):
        return re.sub(r'/\*.*?\*/|(?<![:"])//[^\n]*', '', text, flags=re.S)
    return re.sub(r'(?m)^\s*#.*$', '', text)


class Tree:
    """Names of the tree."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        for top in ('include', 'examples', 'tests', 'bench', *BUILD_FILES):
            for path in sorted((root / top).rglob('*')) if (root / top).is_dir() else [root / top]:
                name = path.relative_to(root).as_posix()
                if path.is_file() and path.suffix in SOURCES and not name.startswith(SKIPPED):
                    self.files[name] = without_comments(path, path.read_text(encoding='utf-8', errors='replace'))
        self.words = {word for text in self.files.values() for word in WORD.findall(text)}
        self.words |= {part for name in self.files for part in WORD.findall(name)}
        self.code = {word for text in self.files.values() for word in WORD.findall(STRING.sub('', text))}
        self.code |= {pathlib.PurePath(name).stem for name in self.files if re.fullmatch(r'examples/\w+\.cpp', name)}
        self.codes = {code for name, text in self.files.items() if name.startswith('include/')
                      for code in re.findall(r'TRI\d{4}', text)}
        self.options = set(re.findall(r"^option\('(\w+)'", self.files['meson_options.txt'], flags=re.M))
        self.suites = set(re.findall(r"suite: \[?'(\w+)'", self.files['tests/meson.build']))
        self.suites |= {name.split('/')[1] for name in self.files if name.startswith('tests/')} | {'blocks'}

    def has_path(self, text):
        pattern = re.sub(r'\*+', '*', PLACEHOLDER.sub('*', re.sub(r'^<?(\.\./)*', '', text).rstrip('/')))
        return any(next((self.root / top).glob(pattern + ending), None)
                   for top in ('', 'include', 'include/trireme', 'docs') for ending in ('', '.cpp'))

    def has_flag(self, flag, names):
        return any(re.search(re.escape(flag) + r'(?![\w-])', text)
                   for name, text in self.files.items() if not names or name.startswith(names))

    def shared_flags(self, name):
        """The headers with flags that the command line of an example shares with others."""
        return tuple('examples/' + header for header in re.findall(r'#include "((?:\w+_flags|flag_values)\.hpp)"',
                                                                   self.files.get(f'examples/{name}_flags.cpp', '')))


def command_of(tree, text):
    """The script of a command line, the files that take its flags, and what is wrong with the name behind it."""
    found = re.search(r'sh ((?:tests|examples|bench)/\w+\.sh)((?: [^\s`;#]+)*)', text)
    if not found:
        return None, (), None
    script, rest = found[1], found[2].split()
    name = next((word for word in rest[:1] if re.fullmatch(r'[a-z]\w*', word)), None)
    if script == 'examples/run.sh':
        name = name or 'lenet'
        files = (f'examples/{name}_flags', f'examples/{name}.', f'examples/{name}/', script, *tree.shared_flags(name))
        there = tree.files.keys() & {f'examples/{name}.cpp', f'examples/{name}/run.py'}
        return script, files, None if there else f'there is no example {name}'
    if script == 'bench/run.sh':
        files = (script, 'bench/harness.py', f'bench/{name}/')
        return script, files, (f'there is no benchmark {name}' if name and f'bench/{name}/bench.py' not in tree.files
                               else None)
    return script, (script, script[:-3] + '.py'), None


def code_of(page):
    """Each line of the page's code that nothing compiles, and its kind: span, or that of the block. Then its prose."""
    text = MARK.sub(lambda found: '\n' * found[0].count('\n'), page)
    for kind, body in FENCE.findall(text):
        if kind not in CODE_FENCES:
            yield from ((kind or 'text', line) for line in body.splitlines())
    prose = URL.sub('', FENCE.sub('', text))
    for span in SPAN.findall(prose):
        yield 'span', ' '.join(span.split())
    yield from (('prose', line) for line in LINK_TARGET.sub(']', SPAN.sub('', prose)).splitlines())


def names_of(tree, own, kind, text):
    """The names of a piece of code, each with what is wrong with it, or None. `own` are words of the page's C++."""
    for code in re.findall(r'TRI\d{4}', text):
        yield code, None if code in tree.codes else 'no header has this code'
    text = NOT_OF_THE_TREE.sub('', re.sub(r'TRI\d{4}', '', URL.sub('', text)))
    if kind == 'sh':
        text = re.sub(r'(^|\s)#.*$', '', text)
    if kind in ('sh', 'span', 'console'):
        script, files, fault = command_of(tree, text)
        if script:
            yield script, None if script in tree.files else 'there is no such script'
            if fault:
                yield text, fault
        for flag in re.findall(r'(?<![\w-])--[a-z][a-z-]+', text):
            yield flag, None if tree.has_flag(flag, files) else f'no such flag in {", ".join(files) or "the tree"}'
        for suite in re.findall(r'(?:--suite|--no-suite) (\w+)', text):
            yield suite, None if suite in tree.suites else 'there is no such suite'
        for option in re.findall(r'-D(\w+)=', text):
            yield option, None if option in tree.options else 'meson_options.txt has no such option'
        text = re.sub(r'-D\w+=\S*|(?<![\w-])--?[a-zA-Z][\w-]*(?:=\S+)?', '', text)
    for path in (PATH_IN_PROSE if kind == 'prose' else PATH_IN_CODE).findall(text):
        if PATH_ENDS.search(path) or kind == 'span' and not re.search(r'\s', text):
            yield path, None if tree.has_path(path) else 'there is no such path'
    text = PATH_IN_PROSE.sub('', PATH_IN_CODE.sub('', text))
    for word in WORD.findall(re.sub(r'"[^"]*"', '', text)):
        placeholder = len(word) < 3 or re.fullmatch(r'[A-Z][A-Z0-9]*', word)
        if not placeholder and (kind == 'span' or '_' in word.strip('_')):
            # a sentence may quote the text of an error, and variables of the environment are read by their text
            known = tree.words if ' ' in text or word.isupper() else tree.code
            begins = word.endswith('_') and any(other.startswith(word) for other in known)
            yield word, None if word in known or word in own or begins else 'the tree has no such name'


def check(root):
    tree = Tree(root)
    foreign = {word for words in FOREIGN.values() for word in words.split()}
    good, faults, needed = set(), [], set()
    pages = [root / name for name in ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md')]
    for path in [*pages, *sorted((root / 'docs').rglob('*.md'))]:
        page = path.read_text(encoding='utf-8')
        if path.name == 'CHANGELOG.md': # released versions speak of names that they had
            page = ''.join(part for part in re.split(r'^(?=## )', page, flags=re.M) if '(unreleased)' in part[:80])
        own = {word for language, body in FENCE.findall(page) if language == 'cpp' for word in WORD.findall(body)}
        for kind, text in code_of(page):
            for name, fault in names_of(tree, own, kind, text):
                if not fault:
                    good.add(name)
                elif name in foreign:
                    needed.add(name)
                else:
                    faults.append(f'{path.relative_to(root).as_posix()}: {name}: {fault}, in: {text.strip()[:100]}')
    faults += [f'tests/docs/names.py: no page needs {name} in FOREIGN any more' for name in sorted(foreign - needed)]
    return good | needed, list(dict.fromkeys(faults))


if __name__ == '__main__':
    names, complaints = check(pathlib.Path(sys.argv[1]))
    sys.exit(ends(complaints, len(names) + len(complaints)))
