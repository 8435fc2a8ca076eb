# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a page of docs/concepts names all that the headers ask of a layer, a loss or a kernel policy.

asked.py SOURCE_ROOT

- STRUCTS: the members of these classes, but for functions, which models fill in, read or have.
- NAMED: what stands behind the name of a type or of an object, as in `Layer::describe`, `typename K::stored` and
  `k.samples()`. A pattern says under which names the headers of some folders mean a model.
- A page names what stands in backticks there, outside of blocks of code.

NOT_ASKED has the names that are no requirement, each with its reason. A class that is gone, a pattern without a match,
and a name in NOT_ASKED that nothing has are faults, too.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ('docs', 'support')]
import declarations  # noqa: E402
from checks import ends  # noqa: E402

LAYER, KERNELS = 'docs/concepts/layer.md', 'docs/concepts/kernels.md'
STRUCTS = {
    LAYER: {
        'layer/layer.hpp': 'parameter_tensor layer_exchange layer_agreement layer_execution layer_description layer_place '
                           'forward_io backward_io',
        'layer/loss.hpp': 'loss_description loss_io',
        'kernels/granule_place.hpp': 'granule_place',
    },
    KERNELS: {'kernels/kernel_context.hpp': 'kernel_context with_function', 'kernels/channels_last/policy.hpp': 'layer_shapes'},
}
TYPE, OBJECT = r'\b(?:{})::\s*(?:template\s+)?(\w+)', r'\b(?:{})\.(\w+)'
NAMED = {
    LAYER: [
        (TYPE.format('Layer|L|layer|U'), 'layer/ parallel/ trainer/'),
        (TYPE.format('Loss|loss'), 'layer/ parallel/ trainer/'),
        (OBJECT.format(r'execution'), 'layer/ parallel/ trainer/'),
        (OBJECT.format(r'io\.place'), 'layer/'),
    ],
    KERNELS: [
        (TYPE.format('K|Kernels|kernels|Policy'), 'kernels/ layer/ parallel/ trainer/'),
        (OBJECT.format(r'k|policy|kernels\(\)|beside\(\)|kernels_\.context|(?<!\.)context'), 'layer/ trainer/composition.hpp '
         'trainer/host_model.hpp trainer/stream_context.hpp trainer/stream_rank_of.hpp'),
        (r'\bk\.(\w+)\(', 'kernels/blocks/ kernels/channels_last/'),
        (r'\bC::(\w+)|\bcc?\.(\w+)\(', 'kernels/blocks/policy.hpp kernels/channels_last/policy.hpp'),
    ],
}
NOT_ASKED = {
    LAYER: {
        'written': 'of rows that the library makes of a combinator or of tied',
        'name': 'of named, beside named_layer',
        'gradients': 'what gradient(k) reads',
    },
    KERNELS: {
        'Kernels': 'the constructors of the base of an adapter',
    },
}


def without_comments(text):
    return re.sub(r'//[^\n]*', '', text)


def members(root, header, name):
    """Names of a class's public members that are no functions."""
    found = [one for _, one in declarations.declarations((root / 'include/trireme' / header).read_text(encoding='utf-8'))
             if one.name == name and one.members and not one.special]
    return {one.name for of in found for one in of.members if one.public and one.kind != 'function'}


def asked(root, page):
    """Each name that the headers ask for, where first, and complaints."""
    names, faults = {}, []
    for header, classes in STRUCTS[page].items():
        for one in classes.split():
            inside = members(root, header, one)
            if not inside:
                faults.append(f'tests/docs/asked.py: {header} has no class {one} with members')
            names.update({name: f'{header}, {one}' for name in sorted(inside) if name not in names})
    texts = {path.relative_to(root / 'include/trireme').as_posix(): without_comments(path.read_text(encoding='utf-8'))
             for path in sorted((root / 'include/trireme').rglob('*.hpp'))}
    for pattern, folders in NAMED[page]:
        matches = [(next(filter(None, found.groups())), name) for name, text in texts.items()
                   if name.startswith(tuple(folders.split())) for found in re.finditer(pattern, text)]
        if not matches:
            faults.append(f'tests/docs/asked.py: nothing in {folders} matches {pattern}')
        for word, name in matches:
            names.setdefault(word, name)
    return names, faults


def check(root):
    count, faults = 0, []
    for page in STRUCTS:
        names, wrong = asked(root, page)
        text = re.sub(r'^```.*?^```$', '', (root / page).read_text(encoding='utf-8'), flags=re.M | re.S)
        said = {word for span in re.findall(r'`([^`\n]+)`', text) for word in re.findall(r'\w+', span)}
        faults += wrong + [f'{page} does not name {name}, for which {where} asks'
                           for name, where in names.items() if name not in said and name not in NOT_ASKED[page]]
        faults += [f'tests/docs/asked.py: nothing has {name} any more' for name in NOT_ASKED[page] if name not in names]
        count += len(names)
    return count, faults


if __name__ == '__main__':
    number, complaints = check(pathlib.Path(sys.argv[1]))
    sys.exit(ends(complaints, number))
