# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is generated from the folders of include/trireme/kernels: a header for each family, which includes all of its
kernels, and docs/kernels.md, which says what there is.

table.py SOURCE_ROOT           writes them
table.py SOURCE_ROOT --check   says what would change

A kernel is a function template whose first parameter is a policy. The text of the page besides its tables is in
tests/kernels/kernels.md.in; {NAME} there is the value of the constant of that name in a policy's header.
"""
import pathlib
import re
import sys

# The families, and those that what they do not overload comes from.
FAMILIES = {'reference': None, 'portable': None, 'blocks': None, 'channels_last': None, 'onednn': 'channels_last',
            'cuda': 'blocks'}
# What a policy is called as the first parameter of a kernel.
POLICIES = {'reference', 'portable', 'portable_with_scratch', 'block_kernels', 'onednn_kernels', 'kernels_with_libraries',
            'cuda_library_kernels', 'with_function', 'K'}
ON_THE_HOST = ('reference', 'portable', 'channels_last')
# Kernels of a family's own, which none of the others has to have.
OWN = {'conv2d_scratch_bytes', 'add_bias', 'add_bias_gradient', 'add_scores', 'add_channel_sums', 'add_channel_totals'}
KERNEL = re.compile(r'^(?:template<.*>|TRIREME_\w+|    requires.*)?[ ]?(?:TRIREME_NOINLINE )?'
                    r'(?:void|bool|T|double|constexpr std::size_t|accumulate_t<T>)\s+(\w+)\(\s*([\w:]+)', re.M)
LICENCE = ('// SPDX-FileCopyrightText: The Trireme authors\n'
           '// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#pragma once\n')


def public_part(text):
    """Without what lies in namespaces for the library's own use."""
    return re.sub(r'^namespace trireme::(?:detail|blocks|cuda_runtime)\b.*?^\} // namespace.*?$', '', text,
                  flags=re.M | re.S)


class Kernel:
    def __init__(self):
        self.file, self.fused = '', False  # file: from the folder of all families

    def stem(self):
        return self.file.rsplit('/', 1)[-1].removesuffix('.hpp').removesuffix('_numbers')


def kernels_of(top, family):
    """Name: where a family has it, and whether a function beside the layer can be part of it."""
    found = {}
    for path in sorted((top / family).rglob('*.hpp')) + (sorted(top.glob('*_numbers.hpp')) if family in ON_THE_HOST else []):
        text = public_part(path.read_text(encoding='utf-8'))
        for match in KERNEL.finditer(text):
            name, policy = match.groups()
            if policy not in POLICIES or name in OWN:
                continue
            kernel = found.setdefault(name, Kernel())
            kernel.file = kernel.file or path.relative_to(top).as_posix()
            body = text[match.end():text.find('\n}\n', match.end())]
            kernel.fused |= policy == 'with_function' or 'K::epilogue' in body
    return found


def umbrella(top, family):
    base = FAMILIES[family]
    files = sorted(p.relative_to(top).as_posix() for p in (top / family).glob('*.hpp'))
    names = sorted([f'{base}.hpp'] if base else []) + files
    of = f'/// All kernels of the family {family}' + (f', and of {base} for what it does not overload' if base else '')
    lines = [LICENCE, f'{of}.\n/// Written by tests/kernels/table.py.\n'] + [f'#include <trireme/kernels/{n}>' for n in names]
    return '\n'.join(lines) + '\n'


def dtypes(text):
    found = re.search(r'static constexpr bool computes =(.*?);', text, re.S)
    if not found:
        return 'f32, f64'
    said = found[1]
    names = ['f32, f64'] if 'is_floating_point' in said else ['f32'] if 'T, float' in said else []
    return ', '.join(names + (['bf16'] if 'bf16' in said else []))


def families(top):
    """A row for each policy that a trainer can be given."""
    rows = []
    for family, policy, text in (
            ('reference', 'reference', ''), ('portable', 'portable', ''), ('onednn', 'onednn', ''),
            ('blocks', 'block_kernels', ''), ('blocks', 'channels_last<K>', 'class channels_last'),
            ('cuda', 'cuda_kernels', '')):
        header = (top / family / 'policy.hpp').read_text(encoding='utf-8')
        about = header[header.index(text):] if text else header
        inherited = '' if family != 'cuda' else (top / 'blocks/policy.hpp').read_text(encoding='utf-8')
        layout = re.search(r'value_layout::(\w+)[;>]', about + inherited)
        fuses = re.search(r'fuses = fusion::(\w+)', header + inherited)
        rows.append(f'| `{policy}` | [{family}](../include/trireme/kernels/{family}) | '
                    f'{layout[1].replace("_", " ") if layout else "interleaved"} | {dtypes(about if text else about + inherited)} | '
                    f'{fuses[1].replace("_", " ") if fuses else "nothing"} |')
    head = ['| policy | family | layout | computes in | fuses functions |', '| --- | --- | --- | --- | --- |']
    return '\n'.join(head + rows)


def layer_of(kernels, name):
    """The layer that a kernel is about: the file of the reference's, or of that of streams."""
    of = kernels['reference'] if name in kernels['reference'] else kernels['blocks']
    return of[name].stem()


def table(kernels):
    names = sorted({name for of in kernels.values() for name in of}, key=lambda n: (layer_of(kernels, n), n))
    lines = ['| kernel | ' + ' | '.join(kernels) + ' |', '| --- |' + ' --- |' * len(kernels)]
    for name in names:
        cells = []
        for family, of in kernels.items():
            kernel = of.get(name)
            at = f'../include/trireme/kernels/{kernel.file}' if kernel else ''
            cells.append(f'[{"fused" if kernel.fused else "yes"}]({at})' if kernel else '')
        lines.append(f'| `{name}` | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def faults(kernels):
    """What the folder rule forbids: a kernel that stands in another file than the reference's, or has no reference."""
    for family, of in kernels.items():
        for name, kernel in of.items():
            wanted = kernels['reference'].get(name)
            if wanted is not None and kernel.stem() != wanted.stem():
                yield f'kernels/{kernel.file}: {name} belongs in {wanted.stem()}.hpp, where the reference has it'
            elif wanted is None and family not in ('blocks', 'cuda'):
                yield f'kernels/{kernel.file}: {name} has no naive loops in kernels/reference to compare it with'


def constants(top):
    found = {}
    for path in sorted(top.rglob('*.hpp')):
        found |= dict(re.findall(r'constexpr std::size_t (\w+) = (\d+);', path.read_text(encoding='utf-8')))
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    top = root / 'include/trireme/kernels'
    kernels = {family: kernels_of(top, family) for family in FAMILIES}
    wrong = list(faults(kernels))
    page = (root / 'tests/kernels/kernels.md.in').read_text(encoding='utf-8')
    for name, value in (constants(top) | {'families': families(top), 'kernels': table(kernels)}).items():
        page = page.replace('{' + name + '}', value)
    wrong += [f'tests/kernels/kernels.md.in: no policy has a constant {name}' for name in re.findall(r'\{(\w+)\}', page)]
    written = {root / 'docs/kernels.md': page} | {top / f'{f}.hpp': umbrella(top, f) for f in FAMILIES}
    for path, text in written.items():
        if path.is_file() and path.read_text(encoding='utf-8') == text:
            continue
        if '--check' in sys.argv:
            wrong.append(f'{path.relative_to(root)} is not what the kernels are: python3 tests/kernels/table.py .')
        else:
            path.write_text(text, encoding='utf-8')
    for fault in wrong:
        print(fault)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
