# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Follows the recipes of CONTRIBUTING.md in a copy of the tree, and tests what comes of them.

recipes.py SOURCE_ROOT [--keep FOLDER] -- COMPILER [FLAGS]    --keep: the copy is made there, and stays

- The blocks of the section Adding are taken from the page itself. The first line of one names its file: `// PATH` is a
  new file; `// PATH, behind: TEXT`, `before: TEXT` and `instead of: TEXT` go where the one line with TEXT is. PARTS says
  what each recipe must have.
- The commands of the section are run, which write umbrellas and pages; rules.py finds nothing to complain of.
- The tests that the recipes add or add to are compiled as one program, with all warnings, and each of them runs.
- The misuses that they add do not compile, and the compiler says why.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1]).resolve()
PLACES = (str(root), str(pathlib.Path(sys.argv[1]).absolute()))
sys.path.append(str(root / 'tests/support'))
import passed  # noqa: E402
from checks import ends  # noqa: E402

PAGE = 'CONTRIBUTING.md'
SPDX = ('SPDX-FileCopyrightText: The Trireme authors', 'SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception')
COPIED = ('include', 'tests', 'docs', 'examples', 'bench', PAGE, 'README.md', 'CHANGELOG.md', 'LICENSE')
SCRIPTS = ('tests/kernels/table.py', 'tests/docs/reference.py', 'tests/compile_fail/page.py')
BLOCK = re.compile(r'^```(\w+)\n(.*?)^```$', re.M | re.S)
FIRST_LINE = re.compile(r'(?://|#) ([\w./]+)(?:, (before|behind|instead of): (.+))?$')
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror']
INCLUDED = 'include/trireme/trireme.hpp include/trireme/fwd.hpp'

# What the blocks of each recipe write, by the beginnings of paths.
PARTS = {
    'An elementwise function': 'include/trireme/kernels/activation_functions.hpp include/trireme/kernels/portable/activation.hpp '
                               'include/trireme/layer/activation.hpp include/trireme/fwd.hpp tests/kernels/ tests/layer/',
    'A layer and its kernels': 'include/trireme/layer/ include/trireme/kernels/reference/ include/trireme/kernels/portable/ '
                               'include/trireme/kernels/blocks/ tests/kernels/ tests/layer/ ' + INCLUDED,
    'An optimizer': 'include/trireme/optimizer/ include/trireme/kernels/reference/ include/trireme/kernels/portable/ '
                    'include/trireme/kernels/blocks/ tests/optimizer/ ' + INCLUDED,
    'A strategy': 'include/trireme/schedule/collective/ tests/schedule/ tests/support/strategies.hpp ' + INCLUDED,
    'A schedule': 'include/trireme/schedule/pipeline/schedules/ include/trireme/schedules.hpp '
                  'include/trireme/schedule/pipeline/named.hpp tests/schedule/named_schedules.cpp tests/trainer/',
    'A transport': 'include/trireme/trainer/ include/trireme/trireme.hpp include/trireme/trainer/policies.hpp tests/trainer/ '
                   'tests/docs/reference.py',
    'A device': 'include/trireme/device/ include/trireme/rehearsal.hpp tests/rehearsed/ tests/docs/reference.py',
    'A policy': 'include/trireme/trainer/policies.hpp include/trireme/trainer/trainer_policies.hpp include/trireme/fwd.hpp '
                'tests/trainer/',
    'An error code': 'include/trireme/trainer/trainer_rules.hpp tests/compile_fail/',
}
# What a recipe must say in its blocks, so that it does not become shorter than it can honestly be.
SAYS = {
    'A layer and its kernels': ('parameter_count', 'check_gradients<', 'backward_weights', 'same_in_every_order'),
    'An optimizer': ('state_per_parameter = 1', 'has_one_devices_bits<'),
    'A strategy': ('proved_for<',),
    'A schedule': ('verify(', '== wanted'),
    'A transport': ('transport_traits', 'TEST_CASE_TEMPLATE_INVOKE(promise'),
    'A device': ('accelerator<', 'TEST_CASE_TEMPLATE_INVOKE(promise'),
    'A policy': ('using kind', 'policy_or<'),
    'An error code': ('static_assert(rule_holds', 'namespace tri'),
}


