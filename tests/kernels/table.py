# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is generated from the folders of include/trireme/kernels: a header for each family, which includes all of its
kernels, and docs/kernels.md, which says what there is.

table.py SOURCE_ROOT           writes them
table.py SOURCE_ROOT --check   says what would change

A kernel is a function template whose first parameter is a policy. The families promise the same names and signatures;
where one lacks a kernel that it must have, or has it with other parameters, or no test calls it, the script says so.
The text of the page besides its tables is in tests/kernels/kernels.md.in; {NAME} there is the value of the constant of
that name in a policy's header, or a number that NUMBERS takes from an expression.
"""
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import ends, write_or_check  # noqa: E402

# The families, and those that what they do not overload comes from.
FAMILIES = {'reference': None, 'portable': None, 'blocks': None, 'channels_last': None, 'onednn': 'channels_last',
            'cuda': 'blocks'}
# What a policy is called as the first parameter of a kernel.
POLICIES = {'reference', 'portable', 'portable_with_scratch', 'portable_together', 'block_kernels',
            'onednn_kernels', 'kernels_with_libraries', 'cuda_library_kernels', 'with_function', 'K'}
ON_THE_HOST = ('reference', 'portable', 'channels_last')
# Functions that other kernels of their family are made of.
OWN = {'conv2d_scratch_bytes', 'conv2d_takes_narrow', 'linear_takes_narrow', 'add_bias', 'add_bias_gradient',
       'add_scores', 'add_channel_sums', 'add_channel_totals'}
# Families that have every kernel of the reference. The others have all kernels of a file, or not that file: those for
# libraries take what they do not overload from another family.
COMPLETE = ('portable', 'blocks')
# Kernels that a complete family has not, and why.
NOT_IN = {
    'blocks': {
        # A stream cannot give a number to the host in the middle of a step: sums_of_squares, norm_of_squares and
        # clip_values leave the norm in the accelerator's memory.
        'sum_of_squares', 'scale_values',
    },
}
# Kernels that streams alone need: a fork's gradient in one pass, samples and numbers on their way to and from the
# accelerator, the norm of gradients. The host does these in loops of its passes, so that there is no reference.
OF_STREAMS = {'add_gradients', 'add_into', 'convert_inputs', 'convert_tokens', 'round_values', 'update_running',
              'sums_of_squares', 'norm_of_squares', 'clip_values'}
# Parameters that kernels of streams take by address, and others as values: an update is part of a graph, which is made
# once, and reads the step's numbers when it runs.
BY_ADDRESS = re.compile(r'(\w+_numbers|uint64_t) const\*')
# Overloads beside the one with the reference's parameters: family, kernel, and what they take.
ALSO = {
    # The layer asks forward on streams to save the places of the maxima, a byte each, and backward reads no more of x.
    ('blocks', 'max_pool2d_backward_input'): 'uint8_t const*, number const*, number*',
}
# Kernels that no test calls by name, and the test of a layer or a training that compares them.
BY_LAYERS = {
    ('portable', 'learned_positions_forward'): 'tests/layer/tokens_golden.cpp: learned_positions',
    ('portable', 'learned_positions_backward_weights'): 'tests/layer/tokens_golden.cpp: learned_positions',
    ('portable', 'batch_norm_agree'): 'tests/layer/batch_norm.cpp: batch_norm<',
    ('portable', 'batch_norm_backward_agree'): 'tests/layer/batch_norm.cpp: backward_agree',
    ('portable', 'batch_norm_evaluate'): 'tests/layer/batch_norm.cpp: evaluate',
    ('blocks', 'add_gradients'): 'tests/rehearsed/fused.cpp: residual',
    ('blocks', 'update_running'): 'tests/rehearsed/fused.cpp: batch_norm',
}
# Where tests of a family lie, and what says that a file has some of it.
TESTS = {
    'portable': (r'tests/(?:kernels|optimizer)/\w+\.cpp', r'\bportable\b'),
    'blocks': (r'tests/(?:kernels|optimizer)/(?:blocks/)?\w+\.cpp', r'kernels/blocks/|\brehearsal'),
    'channels_last': (r'tests/onednn/kernels\.cpp', ''),
    'onednn': (r'tests/onednn/kernels\.cpp', ''),
    'cuda': (r'tests/kernels/cuda/\w+\.cu', ''),
}
# Numbers that choose a kernel and have no name: {NAME} is what `shown` makes of those that the expression has.
NUMBERS = {
    'winograd_channels': ('kernels/portable/winograd.hpp', r'G::channels >= (\d+) && G::out_channels >= \1 &&', '{0}'),
    'winograd_share': ('kernels/portable/winograd.hpp', r'&& (\d) \* 16 \* tiles <= (\d) \* taps;', '{1}/{0}'),
    'many_channels': ('kernels/portable/many_channels/conv2d_backward_weights.hpp',
                      r'return G::channels >= (\d+) && Lanes % blocks::width == 0', '{0}'),
    'many_channels_share': ('kernels/portable/many_channels/conv2d_backward_weights.hpp',
                            r'(\d) \* G::out_channels >= (\d) \* blocks::registers', '{1}/{0}'),
    'one_by_one': ('kernels/portable/policy.hpp', r'one_by_one = lanes<T> / (\d);', '1/{0}'),
    'tokens_together': ('kernels/sample_by_sample.hpp', r'tokens_together = (\d+),', '{0}'),
    'enough_tokens': ('kernels/sample_by_sample.hpp', r'enough_tokens = (\d+);', '{0}'),
    'narrow_share': ('layer/host_pass.hpp', r'if \(Narrow && left <= (\d) \* lanes / (\d)\)', '{0}/{1}'),
    'narrow_half': ('layer/host_pass.hpp', r'left > (\d) \* lanes / (\d+) \? lanes / 2 : lanes / 4', '{0}/{1}'),
    'narrow_few': ('layer/host_pass.hpp', r'few = Narrow \? lanes / (\d) :', '1/{0}'),
    'narrow_lanes': ('layer/host_pass.hpp', r'Network::whole_shard \|\| Lanes < (\d+) \|\|', '{0}'),
    'narrow_inputs': ('kernels/portable/linear.hpp',
                      r'G::inputs % 4 == 0 && G::inputs >= (\d+) \* (\d+);', '{0} * {1}'),
    'tensor_step': ('kernels/blocks/tensor_attention.hpp', r'G::head % (\d+) == 0 && G::head <= \d+;', '{0}'),
    'tensor_head': ('kernels/blocks/tensor_attention.hpp', r'G::head % \d+ == 0 && G::head <= (\d+);', '{0}'),
    'many_classes': ('kernels/blocks/softmax_cross_entropy.hpp',
                     r'conditional_t<\(Classes > (\d+)\), many_classes', '{0}'),
    'thread_classes': ('kernels/blocks/softmax_cross_entropy.hpp', r'width = Classes <= (\d+) \? 1 :', '{0}'),
    'team_of_classes': ('kernels/blocks/softmax_cross_entropy.hpp', r'Classes <= \d+ \? (\d+) : \d+;', '{0}'),
    'saved_window': ('layer/pool2d.hpp', r'place_is_a_byte = Side <= (\d+);', '{0}'),
    'row_threads': ('kernels/blocks/many_classes.hpp', r'u32 threads = (\d+), side', '{0}'),
    'row_bytes': ('kernels/blocks/many_classes.hpp', r'kept = turns \* sizeof\(vector\) <= (\d+);', '{0}'),
    'most_flops_beside': ('kernels/blocks/policy.hpp', r"most_flops_beside = ([\d']+);", '{0}'),
}
NUMBER_TYPES = ('T', 'A', 'float', 'double')
ENDINGS = re.compile(r'_(?:forward|backward_input|backward_weights|backward_gather|backward_agree|gather|agree|'
                     r'evaluate|momentum_update|nesterov_update|update|gradient|loss)$')
TEMPLATE = re.compile(r'^(?:template<[^;{}]*?>\n)?(?:    requires(?P<rule>[^;{}]*?)\n)?'
                      r'(?P<returns>(?:[\w:<>\[\]]+[ ])+)(?P<name>\w+)\(', re.M)
CLOSING = {'(': ')', '{': '}', '[': ']', '<': '>'}
LICENCE = ('// SPDX-FileCopyrightText: The Trireme authors\n'
           '// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#pragma once\n')

# Families with a fault of each kind, and what must be said of them: a script that sees no kernels finds no faults.
CONTROL = {
    'reference': {'reference/pool.hpp': '''
namespace trireme::inline TRIREME_ISA {
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void pool_forward(reference, T const* x, T* y) noexcept {
}
template<class G, std::size_t Lanes, class T>
void pool_backward_input(reference, T const* x, T const*, T const* dy, T* dx) noexcept {
}
template<class G, std::size_t Lanes, class T>
void pool_evaluate(reference k, T const* x, T share, T* y) {
}
} // namespace trireme
''', 'reference/descent.hpp': '''
template<class T>
TRIREME_NOINLINE void descent_update(reference, T* w, T const* g, std::size_t n, descent_numbers<T> k,
                                     std::uint64_t made) noexcept {
}
'''},
    'portable': {'portable/pool.hpp': '''
namespace trireme::detail::inline TRIREME_ISA {
template<class T>
void hidden_forward(portable, T const* x) {
}
} // namespace trireme::detail::inline TRIREME_ISA
template<class G, std::size_t Lanes, class T>
    requires(Lanes > 1)
TRIREME_NOINLINE void pool_forward([[maybe_unused]] portable policy, T const* x,
                                   T* y) noexcept {
}
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void pool_backward_inputs([[maybe_unused]] portable policy, T const* x, T const*, T const* dy, T* dx) {
}
''', 'portable/one_sample/pools.hpp': '''
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void pool_forward(portable, T const* x, T* y) {
}
''', 'portable/pool_evaluate.hpp': '''
template<class G, std::size_t Lanes, class T>
void pool_evaluate(portable, T const* TRIREME_RESTRICT x, double share, T* TRIREME_RESTRICT y) {
}
''', 'portable/descent.hpp': '''
template<class T>
void descent_update(portable, T* w, T const* g, std::size_t n, descent_numbers<T> const* k, std::uint64_t made) {
}
'''},
    'blocks': {'blocks/pool.hpp': '''
template<class G, std::size_t Lanes, class Stream, class A>
void pool_forward(block_kernels<Stream> const& k, A const* x, A* y) {
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void pool_forward(with_function<K, F, T> const& k, T const* x, T const* y) {
}
template<class G, std::size_t Lanes, class Stream, class T>
void pool_backward_input(block_kernels<Stream> const& k, T const* x, T const* dy, T* dx) {
}
template<class G, std::size_t Lanes, class Stream, class A, class T>
void pool_evaluate(block_kernels<Stream> const& k, A const* x, T share, A* y, std::uint8_t* places = nullptr) {
}
template<class Stream, class T>
void pool_elsewhere(block_kernels<Stream> const& k, T* x) {
}
template<class Stream, class T>
void pool_anywhere(block_kernels<Stream> const& k, T* x) {
}
''', 'blocks/descent.hpp': '''
template<class Stream, class T>
void descent_update(block_kernels<Stream> const& k, T* w, T const* g, std::size_t n,
                    descent_numbers<accumulate_t<T>> const* numbers, std::uint64_t const* made) {
}
'''},
    'channels_last': {'channels_last/pool.hpp': '''
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void pool_forward(K const& k, int const* x, A* y) {
}
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void pool_evaluate(K const& k, A const* x, float share, A* y) {
}
'''},
}
CONTROL_TESTS = {'tests/kernels/pool.cpp': 'pool_forward<G>(portable{}, x, y); pool_evaluate<G>(portable{}, x, 1, y);',
                 'tests/kernels/blocks/pool.cpp': '#include <trireme/kernels/blocks/pool.hpp>\n'
                                                  'pool_forward<G>(k, x, y); pool_evaluate(k, x, 1, y);\n'
                                                  'pool_backward_input(k, x, dy, dx);',
                 'tests/optimizer/descent.cpp': 'descent_update(portable{}, w, g, n, k, 0);',
                 'tests/onednn/kernels.cpp': 'check<pool<2>>();'}
CONTROL_NOT_IN = {'blocks': {'pool_forward'}}
CONTROL_OF_STREAMS = {'pool_elsewhere', 'pool_nowhere'}
CONTROL_ALSO = {('channels_last', 'pool_evaluate'): 'number const*, number, number*, int*',
                ('channels_last', 'pool_forward'): 'int const*, number*'}
CONTROL_BY_LAYERS = {('blocks', 'pool_anywhere'): 'tests/onednn/kernels.cpp: pool_anywhere',
                     ('blocks', 'pool_nowhere'): 'tests/onednn/kernels.cpp: pool'}
CONTROL_FAULTS = [
    'kernels/portable/pool_evaluate.hpp: pool_evaluate belongs in pool.hpp, where the reference has it',
    'kernels/portable/one_sample/pools.hpp: pool_forward belongs in pool.hpp, where the reference has it',
    'kernels/portable has no pool_backward_input, which kernels/reference/pool.hpp has',
    'kernels/portable/pool.hpp: pool_backward_inputs has no naive loops in kernels/reference to compare it with',
    'kernels/portable/descent.hpp: descent_update takes (number*, number const*, size_t, descent_numbers const*, '
    'uint64_t), and that of kernels/reference (number*, number const*, size_t, descent_numbers, uint64_t)',
    'kernels/blocks/pool.hpp: pool_forward takes (number const*, number const*), and that of kernels/reference '
    '(number const*, number*)',
    'kernels/blocks/pool.hpp: pool_backward_input takes (number const*, number const*, number*), and that of '
    'kernels/reference (number const*, number const*, number const*, number*)',
    'kernels/blocks/pool.hpp: pool_anywhere has no naive loops in kernels/reference to compare it with',
    'tests/kernels/table.py: NOT_IN says that blocks has no pool_forward, and it has',
    'tests/kernels/table.py: OF_STREAMS names pool_nowhere, which kernels/blocks has not',
    'kernels/channels_last/pool.hpp: no pool_forward takes (number const*, number*), as that of kernels/reference does',
    'tests/kernels/table.py: ALSO says that a pool_evaluate of channels_last takes (number const*, number, number*, '
    'int*), and none does',
    'tests/onednn/kernels.cpp: nothing of pool_anywhere there; tests/kernels/table.py says that it compares '
    'pool_anywhere of blocks',
    'tests/kernels/table.py: BY_LAYERS names pool_nowhere of blocks, which it has not',
    'kernels/channels_last has no pool_backward_input, which kernels/reference/pool.hpp has',
    'kernels/portable/pool.hpp: no test calls pool_backward_inputs',
    'kernels/blocks/descent.hpp: no test calls descent_update',
    'kernels/blocks/pool.hpp: no test calls pool_elsewhere',
]


def public_part(text):
    """Without what lies in namespaces for the library's own use."""
    return re.sub(r'^namespace trireme::(?:detail|blocks|cuda_runtime)\b.*?^\} // namespace.*?$', '', text,
                  flags=re.M | re.S)


