#!/bin/sh
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# sh tests/run.sh              what every push runs: two compilers, sanitizers, must-not-compile, headers, consumers, MPI, nvcc
# sh tests/run.sh --quick      one compiler, no sanitizers
# sh tests/run.sh --nightly    everything, with every compiler found
# ... --timings                beside any of them: what took longest to compile and to run in each stage, and its
#                              core-seconds
# ... --only STAGE,...         only these stages, by the labels that a run prints (g++, clang++, clang++-asan+ubsan, tsan, cuda):
#                              a nightly run in parts, where one sitting is too short for it; `sh tests/fresh.sh` is then
#                              apart, too
#
# Installs what is missing (Debian, Ubuntu), after saying what and why. CXX and MESON choose the compiler and Meson.
# The last line is 'N passed, N failed' (', N skipped'); the exit code is 0 only if none failed, 3 if something is
# missing and cannot be installed.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/tests/setup.sh"

mode=push timings='' only='' unknown=''
while [ $# -gt 0 ]; do
    case $1 in
    --quick) mode=quick ;;
    --nightly) mode=nightly ;;
    --timings) timings=yes ;;
    --only) only=${2-} && [ -n "$only" ] || unknown=yes; [ $# -eq 1 ] || shift ;;
    *) unknown=yes ;;
    esac
    [ -z "$unknown" ] || { echo "usage: sh tests/run.sh [--quick|--nightly] [--timings] [--only STAGE,...]" >&2; exit 2; }
    shift
done

sanitizes() { # COMPILER: whether it has what its address checks need
    program=$(mktemp)
    # shellcheck disable=SC2086
    echo 'int main() {}' | $1 -fsanitize=address,undefined -x c++ - -o "$program" 2>/dev/null || { rm -f "$program"; return 1; }
    rm -f "$program"
}

want_build_tools
want_header doctest/doctest.h doctest-dev "the tests are written with it"
want_header CLI/CLI.hpp libcli11-dev "reads the command line of the examples"
want_data
want_command ccache ccache "keeps what was compiled for the next run, in this clone or in another"
if [ "$mode" != quick ]; then
    want_command clang++ clang "the second compiler"
    sanitizes clang++ || want libclang-rt-dev "the second compiler's address checks"
    want_command cmake cmake "a consumer's project uses it"
    want_command pkg-config pkg-config "a consumer's project uses it"
    want_command make make "a consumer's project uses it"
    want_command mpirun.openmpi openmpi-bin "starts tests whose ranks are processes"
    has_mpi openmpi || want libopenmpi-dev "one of the MPI libraries"
    want_command mpirun.mpich mpich "starts the same tests with the other MPI library"
    has_mpi mpich || want libmpich-dev "the other MPI library"
    [ "$(id -u)" -ne 0 ] || want_command debootstrap debootstrap "makes the bare system that the first command is tried on"
    has_venv || want python3-venv "clang-format, and a Meson that knows .cu files, get environments of their own"
    want_header dnnl.hpp libdnnl-dev "kernels<onednn> are tested with it"
    find_nvcc
fi
install_packages
export MESON
# CCACHE_DISABLE=1 compiles everything anew.
cached=''
if command -v ccache >/dev/null 2>&1 && [ -z "${CCACHE_DISABLE-}" ]; then
    cached='ccache '
    export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$root"
fi

# Two runs in one tree would disturb each other.
mkdir -p "$root/build"
if command -v flock >/dev/null 2>&1; then
    exec 9>"$root/build/lock"
    flock -n 9 || { echo 'another tests/run.sh is at work here, waiting for it' >&2; flock 9; }
fi

results=$root/build/results
rm -rf "$results"
mkdir -p "$results"
ninja=$(command -v ninja || command -v ninja-build)

beside='' # the shells whose tests run beside

