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

is_part() { # NAME: whether NAME.cpp is a part of another example, its command line or what it does with MPI
    case $1 in *_flags | *_mpi) return 0 ;; *) return 1 ;; esac
}
names() {
    for file in "$root"/examples/*.cpp; do
        file=$(basename "$file" .cpp)
        is_part "$file" || echo "  $file"
    done
    for file in "$root"/examples/*/run.py; do # a folder of programs that compiles them itself
        echo "  $(basename "$(dirname "$file")")"
    done
}
asks_for() { # OPTION VALUE: whether the example's arguments say so
    case " $arguments " in *" $1"[\ =]"$2 "*) return 0 ;; *) return 1 ;; esac
}

name=lenet
case ${1-} in
--list) names; exit 0 ;;
'' | -*) ;;
*) name=$1; shift ;;
esac
case $name in
*/*) file= ;;
*) file=$root/examples/$name.cpp ;;
esac
if [ -n "$file" ] && [ -e "$root/examples/$name/run.py" ]; then
    find_cxx
    want_command python3 python3 "compiles the files of $name one by one"
    [ -z "$packages" ] || install_with_apt
    CXX=$cxx exec python3 -B "$root/examples/$name/run.py" "$@"
fi
if [ ! -e "$file" ] || is_part "$name"; then
    printf "There is no example '%s'. The examples are:\n" "$name" >&2
    names >&2
    exit 2
fi
if [ $# -gt 0 ] && grep -q '^int main()' "$file"; then
    echo "$name takes no arguments, and was given: $*; what it does is in examples/$name.cpp" >&2
    exit 2
fi

# Optimised as a user would, for this machine's instruction set. MPI and CUDA are looked for where they are asked for, and
# what has a part for them has a build of its own then.
arguments=$*
with='' mpi=disabled cuda=disabled nvcc=''
want_build_tools
[ ! -e "$root/examples/${name}_flags.cpp" ] || want_header CLI/CLI.hpp libcli11-dev "reads the command line of $name"
case " $arguments " in
*" --data"[\ =]*) ;;
*) ! grep -q fashion_mnist "$root/examples/$name".* "$root/examples/${name}_"* 2>/dev/null || want_data ;;
esac
text='' # of gpt and microgpt, if none is named
names=/usr/share/dict/propernames.gz
case "$name, $arguments " in
*" --text"[\ =]* | *" --help "* | *" -h "*) ;;
gpt,*)
    text=$root/build/bible.txt
    [ -s "$text" ] || want_command bible bible-kjv "has the text that gpt learns"
    ;;
microgpt,*)
    text=$root/build/names.txt
    [ -s "$text" ] || [ -e $names ] || want miscfiles "has the names that microgpt learns"
    ;;
esac
if [ -e "$root/examples/${name}_mpi.cpp" ] && asks_for --transport mpi; then
    with=-mpi mpi=enabled
    want_command mpirun openmpi-bin "starts programs whose devices are processes"
    has_any_mpi || want libopenmpi-dev "joins processes"
elif [ -e "$root/examples/${name}_gpu.cu" ] && asks_for --device gpu; then
    find_nvcc
    [ -z "$nvcc" ] || with=-cuda cuda=auto
fi
install_packages
[ $cuda = disabled ] || use_newer_meson

build=$root/build/examples$with${CXX:+-$(basename "${CXX##* }")}
log=$build.log
mkdir -p "$root/build" 2>/dev/null || :
[ -w "$root/build" ] || stop "$root/build cannot be written, and examples are built there: use a copy of the tree that is yours"
if command -v flock >/dev/null 2>&1; then # a second run of this script waits until the first has built
    exec 9>"$build.lock"
    flock 9
fi

failed() {
    echo failed >&2
    grep -m 1 -A 40 -E '^FAILED:|ERROR:' "$log" >&2 || tail -n 40 "$log" >&2
    echo "The whole log: $log" >&2
    exit 4
}

if [ ! -e "$build/build.ninja" ]; then printf 'configuring ... ' >&2; fi
configure "$build" "$cxx" --buildtype=release -Dtests=disabled -Dexamples=enabled \
    -Donednn=disabled -Dmpi=$mpi -Dcuda=$cuda >"$log" 2>&1 || failed
ninja=$(command -v ninja || command -v ninja-build)
if ! "$ninja" -C "$build" -n "examples/$name" 2>/dev/null | grep -q 'no work to do'; then
    printf 'building %s ... ' "$name" >&2
    "$ninja" -C "$build" "examples/$name" >"$log" 2>&1 || failed
    echo 'done' >&2
fi
if [ -n "$text" ]; then
    if [ ! -s "$text" ]; then
        if [ "$name" = gpt ]; then bible -f 'Gen1:1-Rev22:21'; else gzip -dc $names | grep '^[A-Za-z]*$'; fi >"$text.part"
        mv "$text.part" "$text"
    fi
    set -- --text "$text" "$@"
fi
exec "$build/examples/$name" "$@" 9>&-
