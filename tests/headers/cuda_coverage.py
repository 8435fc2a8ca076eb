# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every template of the headers for accelerators is compiled for GPUs by some test.

cuda_coverage.py SOURCE_ROOT -- PROGRAM...

A template that nobody instantiates is hardly looked at by nvcc. So this lists the templates of those headers that do
something: block programs and what they apply, kernels (functions that take a kernel policy), and classes. Each must have
a name in one of the programs, which are compiled without inlining. A parameter called T must have been float and double,
one of type bool true and false.
"""
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks  # noqa: E402

FOLDERS = ('kernels/blocks/', 'kernels/cuda/', 'device/cuda/', 'collective/on_streams/', 'group/transport/peer',
           'group/transport/nccl', 'trainer/stream_', 'trainer/nccl')
POLICIES = ('block_kernels', 'kernels_with_libraries', 'with_function', 'values_as', 'cuda_library_kernels',
            'cuda_block_kernels', 'cuda_kernels')
SPELLED_OUT = {'cuda_library_kernels': 'kernels_with_libraries<true>', 'cuda_kernels': 'kernels_with_libraries<false>'}
CLOSING = {'(': ')', '{': '}', '[': ']', '<': '>'}
NOT_THE_NAME = ('__launch_bounds__', 'alignas', 'decltype', 'requires', 'noexcept', 'explicit')

# What a header looks like whose templates nobody instantiates, and what must be said of it.
CONTROL = '''
namespace trireme::blocks {
template<class F> /* struct not_this */ struct no_program { F f; };
template<class A, class T> struct idle_program { TRIREME_HOST_DEVICE void phase(int, block_place) const { if (1) {} } };
template<> struct idle_program<int, int> {};
}
namespace trireme::detail { template<class T> class private_thing {}; }
namespace trireme {
template<class T> inline constexpr bool flag = sizeof(T) > 4;
template<class X> concept some = requires(X x) { x.f(); };
template<class G, class Stream, class T>
    requires(sizeof(T) > 2)
void idle_forward(block_kernels<Stream> const& k, T const* x) { }
template<class Stream> void declared_only(block_kernels<Stream> const&);
template<class T> [[nodiscard]] int helper(T x) { return x < 1 ? 2 : 3; }
template<class T, bool B> class idle_class : base<T> { };
}
'''
CONTROL_NAMES = ['trireme::blocks::idle_program', 'trireme::idle_forward', 'trireme::idle_class']


def plain(text):
    """Without comments, strings and directives."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', ' ', text, flags=re.M)
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', '""', text)


def end_of(text, begin):
    """Behind the bracket that closes the one at `begin`."""
    opening, closing = text[begin], CLOSING[text[begin]]
    depth, i = 0, begin
    while i < len(text):
        if text[i] in '({[' and text[i] != opening:  # what is in other brackets does not count
            i = end_of(text, i)
            continue
        depth += (text[i] == opening) - (text[i] == closing and text[i - 1:i + 1] != '->')
        i += 1
        if depth == 0:
            return i
    return len(text)


def split(arguments):
    """The arguments of a list, which commas part."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(arguments):
        depth += (c in '(<[{') - (c in ')]}' or (c == '>' and arguments[i - 1:i + 1] != '->'))
        if c == ',' and depth == 0:
            parts.append(arguments[begin:i].strip())
            begin = i + 1
    return parts + [arguments[begin:].strip()]


class Template:
    def __init__(self, name, parameters, first):
        self.name, self.first = name, first  # first: type of the first parameter of a function, up to its arguments
        self.parameters = [re.sub(r'\s*=.*', '', p, flags=re.S).split() for p in split(parameters)]


def templates(text):
    """The templates at namespace scope that have to be instantiated."""
    text = plain(text)
    namespaces, i = [], 0
    while i < len(text):
        if found := re.compile(r'\s*(?:inline\s+)?namespace\b([\w:\s]*)\{').match(text, i):
            namespaces.append(found[1].strip())
            i = found.end()
        elif found := re.compile(r'\s*template\s*(?=<)').match(text, i):
            begin, i = found.end(), end_of(text, found.end())
            parameters = text[begin + 1:i - 1]
            head, body = i, None
            while i < len(text) and text[i] not in '{;':
                i = end_of(text, i) if text[i] in '([' else i + 1
            declared = text[head:i]
            if text[i:i + 1] == '{':
                body = text[i:end_of(text, i)]
                i += len(body)
            where = '::'.join(n for n in namespaces if n)
            if parameters.strip() and body is not None and '' not in namespaces and 'detail' not in where.split('::'):
                if template := required(where, parameters, declared, body):
                    yield template
        elif text[i] == '{':
            i = end_of(text, i)
        elif text[i] == '}':
            namespaces.pop()
            i += 1
        else:
            i += 1


def function_name(declared):
    """A function's name, and where the bracket behind it opens."""
    i = 0
    while (opening := declared.find('(', i)) >= 0:
        name = re.search(r'(\w+)\s*$', declared[i:opening])
        if name and name[1] not in NOT_THE_NAME:
            return name[1], opening
        i = end_of(declared, opening)
    return None, 0


