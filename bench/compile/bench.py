# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compiler needs for us and for dlib, which is composed by templates, too: seconds and megabytes at -O2.

header/COMPILER    the header with everything in it, and nothing else
first/COMPILER     examples/first.cpp and the same program in dlib
resnet18/COMPILER  examples/resnet18.hpp and one training step of it, and a like network in dlib
resnet18/stages4/COMPILER  a trainer of that network in four stages, and a step of it, and the same on one device
layersN/COMPILER   a network of N layers, convolutions and ReLUs in turn, and one training step of it
gptN/COMPILER      a trainer of a GPT of N blocks, width 128, and a step of it, beside one of fewer blocks: 12 beside
                   one, 48 beside 12

A case is the name above and /seconds or /megabytes: the wall-clock time of the compiler, and the most memory it held. A
peer that has not finished after ten minutes is left out and named. nvcc compiles ours alone, as a .cu file; its peer is
g++ on the same file.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
patience = 600  # seconds

ours_header = '#include <trireme/trireme.hpp>\n'
dlib_header = '#include <dlib/dnn.h>\n'


def ours_of_depth(layers):
    pair = 'conv2d<8, kernel<3>, padding<1>>, relu'
    body = ', '.join([pair] * ((layers - 2) // 2))
    return ours_header + f'''
using namespace trireme;
using net = network<input<1, 28, 28>, {body}, flatten, linear<10>>;
void train(trainer<net, cross_entropy, sgd>& t, labelled_images const& images) {{ t.step(images); }}
'''


ours_resnet18 = f'''#include "{root}/examples/resnet18.hpp"
using namespace trireme;
using net = resnet18<batch_norm<per_shard>>;
void train(trainer<net, cross_entropy, sgd>& t, labelled_images const& images) {{ t.step(images); }}
'''


def ours_resnet18_on(mesh, *policies):
    arguments = ', '.join(['net', 'cross_entropy', 'sgd', f'on<{mesh}>', *policies])
    return f'''#include "{root}/examples/resnet18.hpp"
using namespace trireme;
using net = resnet18<batch_norm<per_shard>>;
void train(labelled_images const& images) {{
    trainer<{arguments}> t{{{{.batch = 64}}}};
    t.step(images);
}}
'''


def ours_gpt(layers):
    return '#include <trireme/data/tokens.hpp>\n' + ours_header + f'''
using namespace trireme;
using net = gpt<gpt_sizes{{.layers = {layers}, .width = 128, .heads = 4, .context = 128}}>;
void train(token_windows const& text) {{
    trainer<net, cross_entropy, adamw> t{{{{.batch = 16}}}};
    t.step(text);
}}
'''


def dlib_of_depth(layers):
    pairs = (layers - 2) // 2
    return dlib_header + f'''
template<class Below>
using pair = dlib::relu<dlib::add_layer<dlib::con_<8, 3, 3, 1, 1, 1, 1>, Below>>;
using net = dlib::loss_multiclass_log<dlib::fc<10, dlib::repeat<{pairs - 1}, pair, pair<dlib::input<dlib::matrix<float>>>>>>;
void train(dlib::dnn_trainer<net>& t, std::vector<dlib::matrix<float>> const& x, std::vector<unsigned long> const& y) {{
    t.train_one_step(x, y);
}}
'''


def compile_once(command):
    """(seconds, megabytes), None if it took too long."""
    start = time.monotonic()
    said = tempfile.TemporaryFile() # a pipe would be full, and the compiler wait for its reader
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            break
        if time.monotonic() - start > patience:
            os.killpg(process.pid, 9)
            os.wait4(process.pid, 0)
            return None
        time.sleep(0.005)
    seconds = time.monotonic() - start
    if status != 0:
        said.seek(0)
        raise SystemExit(f"{' '.join(command)} failed:\n{said.read().decode(errors='replace')[-3000:]}")
    return seconds, usage.ru_maxrss / 1024


def run(bench):
    rounds = 1 if bench.quick else 3
    compilers = {name: [path, '-std=c++20', '-O2', '-c', '-o', '/dev/null']
                 for name in ('g++', 'clang++') if (path := shutil.which(name))}
    nvcc = shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc')
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def source(name, text):
            path = folder / name
            path.write_text(text, encoding='utf-8')
            return str(path)

        def compare(case, peer, ours, theirs):
            """Compiles both in turn; the peer only once more if it did not end."""
            mine, other = [], []
            for r in range(rounds):
                mine.append(compile_once(ours))
                if mine[-1] is None:
                    raise SystemExit(f'{case}: ours was not done after {patience} s')
                other.append(compile_once(theirs))
                if other[-1] is None:
                    bench.note(f'{case}: {peer} was not done after {patience} s; ours: {mine[-1][0]:.1f} s, '
                               f'{mine[-1][1]:.0f} MB')
                    return
            for k, what in enumerate(('seconds', 'megabytes')):
                bench.row(f'{case}/{what}', peer, [m[k] for m in mine], [o[k] for o in other],
                          's' if k == 0 else 'MB', lower_is_better=True)

        first, dlib_lenet = str(root / 'examples/first.cpp'), str(root / 'bench/compile/dlib_lenet.cpp')
        include = '-I' + str(root / 'include')
        for name, command in compilers.items():
            ours = command + [include]
            compare(f'header/{name}', 'dlib', ours + [source('ours.cpp', ours_header)],
                    command + [source('dlib.cpp', dlib_header)])
            compare(f'first/{name}', 'dlib', ours + [first], command + [dlib_lenet])
            for example in ('mlp', 'gpt'): # with readers, checkpoints and what else an everyday program includes
                compare(f'{example}/{name}', 'first', ours + [str(root / f'examples/{example}.cpp')], ours + [first])
            compare(f'resnet18/{name}', 'dlib', ours + [source('ours.cpp', ours_resnet18)],
                    command + [str(root / 'bench/compile/dlib_resnet18.cpp')])
            stages = ours_resnet18_on('mesh<host, pp<4>>', 'pipeline<one_f_one_b, 8>')
            compare(f'resnet18/stages4/{name}', 'one-device', ours + [source('stages.cpp', stages)],
                    ours + [source('alone.cpp', ours_resnet18_on('mesh<host, dp<1>>'))])
            for layers, fewer in ((12, 1), (48, 12)):
                sources = [source(f'gpt{n}.cpp', ours_gpt(n)) for n in (layers, fewer)]
                compare(f'gpt{layers}/{name}', f'gpt{fewer}', *(ours + [path] for path in sources))
            for layers in (8, 32) if bench.quick else (8, 32, 128, 512):
                compare(f'layers{layers}/{name}', 'dlib', ours + [source('ours.cpp', ours_of_depth(layers))],
                        command + [source('dlib.cpp', dlib_of_depth(layers))])
        if nvcc and 'g++' in compilers:
            device = [nvcc, '-std=c++20', '-O2', '-ccbin', 'g++', include, '-c', '-o', str(folder / 'ours.o')]
            host = compilers['g++'] + [include, '-x', 'c++']
            for case, text in (('header', ours_header), ('first', pathlib.Path(first).read_text(encoding='utf-8'))):
                path = source(case + '.cu', text)
                compare(f'{case}/nvcc', 'g++', device + [path], host + [path])