def end_of(text, begin):
    """Behind the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == text[begin]) - (text[i] == CLOSING[text[begin]])
        if depth == 0:
            return i + 1
    return len(text)


def split(arguments):
    """The arguments of a list, which commas part."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(arguments):
        depth += (c in '(<[{') - (c in ')>]}')
        if c == ',' and depth == 0:
            parts.append(arguments[begin:i].strip())
            begin = i + 1
    return parts + [arguments[begin:].strip()]


def kind(parameter):
    """What a parameter is in any family: numbers that are read or written, a size, a struct."""
    parameter = re.sub(r'\[\[\w+\]\]|\bTRIREME_RESTRICT\b|=.*', '', parameter).strip()
    base = re.match(r'(?:\w+::)*(\w+)', parameter)[1]
    behind = parameter[re.match(r'(?:\w+::)*\w+', parameter).end():]
    pointer = (' const*' if re.search(r'\bconst\s*\*', behind) else '*') if '*' in behind else ''
    return ('number' if base in NUMBER_TYPES else base) + pointer + ('...' if '...' in behind else '')


class Overload:
    def __init__(self, file, policy, parameters, rule):
        self.file, self.policy, self.rule = file, policy, rule or ''  # file: from the folder of all families
        self.parameters = [kind(p) for p in parameters]
        self.needed = sum('=' not in p for p in parameters)  # those behind have a default

    def stem(self):
        return self.file.rsplit('/', 1)[-1].removesuffix('.hpp').removesuffix('_numbers')

    def takes(self, family):
        """What it must be given, as the reference has it."""
        by_value = family in ('blocks', 'cuda')
        return ', '.join(BY_ADDRESS.sub(r'\1', p) if by_value else p for p in self.parameters[:self.needed])