def required(where, parameters, declared, body):
    """A Template, or None for what need not be instantiated by itself: constants, data, plain functions, aliases."""
    if found := re.match(r'\s*(struct|class)\s+(?:alignas\s*\([^;{]*?\)\s+)?(\w+)\s*(.?)', declared, re.S):
        keyword, name, behind = found.groups()
        acts = keyword == 'class' or re.search(r'\bphase\s*\(|\boperator\s*\(\s*\)', body)
        return Template(f'{where}::{name}', parameters, None) if acts and behind != '<' else None
    name, opening = function_name(declared)
    if name is None or '=' in declared[:opening] or re.search(r'\bconcept\b', declared):
        return None
    first = split(declared[opening + 1:end_of(declared, opening) - 1])[0]
    policy = re.match(r'(?:\w+::)*(\w+)', first)
    is_kernel = '__global__' in declared
    if not is_kernel and not (policy and policy[1] in POLICIES):
        return None
    own = '|'.join(re.escape(p.split()[-1]) for p in split(parameters)) # where the function's own parameters begin
    first = re.split(rf'\b(?:{own})\b', first)[0]
    for short, full in SPELLED_OUT.items():
        first = re.sub(rf'\b{short}\b', full, first)
    return Template(f'{where}::{name}', parameters, None if is_kernel else first.split(' const')[0].strip())


def instantiations(template, symbols):
    """The template arguments of each."""
    for line in symbols:
        at = -1
        while (at := line.find(template.name + '<', at + 1)) >= 0:
            begin = at + len(template.name)
            end = end_of(line, begin)
            if at > 0 and (line[at - 1].isalnum() or line[at - 1] in '_:'):
                continue
            if template.first is not None:
                parameters = re.sub(r'\btrireme::(?:\w+::)*', '', line[end:])
                if not parameters.startswith('(' + re.sub(r'\b\w+::', '', template.first)):
                    continue
            yield split(line[begin + 1:end - 1])


def missing(template, symbols):
    """What is not there, in words; nothing if all is."""
    found = list(instantiations(template, symbols))
    if not found:
        return ['is not instantiated']
    faults = []
    for place, parameter in enumerate(template.parameters):
        wanted = {('class', 'T'): ('float', 'double'), ('typename', 'T'): ('float', 'double')}.get(
            tuple(parameter), ('true', 'false') if parameter[0] == 'bool' else ())
        have = {arguments[place] for arguments in found if place < len(arguments)}
        faults += [f'is not instantiated with {parameter[-1]} = {value}' for value in wanted if value not in have]
    return faults


def remedy(header):
    if 'nccl' in header:
        return 'tests/collective/nccl.cu or tests/cuda/nccl.cu'
    if header.startswith(('collective/', 'group/')):
        return 'tests/cuda/peer.cu'
    if header.startswith(('trainer/', 'layer/')):
        return 'tests/cuda/promises.cu'
    if header.startswith('device/'):
        return 'tests/device/cuda/runtime.cu'
    return 'tests/kernels/cuda/kernels.cu, or a file of tests/cuda'


def main():
    root, programs = pathlib.Path(sys.argv[1]), sys.argv[sys.argv.index('--') + 1:]
    symbols = set()
    for program in programs:
        listed = subprocess.run(['nm', '--demangle', '--defined-only', program], capture_output=True, text=True,
                                errors='replace')
        if listed.returncode != 0:
            sys.exit(f'{program}: nm cannot list its symbols: {listed.stderr.strip()}')
        symbols |= {line.split(' ', 2)[-1] for line in listed.stdout.splitlines() if 'trireme::' in line}

    checks = Checks()
    control = [t.name for t in templates(CONTROL) if missing(t, symbols)]
    if control != CONTROL_NAMES:
        checks.expect(False, f'the control: of templates that nobody instantiates, these are seen: {control}')
    top = root / 'include' / 'trireme'
    for path in sorted(top.rglob('*.hpp')):
        header = path.relative_to(top).as_posix()
        if not header.startswith(FOLDERS):
            continue
        if 'nccl' in header and not any('nccl' in program for program in programs):
            continue  # NCCL is not on this machine
        for template in templates(path.read_text(encoding='utf-8')):
            faults = missing(template, symbols)
            by = f' by a function of {template.first}' if template.first else ''
            checks.expect(not faults, '\n'.join(
                f'include/trireme/{header}: {template.name}{by} {fault} by a test for GPUs: use it in ' + remedy(header)
                for fault in faults))
    checks.end()


if __name__ == '__main__':
    main()
