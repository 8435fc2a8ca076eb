# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions that headers spell out mean the same in both dialects of x86-64's assemblers, and objects with and without fast-math share no arithmetic of updates.

machine_code.py WORK_FOLDER -- COMPILER [FLAGS]
"""
import pathlib
import platform
import re
import subprocess
import sys

ROOTS = '''
#include <trireme/device/host/lanes.hpp>
template<class T>
bool right() {
    T x[trireme::full_register<T>];
    for (T& number : x) number = T(9);
    using vector = trireme::lane_vector<T, trireme::full_register<T>>;
    square_root(vector::load(x)).store(x);
    for (T number : x)
        if (number != T(3)) return false;
    vector const four = vector::all(T(4)), sum = square_root(four) + four; // in another register than its operand
    sum.store(x);
    return x[0] == T(6);
}
int main() { return right<float>() && right<double>() ? 0 : 1; }
'''

# What both the kernels and the host's code around them call, outside of the kernels.
NUMBERS = '''
#include <trireme/kernels/adam_numbers.hpp>
#include <trireme/kernels/clipping.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <cstdint>
using namespace trireme;
struct some { float learning_rate; struct { rate_schedule value; } rate; struct { std::size_t samples; } batch; };
double numbers(rate_schedule const& r, std::uint64_t step) {
    return r.factor(step) + clipping_factor(2, 1) + adam_correction<double>::of({}, step).step +
           detail::options_of_step(some{}, step).learning_rate;
}
'''
FUNCTIONS = r'factor|adam_correction|options_of_step'


def compiled(command, folder, name, text, extra):
    """The object of a source, or None with what the compiler said."""
    source, target = folder / f'{name}.cpp', folder / f'{name}.o'
    source.write_text(text, encoding='utf-8')
    done = subprocess.run(command + extra + ['-c', str(source), '-o', str(target)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace')
    return (target, '') if done.returncode == 0 else (None, done.stdout)


def functions_of(target):
    listed = subprocess.run(['nm', '-C', '--defined-only', str(target)], stdout=subprocess.PIPE, text=True, check=True)
    return {name for name in re.findall(r'^\S+ [WVuT] (.*)$', listed.stdout, flags=re.M) if re.search(FUNCTIONS, name)}


def main():
    split = sys.argv.index('--')
    folder, command = pathlib.Path(sys.argv[1]).resolve(), sys.argv[split + 1:]
    folder.mkdir(parents=True, exist_ok=True)
    wrong = []
    objects = {}
    for kind, extra in {'plain': [], 'fast': ['-ffast-math']}.items():
        target, said = compiled(command, folder, f'numbers_{kind}', NUMBERS, ['-O0'] + extra)
        if target is None:
            wrong.append(said)
        else:
            objects[kind] = functions_of(target)
    if len(objects) == 2:
        if not all(any(word in name for name in objects['plain']) for word in FUNCTIONS.split('|')):
            wrong.append(f'functions are missing in {sorted(objects["plain"])}: has one another name?')
        wrong += [f'objects with and without fast-math both define {name}: put it into TRIREME_ISA'
                  for name in sorted(objects['plain'] & objects['fast']) if not name.startswith('numbers(')]
    if platform.machine() in ('x86_64', 'AMD64'):
        for dialect in ('att', 'intel'):
            for isa in ('x86-64', 'x86-64-v3', 'x86-64-v4', 'native'):
                flags = ['-O1', '-masm=' + dialect, '-march=' + isa]
                target, said = compiled(command, folder, f'roots_{dialect}_{isa}', ROOTS, flags)
                program = folder / f'roots_{dialect}_{isa}'
                if target is None:
                    wrong.append(f'{flags}:\n{said}')
                elif isa in ('x86-64', 'native'): # which this machine runs
                    subprocess.run(command + [str(target), '-o', str(program)], check=True)
                    if subprocess.run([str(program)], check=False).returncode != 0:
                        wrong.append(f'{flags}: square_root is wrong')
    print('\n'.join(wrong) if wrong else 'roots are right in both dialects; fast-math stays in its objects')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