class Kernel:
    def __init__(self):
        self.overloads, self.fused = [], False  # fused: a function beside the layer can be part of it

    def file(self):
        return self.overloads[0].file

    def stem(self):
        return self.overloads[0].stem()


def kernels_in(files):
    """Name: the kernel that some headers of a family, text by path, have."""
    found = {}
    for path in sorted(files, key=lambda p: (p.count('/'), p)):
        text = re.sub(r'//[^\n]*', '', public_part(files[path]))
        for match in TEMPLATE.finditer(text):
            begin = match.end() - 1
            end = end_of(text, begin)
            first, *parameters = split(text[begin + 1:end - 1])
            policy = re.match(r'(?:\[\[\w+\]\]\s*)?(?:\w+::)*(\w+)', first)
            name = match['name']
            if policy is None or policy[1] not in POLICIES or name in OWN:
                continue
            kernel = found.setdefault(name, Kernel())
            kernel.overloads.append(Overload(path, policy[1], parameters, match['rule']))
            body = text[end:text.find('\n}\n', end)]
            kernel.fused |= policy[1] == 'with_function' or 'K::epilogue' in body
    return found


def headers_of(top, family):
    paths = sorted((top / family).rglob('*.hpp')) + (sorted(top.glob('*_numbers.hpp')) if family in ON_THE_HOST else [])
    return {path.relative_to(top).as_posix(): path.read_text(encoding='utf-8') for path in paths}


