# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of the house that no compiler checks: who may include whom, and how a header looks.

rules.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# A floor may use the floors named here, and what those may use. core uses only the standard library.
FLOORS = {
    'core': [],
    'schedule': ['core'],
    'device': ['core'],
    'kernels': ['device'],
    'group': ['device'],
    'collective': ['schedule', 'group'],
    'layer': ['kernels'],
    'optimizer': ['kernels'],
    'parallel': ['collective', 'layer', 'optimizer'],
    'data': ['device'],
    'trainer': ['parallel', 'data'],
}
# A kind of device names the kernels that it runs by default, and no other header of its floor uses what stands on it.
NAMES_KERNELS = re.compile(r'trireme/device/\w+/device\.hpp')
UMBRELLA = 'trireme/trireme.hpp'
# The others, which add to it what a machine may not have, and fwd.hpp; they may include it and one another.
UMBRELLAS = [UMBRELLA, 'trireme/cuda.hpp', 'trireme/fwd.hpp', 'trireme/logs.hpp', 'trireme/mpi.hpp', 'trireme/nccl.hpp',
             'trireme/onednn.hpp', 'trireme/processes.hpp', 'trireme/readers.hpp', 'trireme/reference.hpp', 'trireme/rehearsal.hpp',
             'trireme/schedules.hpp', 'trireme/weights.hpp', 'trireme/checkpoints.hpp']
# What needs more than the host's compiler.
NEEDS_NVCC = ('trireme/cuda.hpp', 'trireme/device/cuda/', 'trireme/kernels/cuda', 'trireme/nccl.hpp', 'trireme/group/transport/nccl',
              'trireme/collective/on_streams/nccl', 'trireme/trainer/nccl')
NEEDS_MPI = ('trireme/mpi.hpp', 'trireme/group/transport/mpi/', 'trireme/trainer/mpi')
NEEDS_ONEDNN = ('trireme/onednn.hpp', 'trireme/kernels/onednn')
APART = NEEDS_NVCC + NEEDS_MPI + NEEDS_ONEDNN
# What no umbrella holds: what draws for people.
NOT_IN_UMBRELLA = ('trireme/schedule/draw.hpp', 'trireme/schedule/pipeline/draw.hpp',
                   'trireme/schedule/svg_text.hpp')
# Families of kernels, and devices, that no layer may know of: overload resolution finds the kernels.
FAMILIES = re.compile(r'kernels/(?:reference|portable|blocks|channels_last|onednn|cuda)\b|channels_last_kernels|'
                      r'blocks/|block_kernels|onednn|portable|cuda|accelerator|\bremote\b|\bstreams\b|\bGPUs?\b', re.I)
# Lines that a layer must not have, of which the rule sees each, and lines that it may have.
NAMES_A_FAMILY = '''
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/cuda/policy.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/reference/linear.hpp>
template<accelerator_kernels K> void forward(K const&);
return !kernels::remote && !description.adds_to_loss;
if constexpr (remote(k)) return;
bool stores_gradients = false; ///< its kernels of streams store gradients
static void forward(block_kernels<Stream> const& k);
if constexpr (std::is_same_v<K, portable>) return;
/// In oneDNN's layout.
/// On a GPU it is faster.
'''
NAMES_NONE = '''
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/kernels/views.hpp>
inline double normal(random_stream const& r, std::uint64_t i);
std::uint32_t last_channels = 1; ///< of its input, if it lies channels last
if constexpr (keeps_channels_last<Kernels>) return;
'''
# What a kernel takes is laid out by two compilers, and they disagree on this attribute (tests/headers/cuda_arguments.py).
TAKEN_BY_KERNELS = ('include/trireme/device/', 'include/trireme/kernels/', 'include/trireme/collective/on_streams/')
NOT_FOR_KERNELS = 'no_unique_address'
# A comment is about what its first words name: none of these names anything.
NAMES_NOTHING = re.compile(r"(?i)(This|That|These|Those|Its?|They|Their|He|She|We|You|What|Who|Whose|Which|Where|When|"
                           r"Whether|How|The same|Such|Everyone|Nobody|Somebody|Here|There)\b")
