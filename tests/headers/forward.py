# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles trireme/fwd.hpp alone, before all headers that need nothing but the host's compiler and behind them. Each of
its names is one that a header defines, in the same namespace; types of its templates are complete when that has been
included. It has all names of the sections of docs/reference.md that SECTIONS lists, but those that cannot be declared
before they are defined (can_be_declared). Prints how long fwd.hpp and trireme.hpp take.

forward.py SOURCE_ROOT COMPILER [FLAGS]
"""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ('docs', 'support')]
import declarations  # noqa: E402
import reference  # noqa: E402
import rules  # noqa: E402
from checks import ends  # noqa: E402

FORWARD, WHOLE = '#include <trireme/fwd.hpp>\n', f'#include <{rules.UMBRELLA}>\n'
# The sections whose names the types of trainers and models, and their samples, consist of.
SECTIONS = ['Networks', 'Layers', 'Combinators', 'Losses', 'Initial weights', 'Optimizers', 'Learning rates',
            'Policies of trainers', 'Arguments of policies', 'Devices and meshes', 'Transports', 'Kernels',
            'Samples and files of samples', 'Strategies of collectives', 'Pipeline schedules']
# Kinds of template parameters that a declaration can name with nothing else declared.
PLAIN = {'class', 'typename', 'auto', 'int', 'bool', 'std::size_t', 'bytes_t'}
# Names that can be declared, and others.
CONTROL = '''
struct plain {}; class also {}; template<class... A> struct pack {}; template<std::size_t N = 2, auto... M> class sized {};
template<some_concept T> struct constrained {}; template<class T> requires(sizeof(T) > 2) struct required {};
template<some_class Value> struct valued {}; template<class T> using alias = T; enum colour { red };
inline constexpr int constant = 2; template<class T> concept has = true; int function(); struct elsewhere;
template<> struct pack<int> {};
'''
CONTROL_NAMES = ['plain', 'also', 'pack', 'sized']
# What a program's own header says with nothing but the declarations.
OWN_HEADER = '''namespace own {
using namespace trireme;
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, relu, max_pool2d<2>,
    residual<sequential<conv2d<6, kernel<3>, padding<1>>, batch_norm<per_shard>>, sequential<>>, flatten, linear<10>>;
using trained = trainer<net, cross_entropy, adam, on<mesh<host, dp<2>>>, reduce_by<hierarchical<direct, ring>>,
    precision<f32>, clip_norm>;
using decayed = trainer<net, cross_entropy, adamw, without_decay<biases, norms>, accumulate<4>>;
using staged = trainer<network<input<16>, linear<16>, dropout<percent<50>>, activity_penalty<percent<10>>, linear<4>>,
    cross_entropy, sgd, on<mesh<host, dp<1>, pp<2>>>, pipeline<zero_bubble_h1, 4>>;
using remote = trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<2>>>, transport<nccl>, reduce_by<native>>;
using read = trainer<network<input<8>, embedding<32, 16>, linear<16>, tied<0>>, cross_entropy, sgd,
    kernels<reference>>;
using asked = model<net, on<mesh<host, dp<2>>>>;
class holder {
    trained* trains = nullptr;
    asked* answers = nullptr;
    decayed* decays = nullptr;
    staged* stages = nullptr;
    remote* elsewhere = nullptr;
    read* reads = nullptr;
public:
    void use(trained& t, step_report const&, dataset const&, predictions<float> const*);
};
}
'''
COMPLETE = ('static_assert(sizeof(own::trained) > 0 && sizeof(own::asked) > 0 && sizeof(own::decayed) > 0);\n'
            'static_assert(sizeof(own::staged) > 0 && sizeof(own::read) > 0);\n')


def can_be_declared(one):
    """True for structs and classes. Declarations of aliases, constants, concepts and enumerations (of which programs
    name the enumerators) are their definitions, and a template's parameters may need one: their concepts and classes
    would have to be defined first, and so would what its requires-clause says."""
    if one.kind != 'struct' or one.special or not one.body or 'requires' in one.head:
        return False
    for part in declarations.split_at_commas(one.head[2:-1]):
        kind = part[:part.index('=') if '=' in part else len(part)][:-1]
        if ''.join(word for word in kind if word != '...') not in PLAIN:
            return False
    return True


def names_to_declare(root):
    """The names of the sections, with the section of each."""
    pages = reference.Reference(root)
    sections = [section for section in reference.SECTIONS if section.title in SECTIONS]
    assert len(sections) == len(SECTIONS)
    return {one.name: section.title for section in sections for _, groups in pages.taken(section)
            for _, shown in groups for space, one in shown if not space and can_be_declared(one)}


def main():
    root, command = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    top = root / 'include'
    headers = {path.relative_to(top).as_posix(): path for path in sorted(top.rglob('*.hpp'))}

    def structs(name):
        return [one for _, one in declarations.declarations(headers[name].read_text(encoding='utf-8'))
                if one.kind in ('struct', 'enum')]
    declared = structs('trireme/fwd.hpp')
    apart = [name for name in rules.UMBRELLAS if name.startswith(rules.APART) or name == 'trireme/fwd.hpp']
    everything = ''.join(f'#include <{name}>\n' for name in rules.UMBRELLAS if name not in apart)
    here = {name for one in rules.UMBRELLAS if one not in apart for name in rules.reached(headers, one)}
    defined = {one.name: one for name in headers for one in structs(name) if one.body and not one.special}
    complete = {one.name for name in here if name in headers for one in structs(name) if one.body}
    uses = ''.join(f'using trireme::{one.name};\n' for one in declared) # refused where two namespaces have it
    whole = ''.join(f'static_assert(sizeof(trireme::{one.name}) > 0);\n' for one in declared
                    if not one.parameters and one.name in complete)
    failed = [f'fwd.hpp declares {one.name}, which no header defines' for one in declared if one.name not in defined]
    failed += [f'fwd.hpp declares {one.words[0]} {one.name}, which is a {defined[one.name].words[0]}'
               for one in declared if one.name in defined and one.words[0] != defined[one.name].words[0]]
    wanted, has = names_to_declare(root), {one.name for one in declared}
    failed += [f'fwd.hpp does not declare {name}, which docs/reference.md has in "{title}"'
               for name, title in wanted.items() if name not in has]
    control = [one.name for _, one in declarations.declarations(CONTROL) if can_be_declared(one)]
    if control != CONTROL_NAMES:
        failed.append(f'the control: of its names, these can be declared: {control}')

    texts = {'alone': FORWARD + OWN_HEADER + uses, 'before': FORWARD + OWN_HEADER + everything + uses + whole + COMPLETE,
             'behind': everything + FORWARD + OWN_HEADER + uses + whole + COMPLETE}
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**texts, 'fwd.hpp': FORWARD, 'trireme.hpp': WHOLE}.items():
            source = pathlib.Path(folder) / f'{name.split(".")[0]}.cpp'
            source.write_text(text, encoding='utf-8')
            begun = time.monotonic()
            done = subprocess.run([*command, '-c', '-o', '/dev/null', str(source)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors='replace')
            seconds[name] = time.monotonic() - begun
            if done.returncode != 0:
                failed.append(f'{name}: does not compile:\n{done.stdout[:4000]}')
    print(f'fwd.hpp: {seconds["fwd.hpp"]:.2f} s, trireme.hpp: {seconds["trireme.hpp"]:.2f} s')
    return ends(failed, len(declared))


if __name__ == '__main__':
    sys.exit(main())