finish() {
    wait
    for running in "$results"/*.running; do
        [ ! -e "$running" ] || echo 'its tests did not come to their end' >>"${running%.running}.broken"
    done
    for label in $(echo "$only" | tr ',' ' '); do
        case "$stages " in *" $label "*) ;; *) echo "is no stage of this run; these are:$stages" >"$results/$label.broken" ;; esac
    done
    python3 "$root/tests/summary.py" "$results"
    exit
}
# shellcheck disable=SC2317 # trap calls it
stopped() { # what had run until then still counts
    trap '' INT TERM HUP
    # shellcheck disable=SC2086
    [ -z "$beside" ] || kill $beside 2>/dev/null || true
    for _ in $(seq 20); do # until Meson has written what it knows
        ls "$results"/*.running >/dev/null 2>&1 || break
        sleep 1
    done
    echo 'stopped before the end' >"$results/run.broken"
    for running in "$results"/*.running; do
        [ ! -e "$running" ] || keep_logs "$(basename "$running" .running)" "$(cat "$running")" || true
    done
    echo
    python3 "$root/tests/summary.py" "$results"
    exit
}
trap stopped INT TERM HUP

keep_logs() { # LABEL FOLDER
    cp "$2/meson-logs/$1"*.json "$results/" 2>/dev/null
}

computed() { # FILE, from `times`: what the children of a shell have computed, whoever ran beside them
    [ -z "$timings" ] || sed -n '2 { s/\([0-9]*\)m\([0-9.]*\)s/\1 \2/g; p; }' "$1" |
        awk '{ printf "    %.0f core-seconds\n", 60 * ($1 + $3) + $2 + $4 }'
}

append='' # what nvcc is told besides; Meson, too, calls it, and could not read what nvcc says of that

# Configures one build folder, which fails if that does, and builds TARGET; what does not build is recorded.
build() { # LABEL COMPILER TARGET 'SETUP OPTIONS'
    label=$1 compiler=$2 target=$3 options=$4
    folder=$root/build/test-$label
    log=$results/$label.log
    since=$(date +%s)
    echo "$label: building"
    # shellcheck disable=SC2086
    if ! configure "$folder" "$cached${compiler#ccache }" -Dtests=enabled -Ddebug=false $options >"$log" 2>&1; then
        echo "$label: NOT CONFIGURED"
        grep -A 20 'ERROR:' "$log" || tail -n 30 "$log"
        echo 'is not configured' >"$results/$label.broken"
        return 1
    fi

    # the tests that run beside it come first
    built=built
    (
        made=0
        # ccache does not look at this variable
        nice -n 5 env ${append:+"NVCC_APPEND_FLAGS=$append" "CCACHE_NAMESPACE=$append"} "$ninja" -j "$(nproc)" -k 0 -C "$folder" "$target" >"$log" 2>&1 || made=1
        times >"$log.times"
        exit $made
    ) || built='NOT BUILT'
    warnings=$(grep -c 'warning:' "$log" || true)
    [ "$warnings" -eq 0 ] || built="$built, $warnings warnings"
    echo "$label: $built, $(($(date +%s) - since)) s"
    if [ "${built#NOT}" != "$built" ]; then
        sed -n 's/^FAILED: *\(\[[^]]*\] *\)*/does not build: /p' "$log" >"$results/$label.broken"
        [ -s "$results/$label.broken" ] || echo 'does not build' >"$results/$label.broken"
        awk '/^FAILED:/ { show = 1; lines = 0; ++failures } /^\[/ { show = 0 } show && failures <= 4 && ++lines <= 25' \
            "$log" | cut -c 1-300
        echo "The whole log: $log"
        # No old program may stand for one that does not build.
        # A part of a program that is compiled apart (tests/meson.build) has the program's name within its own.
        sed -n -e 's|^does not build: tests/lib\(test_[^/ ]*\)_short\.a\.p/.*|tests/\1|p; t' \
            -e 's|^does not build: \(tests/[^/ ]*\)\.p/.*|\1|p' "$results/$label.broken" | while read -r program; do
            rm -f "$folder/$program"
        done
    fi
    computed "$log.times"
    [ -z "$timings" ] || python3 "$root/tests/summary.py" --timings "$folder/.ninja_log" "$since"
}