COMMENT = re.compile(r'///?')
MARKS = ('///', '//') # of headers
MARKS_OF_OTHERS = ('///',) # a note within a function of a program or test may begin as it likes
# Blocks that the rule about first words must refuse, an empty line behind each, and comments that it must not refuse.
HIDES_ITS_SUBJECT = '''
/// What a rank calls.
using call = int;

    /// Whether all ranks have it.
    bool all();

/// The same on threads, and in
/// a second line.

// How ranks keep in step.

        // who sees one of these sees the number, too
        for (;;) {}

int a = 0; ///< of a rank
/// Its last role goes back.

int a = 0; // of a rank
// This process has all ranks.

// A note.
/// Where values lie.
'''
NAMES_ITS_SUBJECT = '''
/// A rank calls
/// what it likes.
// A rank calls what
// it likes.
// ---- what a rank calls ----
// - What: an item
int a = 0; // what a rank calls
           // when it begins
int b = 0; ///< what a rank calls
           ///< when it begins
           /// where it ends
int c = 0;
///< its place
/// Thistle, Itself, Whatever: other words.
char const* d = "https://what";
'''
LICENCE = ['// SPDX-FileCopyrightText: The Trireme authors',
           '// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception']
MOST_LINES = 500          # of a header
MOST_LINES_OF_TEST = 600
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def floors_of(folder):
    """The folder and every floor below it."""
    below = {folder}
    for floor in FLOORS[folder]:
        below |= floors_of(floor)
    return below


def includes(path):
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def first_include(path):
    """The header that `path` includes before anything else is said, or nothing."""
    for line in path.read_text(encoding='utf-8').splitlines():
        if found := INCLUDE.match(line):
            return found[2]
        if line.strip() and not line.startswith(('//', '#pragma once')):
            return ''
    return ''


def check_text(path, name):
    raw = path.read_bytes()
    try:
        lines = raw.decode('ascii').splitlines()
    except UnicodeDecodeError as error:
        yield f'{name}: byte {error.start} is not ASCII'
        return
    if lines[:2] != LICENCE:
        yield f'{name}:1: the first two lines must be the two SPDX lines'
    if path.suffix == '.hpp' and '#pragma once' not in lines[:3]:
        yield f'{name}:3: #pragma once must follow the SPDX lines'
    most = MOST_LINES_OF_TEST if str(name).startswith('tests/') else MOST_LINES
    if len(lines) > most:
        yield f'{name}: {len(lines)} lines, at most {most}'
    for number, line in enumerate(lines, 1):
        if '\t' in line:
            yield f'{name}:{number}: a tab'
        if NOT_FOR_KERNELS in line and name.startswith(TAKEN_BY_KERNELS):
            yield f'{name}:{number}: {NOT_FOR_KERNELS}: nvcc and the compiler of the host lay such members out differently'
        if line != line.rstrip():
            yield f'{name}:{number}: space at the end of the line'
    if not raw.endswith(b'\n'):
        yield f'{name}:{len(lines)}: no newline at the end'


def comment_of(line):
    """A line's mark of a comment, its column, and whether nothing stands before it; ('', -1, False) without."""
    found = COMMENT.search(line)
    return (found[0], found.start(), not line[:found.start()].strip()) if found else ('', -1, False)


def check_comments(lines, name, marks):
    """A block begins on a line that is all comment; below another comment in its column, the line goes on with that."""
    before = ('', -1)
    for number, line in enumerate(lines, 1):
        mark, column, alone = comment_of(line)
        if alone and mark in marks and (mark, column) != before:
            if found := NAMES_NOTHING.match(line[column + len(mark):].lstrip()):
                yield f'{name}:{number}: a comment begins with "{found[0]}": begin with what it is about'
        before = mark, column