def umbrella(top, family):
    base = FAMILIES[family]
    files = sorted(p.relative_to(top).as_posix() for p in (top / family).glob('*.hpp'))
    included = [f'#include <trireme/kernels/{name}>' for name in ([f'{base}.hpp'] if base else []) + files]
    of = f'/// All kernels of the family {family}' + (f', and of {base} for what it does not overload' if base else '')
    return '\n'.join([LICENCE, f'{of}.\n/// Written by tests/kernels/table.py.\n', *included]) + '\n'


# ---- what is wrong ----

def faults(kernels, not_in, of_streams, also):
    """What the families' promise forbids: a kernel has one file, name and signature in all that must have it."""
    reference = kernels['reference']
    for family, of in kernels.items():
        if family == 'reference':
            continue
        for name, kernel in of.items():
            for overload in kernel.overloads:
                wanted = reference.get(name)
                if wanted is not None and overload.stem() != wanted.stem():
                    yield f'kernels/{overload.file}: {name} belongs in {wanted.stem()}.hpp, where the reference has it'
        files = {overload.stem() for kernel in of.values() for overload in kernel.overloads}
        for name, wanted in reference.items():
            if name in not_in.get(family, ()):
                if name in of:
                    yield f'tests/kernels/table.py: NOT_IN says that {family} has no {name}, and it has'
            elif name not in of and (family in COMPLETE or (wanted.stem() in files and FAMILIES[family] is None)):
                yield f'kernels/{family} has no {name}, which kernels/{wanted.file()} has'
        for name, kernel in of.items():
            if name not in reference and not (family in ('blocks', 'cuda') and name in of_streams):
                yield f'kernels/{kernel.file()}: {name} has no naive loops in kernels/reference to compare it with'
        for name, kernel in of.items():
            wanted = reference[name].overloads[0].takes('reference') if name in reference else None
            for overload in kernel.overloads:
                if wanted is not None and overload.takes(family) not in (wanted, also.get((family, name))):
                    yield (f'kernels/{overload.file}: {name} takes ({", ".join(overload.parameters)}), and that of '
                           f'kernels/reference ({wanted})')
            if wanted is not None and all(o.takes(family) == also.get((family, name)) for o in kernel.overloads):
                yield f'kernels/{kernel.file()}: no {name} takes ({wanted}), as that of kernels/reference does'
    for name in sorted(of_streams):
        if name not in kernels['blocks']:
            yield f'tests/kernels/table.py: OF_STREAMS names {name}, which kernels/blocks has not'
    for (family, name), takes in also.items():
        if not any(o.takes(family) == takes for o in kernels[family].get(name, Kernel()).overloads):
            yield f'tests/kernels/table.py: ALSO says that a {name} of {family} takes ({takes}), and none does'


