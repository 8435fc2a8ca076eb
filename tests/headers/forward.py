# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles trireme/fwd.hpp alone, before trireme/trireme.hpp and behind it. Each of its names is one that trireme.hpp
defines, in the same namespace; types of its templates are complete when that has been included. Prints how long both
headers take.

forward.py SOURCE_ROOT COMPILER [FLAGS]
"""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'docs'))
import declarations  # noqa: E402
import rules  # noqa: E402

FORWARD, WHOLE = '#include <trireme/fwd.hpp>\n', '#include <trireme/trireme.hpp>\n'
# What a program's own header says with nothing but the declarations.
OWN_HEADER = '''namespace own {
using namespace trireme;
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, relu, max_pool2d<2>,
    residual<sequential<conv2d<6, kernel<3>, padding<1>>, batch_norm<per_shard>>, sequential<>>, flatten, linear<10>>;
using trained = trainer<net, cross_entropy, adam, on<mesh<host, dp<2>>>, reduce_by<hierarchical<direct, ring>>,
    precision<f32>, clip_norm>;
using asked = model<net, on<mesh<host, dp<2>>>>;
class holder {
    trained* trains = nullptr;
    asked* answers = nullptr;
public:
    void use(trained& t, step_report const&, dataset const&, predictions<float> const*);
};
}
'''
COMPLETE = 'static_assert(sizeof(own::trained) > 0 && sizeof(own::asked) > 0);\n'


def main():
    root, command = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    top = root / 'include'
    headers = {path.relative_to(top).as_posix(): path for path in sorted(top.rglob('*.hpp'))}

    def structs(name):
        return [one for _, one in declarations.declarations(headers[name].read_text(encoding='utf-8'))
                if one.kind in ('struct', 'enum')]
    declared = structs('trireme/fwd.hpp')
    uses = ''.join(f'using trireme::{one.name};\n' for one in declared) # refused where two namespaces have it
    whole = ''.join(f'static_assert(sizeof(trireme::{one.name}) > 0);\n' for one in declared if not one.parameters)
    defined = {one.name for name in rules.reached(headers, rules.UMBRELLA) if name in headers for one in structs(name)}
    failed = [f'fwd.hpp declares {one.name}, which no header of {rules.UMBRELLA} has'
              for one in declared if one.name not in defined]

    texts = {'alone': FORWARD + OWN_HEADER + uses, 'before': FORWARD + OWN_HEADER + WHOLE + uses + whole + COMPLETE,
             'behind': WHOLE + FORWARD + OWN_HEADER + uses + whole + COMPLETE}
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
    print('\n'.join(failed))
    print(f'fwd.hpp: {seconds["fwd.hpp"]:.2f} s, trireme.hpp: {seconds["trireme.hpp"]:.2f} s')
    print(f'{len(declared) if not failed else 0} passed, {len(failed)} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
