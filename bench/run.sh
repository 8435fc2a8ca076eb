#!/bin/sh
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# sh bench/run.sh NAME [--json FILE] [--quick]    measures us and our peers in one run, and prints a table
# sh bench/run.sh --list                          the names
#
# --json FILE also writes the table as a list of {"case", "peer", "ours", "theirs", "unit", "ratio", "spread"}: ratio > 1
# means that we are better, spread is the interquartile range of the rounds' ratios divided by their median.
# --quick measures fewer and shorter rounds.
#
# Installs what is missing (Debian, Ubuntu), after saying what and why. Peers from PyPI live outside the build folder, in
# $TRIREME_BENCH_PEERS, by default $XDG_CACHE_HOME/trireme/peers or ~/.cache/trireme/peers; what else they are is in
# bench/NAME/peers.txt with its version. CXX and MESON choose the compiler and Meson.
# Exit codes: 1 a measurement failed; 2 wrong usage; 3 something is missing and cannot be installed; 4 no build.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/tests/setup.sh"

names() {
    for file in "$root"/bench/*/bench.py; do
        echo "  $(basename "$(dirname "$file")")"
    done
}
usage() {
    { echo "usage: sh bench/run.sh NAME [--json FILE] [--quick]; the names are"; names; } >&2
    exit 2
}

name='' json='' quick=''
while [ $# -gt 0 ]; do
    case $1 in
    --list) names; exit 0 ;;
    --json) [ $# -ge 2 ] || usage; json=$2; shift ;;
    --json=*) json=${1#--json=} ;;
    --quick) quick=--quick ;;
    -* | */*) echo "$0: unknown argument '$1'" >&2; usage ;;
    *) [ -z "$name" ] || usage; name=$1 ;;
    esac
    shift
done
[ -n "$name" ] && [ -e "$root/bench/$name/bench.py" ] || {
    [ -z "$name" ] || echo "$0: there is no benchmark '$name'" >&2
    usage
}
if [ -n "$json" ]; then # said before an hour of measuring, not after it
    (: >>"$json") 2>/dev/null || { echo "$0: cannot write '$json'" >&2; exit 2; }
fi

# What is for GPUs has a build of its own, and a PyTorch of its own: the others' is without CUDA.
nvcc='' cuda=''
if [ "$name" = gpu ]; then
    has_gpu ||
        { echo "$0: the benchmark 'gpu' needs a GPU, and nvidia-smi finds none" >&2; exit 3; }
    cuda=-cuda
fi

want_build_tools
[ -z "$cuda" ] || find_nvcc
[ ! -e "$root/bench/$name/packages.txt" ] || want_command pkg-config pkg-config "finds the peers"
while read -r package header why; do
    case $package in '' | '#'*) ;; *) want_header "$header" "$package" "$why" ;; esac
done <<EOF
$(cat "$root/bench/$name/packages.txt" 2>/dev/null)
EOF
if [ -e "$root/bench/$name/peers.txt" ]; then
    python3 -c 'import venv, ensurepip' 2>/dev/null || want python3-venv "PyTorch, a peer, gets an environment of its own"
    python3 -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' 2>/dev/null ||
        want python3-dev "torch.compile compiles against it"
fi
install_packages
if [ -n "$cuda" ]; then
    [ -n "$nvcc" ] || stop "the benchmark 'gpu' needs nvcc: install NVIDIA's CUDA toolkit, with cuDNN"
    use_newer_meson
fi

failed() { # WHAT LOG
    echo 'failed' >&2
    tail -n 30 "$2" >&2
    echo "$1; the whole log: $2" >&2
}

mkdir -p "$root/build"
peers=${TRIREME_BENCH_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/trireme/peers}$cuda
if [ -e "$root/bench/$name/peers.txt" ]; then
    wanted=$(cat "$root/bench/$name/peers.txt")
    if [ "$wanted" != "$(cat "$peers/$name.installed" 2>/dev/null)" ]; then
        echo "Installing from PyPI into $peers: $(grep -v '^#' "$root/bench/$name/peers.txt" | tr '\n' ' ')" >&2
        log=$root/build/peers.log
        mkdir -p "$peers"
        { [ -x "$peers/bin/python3" ] || python3 -m venv "$peers"; } >"$log" 2>&1 &&
            # a wheel for CPUs alone is smaller, where the index has one
            { [ -z "$cuda" ] && sed 's/^\(torch==[0-9.]*\)$/\1+cpu/' "$root/bench/$name/peers.txt" >"$root/build/peers-cpu.txt" &&
                "$peers/bin/python3" -m pip install --quiet -r "$root/build/peers-cpu.txt" >>"$log" 2>&1 ||
                "$peers/bin/python3" -m pip install --quiet -r "$root/bench/$name/peers.txt" >>"$log" 2>&1; } ||
            { failed "the peers cannot be installed" "$log"; exit 3; }
        echo "$wanted" >"$peers/$name.installed"
    fi
fi

# Optimised as a user would, for this machine's instruction set, without assertions.
build=$root/build/bench$cuda${CXX:+-$(basename "${CXX##* }")}
log=$build.log
printf 'building ... ' >&2
ninja=$(command -v ninja || command -v ninja-build)
{ configure "$build" "$cxx" --buildtype=release -Dtests=disabled -Dexamples=disabled -Dbench=enabled \
    -Dcuda="$([ -z "$cuda" ] && echo disabled || echo auto)" >"$log" 2>&1 &&
    "$ninja" -C "$build" "bench_$name" >>"$log" 2>&1; } || { failed "the benchmark does not build" "$log"; exit 4; }
echo 'done' >&2
export TRIREME_BENCH_PEERS="$peers"
exec python3 "$root/bench/harness.py" "$name" "$build" "$cxx" ${quick:+"$quick"} ${json:+--json "$json"}
