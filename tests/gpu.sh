#!/bin/sh
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Everything that needs a GPU, on a machine with one, which may be bare and without a network.
#
# sh tests/gpu.sh --pack DIR    where packages can be installed: puts into DIR what such a machine may miss: doctest,
#                               CLI11, zlib, Meson, Ninja, Fashion-MNIST; some 35 MB. Says what is not in it (exit 3)
# sh tests/gpu.sh [--with DIR] [--out OUT] [--seconds N] [--parts PART,...] [--rows ROW,...]
#                               there: builds for its GPU, runs all tests for GPUs, an example, the benchmarks beside the
#                               PyTorch it has, and the tests again under compute-sanitizer, within N seconds (570).
#                               Prints one table last; logs, and all of it as JSON, go to OUT (build/gpu/out).
#                               PART: build, test, example, micro, bench, sanitize; ROW, of bench: lenet, resnet, gpt
# sh tests/gpu.sh --build-only [...]    --parts build; needs no GPU
#
# Exit codes: 0 all is well; 1 something failed; 2 wrong usage; 3 something is missing; 77 there is no GPU.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
usage() {
    sed -n 's/^# \{0,1\}//; 4,/^Exit codes/p' "$0" >&2
    exit 2
}

if [ "${1-}" != --pack ]; then
    command -v python3 >/dev/null 2>&1 || { echo "$0: python3 is missing: install it" >&2; exit 3; }
    exec python3 "$root/tests/gpu.py" "$@"
fi

[ $# -eq 2 ] && [ -n "$2" ] || usage
. "$root/tests/setup.sh"
want_build_tools
want_header doctest/doctest.h doctest-dev "the tests are written with it"
want_header CLI/CLI.hpp libcli11-dev "reads the command line of the examples"
want_data
install_packages

place=$2
mkdir -p "$place/include" "$place/lib" "$place/data"
# where the compiler finds a header, less the header's name
folder_of() { # HEADER
    # shellcheck disable=SC2086
    echo "#include <$1>" | $cxx -std=c++20 -E -x c++ - 2>/dev/null | sed -n "s|^# 1 \"\(.*\)/$1\".*|\1|p" | head -n 1
}
for header in doctest/doctest.h CLI/CLI.hpp zlib.h zconf.h; do
    from=$(folder_of "$header")
    case $header in
    */*) cp -RL "$from/${header%/*}" "$place/include/" ;;
    *) cp -L "$from/$header" "$place/include/" ;;
    esac
done
library=$($cxx -print-file-name=libz.a)
[ ! -e "$library" ] || cp -L "$library" "$place/lib/" # for a machine that has no libz.so to link with
data=/usr/share/datasets/fashion-mnist
if [ -d "$data" ]; then
    cp -L "$data"/*-ubyte.gz "$place/data/"
else
    echo "going on without Fashion-MNIST, which is not in $data" >&2
fi
python=$(command -v python3)
if ! "$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$place/python" meson==1.12.1 ninja \
    >"$place/pip.log" 2>&1; then
    tail -n 3 "$place/pip.log" >&2
    stop 'Meson and Ninja cannot be packed: python3 -m pip must reach PyPI'
fi
rm -f "$place/pip.log"

# What is missing there can only be had here: so the folder alone has to do.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
cat >"$probe/probe.cpp" <<'END'
#define DOCTEST_CONFIG_IMPLEMENT
#include <CLI/CLI.hpp>
#include <doctest/doctest.h>
#include <zlib.h>
int main() { return zlibVersion()[0] == ZLIB_VERSION[0] ? 0 : 1; }
END
# shellcheck disable=SC2086
$cxx -std=c++20 -fsyntax-only -H -isystem "$place/include" "$probe/probe.cpp" 2>"$probe/used" || stop "$place/include does not compile"
if grep -E '^\.+ .*/(doctest|CLI|zlib|zconf)[^ ]*\.h' "$probe/used" | grep -v -F " $place/include/"; then
    stop "$place/include is not all that is used: see above"
fi
# shellcheck disable=SC2086
$cxx -std=c++20 -isystem "$place/include" "$probe/probe.cpp" -o "$probe/probe" "$place/lib/libz.a" && "$probe/probe" ||
    stop "$place/lib/libz.a cannot be linked with: install zlib1g-dev"
for tool in mesonbuild.mesonmain ninja; do
    PYTHONPATH=$place/python "$python" -c "import $tool" || stop "$place/python has no $tool"
done
echo "$place holds all that a machine may miss"
du -sh "$place"