def check_directions(path, name, headers):
    parts = name.split('/')
    folder = parts[1] if len(parts) > 2 else None
    if folder is None and name not in UMBRELLAS:
        yield f'{name}: only the umbrellas lie outside the folders: {", ".join(UMBRELLAS)}'
        return
    if folder is not None and folder not in FLOORS:
        yield f'{name}: {folder} is no floor of the house; it has {", ".join(FLOORS)}'
        return
    for number, mark, target in includes(path):
        at = f'{name}:{number}'
        if not target.startswith('trireme/'):
            if mark == '"':
                yield f'{at}: write "trireme/..." in full, not "{target}"'
            continue
        if target not in headers:
            yield f'{at}: {target} does not exist'
        elif target in UMBRELLAS:
            if folder is not None or name == UMBRELLA:
                yield f'{at}: no header may include an umbrella, unless it is one that adds to {UMBRELLA}'
        elif folder is not None and target.split('/')[1] not in floors_of(folder):
            if NAMES_KERNELS.fullmatch(name) and target.startswith('trireme/kernels/'):
                continue
            allowed = ', '.join(sorted(floors_of(folder)))
            yield f'{at}: {folder} may not use {target.split("/")[1]} (it may use {allowed})'


def check_family_names(text, name):
    for number, line in enumerate(text.splitlines(), 1):
        if found := FAMILIES.search(line):
            yield f'{name}:{number}: "{found[0]}": layers name no family of kernels and no kind of device'


def check_control():
    """The rules about families and about first words see what they are there for."""
    lines = NAMES_A_FAMILY.strip().splitlines()
    for line in lines:
        if not list(check_family_names(line, '')):
            yield f'tests/headers/rules.py: the rule about families of kernels does not see: {line}'
    yield from check_family_names(NAMES_NONE, 'tests/headers/rules.py: NAMES_NONE')
    for block in HIDES_ITS_SUBJECT.strip('\n').split('\n\n'):
        if len(list(check_comments(block.splitlines(), '', MARKS))) != 1:
            yield f'tests/headers/rules.py: the rule about first words does not see: {block}'
        if ('///' in block) != bool(list(check_comments(block.splitlines(), '', MARKS_OF_OTHERS))):
            yield f'tests/headers/rules.py: the rule about first words takes one mark for the other: {block}'
    yield from check_comments(NAMES_ITS_SUBJECT.splitlines(), 'tests/headers/rules.py: NAMES_ITS_SUBJECT', MARKS)


def reached(headers, start):
    seen, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in headers and name not in seen:
            seen.add(name)
            waiting += [target for _, _, target in includes(headers[name])]
    return seen


def check(root):
    yield from check_control()
    top = root / 'include'
    headers = {path.relative_to(top).as_posix(): path for path in sorted(top.rglob('*.hpp'))}
    for name, path in headers.items():
        yield from check_text(path, 'include/' + name)
        yield from check_comments(path.read_text(encoding='utf-8').splitlines(), 'include/' + name, MARKS)
        yield from (f'include/{fault}' for fault in check_directions(path, name, headers))
    for name in sorted(set(headers) - set().union(*(reached(headers, umbrella) for umbrella in UMBRELLAS))):
        if not name.startswith(NOT_IN_UMBRELLA):
            yield f'include/{name}: no umbrella reaches it ({", ".join(UMBRELLAS)})'
    for floor in FLOORS:
        if not any(name.startswith(f'trireme/{floor}/') for name in headers):
            yield f'tests/headers/rules.py: the floor {floor} has no header in include/trireme/{floor}'
    for umbrella in UMBRELLAS:
        for name in sorted(reached(headers, umbrella)) if not umbrella.startswith(APART) else ():
            if name.startswith(APART):
                yield f'include/{umbrella}: it reaches {name}, which needs more than the compiler of the host'
    for name, path in headers.items():
        if name.startswith('trireme/layer/'):
            yield from (f'include/{fault}' for fault in check_family_names(path.read_text(encoding='utf-8'), name))
    for folder in ('tests', 'examples', 'bench'):
        for path in sorted((root / folder).rglob('*')):
            if path.suffix in ('.cpp', '.hpp', '.cu'):
                name = path.relative_to(root).as_posix()
                yield from check_text(path, name)
                yield from check_comments(path.read_text(encoding='utf-8').splitlines(), name, MARKS_OF_OTHERS)


if __name__ == '__main__':
    faults = list(check(pathlib.Path(sys.argv[1])))
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)