def called_in(tests, family, name):
    """The tests that compare a family's kernel with something."""
    where, mark = TESTS[family]
    layer = ENDINGS.sub('', name)
    through_layers = family in ('channels_last', 'onednn')
    word = rf'\b{ {"activation": "relu"}.get(layer, layer) }\b' if through_layers else rf'\b{name}\s*[<(]'
    return [path for path, text in tests.items()
            if re.fullmatch(where, path) and re.search(mark, text) and re.search(word, text)]


def test_of(tests, family, name, stem):
    """The test for the table: if several call a kernel, the one that is called as its file."""
    if (family, name) in BY_LAYERS:
        return BY_LAYERS[family, name].split(': ')[0]
    found = called_in(tests, family, name)
    found.sort(key=lambda path: (pathlib.PurePath(path).stem != stem, 'channels_last' in path, path))
    return found[0] if found else None


def untested(kernels, tests, by_layers):
    for family in TESTS:
        for name, kernel in sorted(kernels.get(family, {}).items()):
            if (family, name) in by_layers:
                path, word = by_layers[family, name].split(': ')
                if word not in tests.get(path, ''):
                    yield (f'{path}: nothing of {word} there; tests/kernels/table.py says that it compares {name} '
                           f'of {family}')
            elif not called_in(tests, family, name) and '_numbers.' not in kernel.file():
                yield f'kernels/{kernel.file()}: no test calls {name}'
    for family, name in by_layers:
        if name not in kernels.get(family, {}):
            yield f'tests/kernels/table.py: BY_LAYERS names {name} of {family}, which it has not'