class recipe:
    """A subsection of the page: its title, and its blocks as (line, path, how, where, text)."""

    def __init__(self, title, begin, text):
        self.title, self.blocks, self.commands, self.faults = title, [], [], []
        for found in BLOCK.finditer(text):
            line = begin + text.count('\n', 0, found.start()) + 1
            if found[1] == 'sh':
                self.commands += [re.sub(r'\s+#.*', '', one) for one in found[2].splitlines()]
                continue
            first, _, rest = found[2].partition('\n')
            named = FIRST_LINE.match(first)
            if not named:
                self.faults.append(f'{PAGE}:{line}: the first line of a block names its file: // PATH, or // PATH, behind: TEXT')
            else:
                self.blocks.append((line, named[1], named[2], named[3], rest))

    def lacks(self):
        """What is missing, in sentences."""
        paths, text = [block[1] for block in self.blocks], '\n'.join(block[4] for block in self.blocks)
        for part in PARTS[self.title].split():
            if not any(path.startswith(part) for path in paths):
                yield f'{PAGE}, "{self.title}": the recipe has lost the block that writes {part}{"..." if part.endswith("/") else ""}'
        for word in SAYS.get(self.title, ()):
            if word not in text:
                yield f'{PAGE}, "{self.title}": no block of the recipe says {word} any more'


def recipes_of(page):
    """The recipes of the section Adding, and what stands before the first one."""
    begin = page.index('\n## Adding\n') + 1
    end = page.find('\n## ', begin)
    section = page[begin:end if end != -1 else None]
    at = [found.start() for found in re.finditer(r'^### ', section, re.M)]
    for start, stop in zip([0, *at], [*at, len(section)]):
        text = section[start:stop]
        yield recipe(re.sub(r'^#+ ', '', text.split('\n', 1)[0]), page.count('\n', 0, begin + start), text)


def write(top, line, path, how, where, text):
    """Puts a block into the copy. Returns a complaint, or nothing."""
    file, at = top / path, f'{PAGE}:{line}'
    if not how:
        if file.exists():
            return f'{at}: {path} is there already: choose another name, or say where in it the block goes'
        mark = '#' if path.endswith('.py') else '//'
        head = [f'{mark} {words}' for words in SPDX] + (['#pragma once', ''] if path.endswith('.hpp') else [])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('\n'.join([*head, text]), encoding='utf-8')
        return None
    if not file.exists():
        return f'{at}: there is no {path}, into which the block goes'
    lines = file.read_text(encoding='utf-8').split('\n')
    places = [i for i, one in enumerate(lines) if where in one]
    if len(places) != 1:
        return f'{at}: {len(places)} lines of {path} have the text "{where}", not one'
    new = text.rstrip('\n').split('\n')
    begin, stop = {'before': (0, 0), 'behind': (1, 1), 'instead of': (0, 1)}[how]
    if how == 'before' and len(new) > 1:
        new.append('')
    lines[places[0] + begin:places[0] + stop] = new
    file.write_text('\n'.join(lines), encoding='utf-8')
    return None


def copy_tree(top):
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, top / name, ignore=shutil.ignore_patterns('__pycache__', 'results'))
        else:
            shutil.copy(root / name, top / name)


def run(top, command, seconds=600):
    return subprocess.run(command, cwd=top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          timeout=seconds, check=False, env={**os.environ, 'LC_ALL': 'C', 'PYTHONDONTWRITEBYTECODE': '1'})


def about(done, most=4000):
    return done.stdout.strip()[:most]


