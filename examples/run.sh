#!/bin/sh
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# sh examples/run.sh [NAME] [ARGUMENTS]    builds and runs an example, lenet if none is named
# sh examples/run.sh --list                the names
#
# Installs what is missing (Debian, Ubuntu), after saying what and why. CXX and MESON choose the compiler and Meson.
# Exit codes: the example's own; 2 unknown name; 3 something is missing and cannot be installed; 4 it does not build.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/tests/setup.sh"

names() {
    for file in "$root"/examples/*.cpp; do
        file=$(basename "$file" .cpp)
        case $file in *_flags | '*') ;; *) echo "  $file" ;; esac
    done
}

name=lenet
case ${1-} in
--list) names; exit 0 ;;
'' | -*) ;;
*) name=$1; shift ;;
esac
case $name in
*/* | *_flags) known_name= ;;
*) known_name=yes ;;
esac
if [ -z "$known_name" ] || [ ! -e "$root/examples/$name.cpp" ]; then
    printf "There is no example '%s'. The examples are:\n" "$name" >&2
    names >&2
    exit 2
fi

want_build_tools
[ ! -e "$root/examples/${name}_flags.cpp" ] || want_header CLI/CLI.hpp libcli11-dev "reads the command line of $name"
case " $* " in *" --data"[\ =]*) ;; *) want_data ;; esac
case " $* " in *" --transport"[\ =]mpi*)
    want_command mpirun openmpi-bin "starts programs whose devices are processes"
    has_mpi openmpi || has_mpi mpich || want libopenmpi-dev "joins processes" ;;
esac
nvcc=
[ ! -e "$root/examples/${name}_gpu.cu" ] || find_nvcc
install_packages

# Optimised as a user would, for this machine's instruction set. What has a part for GPUs has a build of its own.
build=$root/build/examples${nvcc:+-cuda}${CXX:+-$(basename "${CXX##* }")}
cuda=disabled
[ -z "$nvcc" ] || { use_newer_meson && cuda=auto; }
log=$build.log
mkdir -p "$root/build"

failed() {
    echo failed >&2
    grep -m 1 -A 40 -E '^FAILED:|ERROR:' "$log" >&2 || tail -n 40 "$log" >&2
    echo "The whole log: $log" >&2
    exit 4
}

if [ ! -e "$build/build.ninja" ]; then printf 'configuring ... ' >&2; fi
configure "$build" "$cxx" --buildtype=release -Dtests=disabled -Dexamples=enabled \
    -Dcuda=$cuda >"$log" 2>&1 || failed
ninja=$(command -v ninja || command -v ninja-build)
if ! "$ninja" -C "$build" -n "examples/$name" 2>/dev/null | grep -q 'no work to do'; then
    printf 'building %s ... ' "$name" >&2
    "$ninja" -C "$build" "examples/$name" >"$log" 2>&1 || failed
    echo 'done' >&2
fi
exec "$build/examples/$name" "$@"