def blind():
    """What the script does not see in the control, or sees where nothing is."""
    planted = {family: kernels_in(CONTROL.get(family, {})) for family in FAMILIES}
    found = [*faults(planted, CONTROL_NOT_IN, CONTROL_OF_STREAMS, CONTROL_ALSO),
             *untested(planted, CONTROL_TESTS, CONTROL_BY_LAYERS)]
    for fault in CONTROL_FAULTS:
        if fault not in found:
            yield f'tests/kernels/table.py, the control: not seen: {fault}'
    for fault in found:
        if fault not in CONTROL_FAULTS:
            yield f'tests/kernels/table.py, the control: not there, but seen: {fault}'


# ---- the page ----

def dtypes(text):
    found = re.search(r'static constexpr bool computes =(.*?);', text, re.S)
    if not found:
        return 'f32, f64'
    said = found[1]
    names = ['f32, f64'] if 'is_floating_point' in said else ['f32'] if 'T, float' in said else []
    return ', '.join(names + (['bf16'] if 'bf16' in said else []))


class Policy:
    """What a policy that a trainer can be given says of itself."""

    def __init__(self, top, name, family, from_):
        header = (top / family / 'policy.hpp').read_text(encoding='utf-8')
        about = header[header.index(from_):] if from_ else header
        inherited = '' if family != 'cuda' else (top / 'blocks/policy.hpp').read_text(encoding='utf-8')
        layout = re.search(r'value_layout::(\w+)[;>]', about + inherited)
        fuses = re.search(r'fuses = fusion::(\w+)', header + inherited)
        self.name, self.family = name, family
        self.layout = layout[1].replace('_', ' ') if layout else 'interleaved'
        self.dtypes = dtypes(about if from_ else about + inherited)
        self.fuses = fuses[1].replace('_', ' ') if fuses else 'nothing'