# Runs tests of one build folder, after those of another label, in a shell of its own.
run_tests() { # AFTER LABEL FOLDER [meson test OPTIONS]
    after=$1 label=$2 folder=$3
    shift 3
    trap 'exit 1' INT TERM HUP
    while [ -n "$after" ] && [ ! -e "$results/$after.tested" ]; do
        sleep 1
    done
    since=$(date +%s)
    if [ -e "$results/${folder##*/test-}.broken" ]; then # Meson runs nothing if a program is missing: name the others
        while IFS= read -r test; do
            set -- "$@" "$test"
        done <<END
$(python3 "$root/tests/summary.py" --built "$folder" "$@")
END
    fi
    rm -f "$folder/meson-logs/$label"*.json # Meson appends the wrapper's name to the label
    echo "$folder" >"$results/$label.running"
    tested=tested
    "$MESON" test -C "$folder" --no-rebuild --logbase "$label" "$@" >"$results/$label.tests" 2>&1 &
    running=$!
    trap 'kill "$running" 2>/dev/null || true' INT TERM HUP # it ends its tests, and writes what they were
    while
        code=0
        wait "$running" || code=$?
        kill -0 "$running" 2>/dev/null # a signal ends the wait only
    do :; done
    [ "$code" -eq 0 ] || tested='tested, FAILED'
    times >"$results/$label.times"
    echo "$label: $tested, $(($(date +%s) - since)) s"
    computed "$results/$label.times"
    keep_logs "$label" "$folder" || {
        cat "$results/$label.tests"
        echo 'no test ran' >>"$results/$label.broken"
    }
    # Meson writes its log when it ends; one that is killed has a part of it, in which nothing need have failed.
    [ "$code" -eq 0 ] || grep -qE '"result": "(FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS)"' "$folder/meson-logs/$label"*.json 2>/dev/null ||
        echo "meson test ended with $code, and its log has no test that failed" >>"$results/$label.broken"
    rm -f "$results/$label.running"
    [ -z "$timings" ] || python3 "$root/tests/summary.py" --timings "$folder/meson-logs/$label"*.json
}

# Tests run while the next stage is being built, one stage's after another's: many wait more than they compute.
previous='' stages=''
stage() { # LABEL COMPILER TARGET 'SETUP OPTIONS' [meson test OPTIONS]
    label=$1
    stages="$stages $label"
    case ",${only:-$label}," in *",$label,"*) ;; *) return 0 ;; esac
    build "$1" "$2" "$3" "$4" || return 0
    shift 4
    { run_tests "$previous" "$label" "$root/build/test-$label" "$@" || true; touch "$results/$label.tested"; } &
    beside="$beside $!"
    previous=$label
}

# What waits most, for a network or for the deadlines of ranks, runs beside the other tests of the first stage.
waits='--no-suite fresh --no-suite mpi'
# What tests files, not a build, is tested once with each compiler; other instruction sets only nightly.
files="$waits --no-suite house --no-suite recipes --no-suite consumers --no-suite other_compilers --no-suite isa"
second="$files --no-suite headers" # the first build of a push's second compiler; headers alone are the first's
programs="$second --no-suite compile_fail --no-suite programs"
# Several files of a folder are one for the compiler: what they all include and instantiate is compiled once. Nightly the
# first compiler takes each by itself.
together=-Dtest_files_at_once=8
first=$(basename "${cxx##* }")
quick_build='-Dcuda=disabled -Dmpi=disabled -Doptimization=1' # mutants.py reads these two
quick_tests='--no-suite fresh --no-suite mpi --no-suite recipes --no-suite isa --no-suite cuda --no-suite consumers --no-suite other_compilers'
if [ "$mode" = quick ]; then
    # shellcheck disable=SC2086
    stage "$first" "$cxx" quick "$quick_build $together" $quick_tests
    finish
fi
strict=-Dwerror=true # newer compilers than those of a push may warn of more
nightly='--no-suite nightly' # a suite that is asked for by name would bring its nightly tests along
if [ "$mode" = nightly ]; then
    nightly='--setup nightly'
    # shellcheck disable=SC2086
    stage "$first" "$cxx" all '-Dbench=enabled -Dcuda=disabled' $nightly $waits
else
    # -O2, as users have it, takes a third longer to compile: nightly, and in a build by hand
    # shellcheck disable=SC2086
    stage "$first" "$cxx" push "-Dbench=enabled -Dcuda=disabled -Doptimization=1 $strict $together" $waits --no-suite isa --no-suite other_compilers
fi
waiting=$nightly
[ -z "$only" ] || waiting='--no-suite nightly'
# shellcheck disable=SC2086
[ -z "$previous" ] || { run_tests '' waiting "$root/build/test-$first" $waiting --suite fresh --suite mpi & beside="$beside $!"; }