def tested(top, recipes, command):
    """Compiles and runs the tests of the recipes. Complaints are returned."""
    files = list(dict.fromkeys(block[1] for one in recipes for block in one.blocks
                               if re.match(r'tests/(?!compile_fail/).*\.cpp$', block[1])))
    build = top / 'build'
    build.mkdir()
    several = build / 'recipes.cpp'
    several.write_text('#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n' +
                       ''.join(f'#include <{path.removeprefix("tests/")}>\n' for path in files), encoding='utf-8')
    program = build / 'recipes'
    done = run(top, [*command, '-O0', *WARNINGS, f'-I{top / "tests"}', str(several),
                     str(top / 'tests/support/allocation_hook.cpp'), '-o', str(program), '-pthread', '-lz'])
    if done.returncode != 0:
        return [f'{PAGE}: the tests of the recipes do not compile:\n' + about(done).replace(f'{top}/', '')]
    done = run(top, [str(program)])
    if done.returncode != 0:
        return [f'{PAGE}: the tests of the recipes fail:\n' + about(done).replace(f'{top}/', '')]
    ran = run(top, [str(program), '--list-test-suites']).stdout
    return [f'{path}: none of its test cases ran' for path in files
            if f'{path.removeprefix("tests/").removesuffix(".cpp")}\n' not in ran]


def misused(top, recipes, command):
    """The misuses of the recipes, by the script of all. Complaints are returned."""
    for path in dict.fromkeys(block[1] for one in recipes for block in one.blocks
                              if block[1].startswith('tests/compile_fail/') and block[1].endswith('.cpp')):
        done = run(top, [sys.executable, 'tests/compile_fail/run.py', path, '--', *command])
        if done.returncode != 0:
            yield f'{path}:\n' + about(done)


def followed(top, recipes, command):
    """Follows the recipes in the copy. Complaints are returned, those of the first step that has any."""
    copy_tree(top)
    for place in PLACES: # the headers of the copy, not those of the tree
        command = [word.replace(place, str(top)) for word in command]
    if faults := [fault for one in recipes for block in one.blocks if (fault := write(top, *block))]:
        return faults
    for line in (line for one in recipes for line in one.commands):
        words = shlex.split(line)
        if words[0] != 'python3' or words[1] not in SCRIPTS:
            return [f'{PAGE}: the command "{line}" is not one of those that a recipe needs: {", ".join(SCRIPTS)}']
        done = run(top, [sys.executable, *words[1:]])
        if done.returncode != 0 or done.stdout.strip():
            return [f'{PAGE}: after all recipes, {line} says:\n' + about(done)]
    done = run(top, [sys.executable, 'tests/headers/rules.py', '.'])
    if done.returncode != 0:
        return [f'{PAGE}: after all recipes, tests/headers/rules.py says:\n' + about(done)]
    return tested(top, recipes, command) or list(misused(top, recipes, command))


def main():
    split = sys.argv.index('--')
    command = sys.argv[split + 1:]
    keep = pathlib.Path(sys.argv[3]).resolve() if sys.argv[2] == '--keep' else None
    page = (root / PAGE).read_text(encoding='utf-8')
    recipes = list(recipes_of(page))
    titles = [one.title for one in recipes]
    faults = [fault for one in recipes for fault in one.faults]
    faults += [f'{PAGE}: the recipe "{title}" is gone' for title in PARTS if title not in titles]
    faults += [f'{PAGE}, "{one.title}": tests/docs/recipes.py does not know this recipe: give it an entry in PARTS'
               for one in recipes if one.blocks and one.title not in PARTS]
    faults += [fault for one in recipes if one.title in PARTS for fault in one.lacks()]
    commands = '\n'.join(line for one in recipes for line in one.commands)
    faults += [f'{PAGE}: no block of commands runs {script} any more' for script in SCRIPTS if script not in commands]
    known = passed.passed(passed.version_of(command), *(word.replace(PLACES[0], '.').replace(PLACES[1], '.') for word in command), page,
                          *(part for name in ('include', 'tests', 'docs') for path in sorted((root / name).rglob('*'))
                            if path.is_file() and path.suffix != '.pyc'
                            for part in (path.relative_to(root), path.read_bytes())))
    if not faults and (keep or not known.knows()):
        with tempfile.TemporaryDirectory() as folder:
            faults = followed(keep or pathlib.Path(folder), recipes, command)
        if not faults:
            known.note()
    return ends(faults, len(PARTS))


if __name__ == '__main__':
    sys.exit(main())