def policies(top):
    return [Policy(top, *of) for of in (
        ('reference', 'reference', ''), ('portable', 'portable', ''), ('onednn', 'onednn', ''),
        ('block_kernels', 'blocks', ''), ('channels_last<K>', 'blocks', 'class channels_last'),
        ('cuda_kernels', 'cuda', ''))]


def families(of):
    """A row for each policy that a trainer can be given."""
    rows = [f'| `{p.name}` | {link(p.family, p.family)} | {p.layout} | {p.dtypes} | {p.fuses} |' for p in of]
    head = ['| policy | family | layout | computes in | fuses functions |', '| --- | --- | --- | --- | --- |']
    return '\n'.join(head + rows)


def row_of(kernels, name):
    """The layer, loss or optimizer that a kernel is about: its name without an ending, or its file."""
    stem = next(of[name] for of in kernels.values() if name in of).stem()
    return ENDINGS.sub('', name) if ENDINGS.search(name) and name not in (stem, 'add_gradients') else stem


def link(file, text):
    return f'[{text}](../include/trireme/kernels/{file})'


def layouts(names, of, policy, knows_layout):
    """How samples lie for a layer's kernels, as far as the overloads say it, with their dtypes."""
    overloads = [o for name in names if name in of for o in of[name].overloads]
    file = min((o.file for o in overloads), key=lambda f: '_numbers.' in f)
    if are_of_parameters(names):
        return f'{link(file, "parameters")}: {"f32, f64" if "f64" in policy.dtypes else "f32"}'
    dtype = policy.dtypes
    if all('size_t' in o.parameters for o in overloads):
        return f'{link(file, "any order")}: {dtype}'
    if policy.family != 'portable':
        layout = policy.layout if knows_layout or policy.family == 'reference' else 'plain'
        return f'{link(file, layout)}: {dtype}'
    said = {}
    for o in overloads:
        where = ('samples of few tokens' if o.policy == 'portable_together' else
                 'interleaved' if 'Lanes == 1' not in o.rule else 'one sample' if 'G::rows == 1' in o.rule else
                 'tokens of a sample' if 'G::rows > 1' in o.rule else 'one sample')
        said[where] = min(said.get(where, o.file), o.file, key=lambda f: '_numbers.' in f)
    return ', '.join(link(file, where) for where, file in said.items()) + f': {dtype}'


def layers(root, kernels, of_policies, tests):
    """A row for each layer, loss and optimizer: in which layouts and dtypes families compute it, and its tests."""
    texts = [path.read_text(encoding='utf-8') for path in sorted((root / 'include/trireme/layer').glob('*.hpp'))]
    knows = '\n'.join(text for text in texts if re.search(r'keeps_channels_last|place\.last_channels', text))
    rows = {}
    for name in sorted({name for of in kernels.values() for name in of}):
        rows.setdefault(row_of(kernels, name), []).append(name)
    rows = {row: names for row, names in rows.items() if not OF_STREAMS.issuperset(names)}
    lines = ['| layer, loss, optimizer | ' + ' | '.join(f'`{p.name}`' for p in of_policies) + ' | compared in |',
             '| --- |' + ' --- |' * (len(of_policies) + 1)]
    for row, names in sorted(rows.items()):
        aware = any(re.search(rf'\b{name}\b', knows) for name in names)
        cells = []
        at_once = kernels['channels_last'] | kernels['onednn']
        for p in of_policies:
            of = at_once if p.name == 'onednn' else kernels[p.family]
            if any(name in of for name in names):
                cells.append(layouts(names, of, p, aware))
            elif p.name == 'onednn' and (are_of_parameters(names) or is_a_loss(names)):
                cells.append('as `portable`: f32' if are_of_parameters(names) else '`portable`, sample by sample: f32')
            else:
                cells.append('as `block_kernels`' if p.name == 'cuda_kernels' else 'none')
        found = [test_of(tests, family, name, kernels[family][name].stem()) for family in TESTS for name in names
                 if name in kernels[family]]
        links = [f'[{p}](../{p})' for p in dict.fromkeys(found) if p]
        lines.append(f'| `{row}` | ' + ' | '.join(cells + [', '.join(links)]) + ' |')
    return '\n'.join(lines)