others=
# shellcheck disable=SC2086
versions="[][$($cxx --version | head -n 1)]"
for other in clang++ g++ clang++-14 clang++-16 clang++-19 clang++-21; do
    version=$("$other" --version 2>/dev/null | head -n 1)
    case $versions in *"[$version]"*) continue ;; esac # there is none, or it has another name
    [ "$other" != "$first" ] || continue # one folder has the name, and CXX is what was asked for
    versions="${versions}[$version]"
    others="$others $other"
    [ "$mode" = nightly ] || break # on a push one other compiler
done

# Sanitizers. Where the kernel spreads addresses widely, older runtimes of them do not start, hence setarch.
still=
! setarch "$(uname -m)" -R true 2>/dev/null || still="--wrapper=setarch $(uname -m) -R"
sanitized="-Dcuda=disabled -Doptimization=1 -Db_lundef=false $together"

# The other compiler makes the programs with address checks, if it can: g++ optimises them three times as long. On a push
# they are all that it makes, for fewer instructions than this machine may have: all three in one build.
with_addresses=$cxx
for other in $others; do
    sanitizes "$other" || continue
    with_addresses=$other
    [ "$mode" = nightly ] || others=
    break
done
[ -n "$others" ] || [ "$with_addresses" != "$cxx" ] || echo 'clang++: left out, there is no second compiler'
other_tests=$programs
[ "$mode" = nightly ] || other_tests=$second
for other in $others; do
    # shellcheck disable=SC2086
    stage "$other" "$other" quick "-Dcuda=disabled $together" $other_tests
done
v3=
! grep -q -m 1 avx2 /proc/cpuinfo 2>/dev/null || v3=-Disa=x86-64-v3
checked=$programs
[ "$with_addresses" = "$cxx" ] || [ "$mode" = nightly ] || checked=$second
# Checking every sum of an address and an index takes half of the compiler's time, and finds little that is used; asking
# every address whether it is null, or of an object that is large enough, takes a fifth of the rest, and address checks
# find both; lines take a fifth, and messages name functions without them. Asking for alignment and for an object's type
# takes another fifth: nightly.
some=-Dcpp_args=-fno-sanitize=pointer-overflow,null,object-size
if [ "$mode" = push ]; then
    some="$some,alignment,vptr $strict -Dexamples=disabled"
    some="$some -Dtest_folders=core,data,device,kernels,blocks,layer,onednn,optimizer,schedule,group,collective,parallel,trainer,processes,concepts"
fi
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" # else it is only printed
# shellcheck disable=SC2086
stage "$(basename "${with_addresses##* }")-asan+ubsan" "$with_addresses" quick "$sanitized -Db_sanitize=address,undefined $v3 $some" \
    $checked -t 4 ${still:+"$still"}

export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
# shellcheck disable=SC2086
stage tsan "$cxx" quick "$sanitized -Dcpp_args=-g1 -Dexamples=disabled -Dnative=false -Db_sanitize=thread -Dtest_folders=group,collective,trainer" \
    $programs -t 8 ${still:+"$still"}

# All that nvcc compiles; without a GPU, for one kind of GPU, and what needs one is skipped. It comes last because it has
# few tests: those of the stages before it take their time while it is built.
if [ -n "$nvcc" ]; then
    usual_meson=$MESON usual_version=$meson_version
    use_newer_meson
    for_gpu='-Doptimization=1 -Dbench=enabled'
    if ! has_gpu; then # nothing runs, so nothing has to be fast; with 0 Meson would ask nvcc for code to be debugged
        for_gpu='-Doptimization=plain -Dgpu_arch=90'
        [ "$mode" = push ] || for_gpu="$for_gpu -Dbench=enabled"
        ! "$nvcc" --help | grep -q Ofast-compile || append="-Ofc=max -no-compress"
    fi
    has_gpu || previous= # then no test of it disturbs those before
    stage cuda "$cxx" cuda "-Dcuda=auto $for_gpu" --suite cuda
    append=
    MESON=$usual_meson meson_version=$usual_version
else
    echo 'cuda: left out, there is no nvcc'
fi
finish