def are_of_parameters(names):
    return any(name.endswith('_update') or name == 'sum_of_squares' for name in names)


def is_a_loss(names):
    return any('cross_entropy' in name or name == 'value_loss' for name in names)


def table(kernels):
    stem = {name: kernel.stem() for of in reversed(kernels.values()) for name, kernel in of.items()}
    lines = ['| kernel | ' + ' | '.join(kernels) + ' |', '| --- |' + ' --- |' * len(kernels)]
    for name in sorted(stem, key=lambda n: (stem[n], n)):
        cells = []
        for family, of in kernels.items():
            kernel = of.get(name)
            cells.append(link(kernel.file(), 'fused' if kernel.fused else 'yes') if kernel else '')
        lines.append(f'| `{name}` | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def constants(top):
    found = {}
    for path in sorted(top.rglob('*.hpp')):
        found |= dict(re.findall(r'constexpr std::size_t (\w+) = (\d+);', path.read_text(encoding='utf-8')))
    return found


def numbers(include):
    """The numbers that headers choose kernels by; None for one that is not found."""
    found = {}
    for name, (path, pattern, shown) in NUMBERS.items():
        match = re.search(pattern, (include / path).read_text(encoding='utf-8'))
        found[name] = shown.format(*match.groups()) if match else None
    return found


def derived(of):
    """What follows from them: the classes of a row that a block's threads keep, and the heads of tensor cores."""
    kept = int(of['row_threads'] or 0) * int(of['row_bytes'] or 0)
    step, most = int(of['tensor_step'] or 1), int(of['tensor_head'] or 0)
    narrow = [int(n) for n in (of['narrow_inputs'] or '0 * 0').split(' * ')]
    heads = [str(head) for head in range(step, most + 1, step)]
    return {'narrow_inputs': str(narrow[0] * narrow[1]), 'row_floats': str(kept // 4), 'row_bf16': str(kept // 2),
            'tensor_heads': ', '.join(heads[:-1]) + f' or {heads[-1]}' if heads else '',
            'most_flops_beside': (of['most_flops_beside'] or '').replace("'", '')}


def main():
    root = pathlib.Path(sys.argv[1])
    include = root / 'include/trireme'
    top = include / 'kernels'
    tests = {p.relative_to(root).as_posix(): p.read_text(encoding='utf-8')
             for p in sorted((root / 'tests').rglob('*')) if p.suffix in ('.cpp', '.cu')}
    kernels = {family: kernels_in(headers_of(top, family)) for family in FAMILIES}
    wrong = list(blind()) + list(faults(kernels, NOT_IN, OF_STREAMS, ALSO)) + list(untested(kernels, tests, BY_LAYERS))
    chosen_by = numbers(include)
    wrong += [f'include/trireme/{NUMBERS[name][0]}: the number {name} of tests/kernels/table.py is not there any more'
              for name, value in chosen_by.items() if value is None]
    if wrong:  # the page is made of kernels that may not be there
        return ends(wrong, len(wrong))
    of = policies(top)
    values = constants(top) | {n: v for n, v in chosen_by.items() if v is not None} | derived(chosen_by)
    values |= {'families': families(of), 'kernels': table(kernels), 'layers': layers(root, kernels, of, tests)}
    page = (root / 'tests/kernels/kernels.md.in').read_text(encoding='utf-8')
    late = [f'tests/kernels/kernels.md.in: nothing says {name} of tests/kernels/table.py' for name in
            sorted((set(NUMBERS) | {'families', 'kernels', 'layers'}) - {'row_bytes', 'tensor_step', 'tensor_head'})
            if '{' + name + '}' not in page]
    for name, value in values.items():
        page = page.replace('{' + name + '}', value)
    late += [f'tests/kernels/kernels.md.in: no policy has a constant {name}' for name in re.findall(r'\{(\w+)\}', page)]
    written = {'docs/kernels.md': page} | {f'include/trireme/kernels/{f}.hpp': umbrella(top, f) for f in FAMILIES}
    return write_or_check(root, written, late, 'tests/kernels/table.py')


if __name__ == '__main__':
    sys.exit(main())
