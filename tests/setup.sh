# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=sh
# Sourced by examples/run.sh and tests/run.sh, which set root: finds out what is missing on a Debian or Ubuntu system,
# installs that, and configures build folders. POSIX sh. apt-get is not called when nothing is missing.

packages='' # what to install
reasons=''  # one line for each
installed='' # whether a tool or a library was: a build folder that was configured before does not know it

want() { # PACKAGE WHY
    case " $packages " in *" $1 "*) return ;; esac
    if [ -e "${root:?}/build/unavailable/$1" ]; then # remove that file to be asked again
        echo "going on without $1, which apt has not had here: $2" >&2
        return 0
    fi
    packages="$packages $1"
    reasons="$reasons  $1: $2
"
}

want_command() { # COMMAND PACKAGE WHY
    command -v "$1" >/dev/null 2>&1 || want "$2" "$3"
}

want_header() { # HEADER PACKAGE WHY; after find_cxx
    if [ -n "$cxx" ]; then
        # CXX may be a command with words, as in 'ccache g++'
        # shellcheck disable=SC2086
        echo "#include <$1>" | $cxx -std=c++20 -E -x c++ - >/dev/null 2>&1 || want "$2" "$3"
    else
        [ -e "/usr/include/$1" ] || want "$2" "$3"
    fi
}

has_mpi() { # openmpi or mpich: whether its headers are there
    for header in /usr/lib/*/"$1"/include/mpi.h /usr/include/*/"$1"/mpi.h; do
        [ ! -e "$header" ] || return 0
    done
    return 1
}

has_any_mpi() {
    has_mpi openmpi || has_mpi mpich || command -v mpicxx >/dev/null 2>&1
}

has_venv() {
    python3 -c 'import venv, ensurepip' 2>/dev/null
}

has_gpu() {
    nvidia-smi -L >/dev/null 2>&1
}

# Sets cxx to $CXX, or to the first g++ that is new enough; to nothing if there is none yet.
find_cxx() {
    cxx=${CXX-}
    if [ -n "$cxx" ]; then
        command -v "${cxx%% *}" >/dev/null 2>&1 || stop "CXX is '$cxx', but there is no such command"
        return
    fi
    for candidate in g++ g++-15 g++-14 g++-13 g++-12; do
        if command -v "$candidate" >/dev/null 2>&1 && [ "$("$candidate" -dumpversion | cut -d. -f1)" -ge 12 ]; then
            cxx=$candidate
            return
        fi
    done
    if command -v g++ >/dev/null 2>&1; then
        want g++-12 "the C++20 compiler; $(g++ -dumpversion) is too old"
    else
        want g++ "the C++20 compiler"
    fi
}

want_build_tools() {
    find_cxx
    : "${MESON:=meson}"
    want_command "$MESON" meson "configures the build"
    command -v ninja >/dev/null 2>&1 || command -v ninja-build >/dev/null 2>&1 || want ninja-build "runs the build"
    want_command python3 python3 "Meson and the test scripts are written in it"
    want_header zlib.h zlib1g-dev "reads the compressed data set"
}

want_data() { # nothing if the data set is there
    [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] ||
        want dataset-fashion-mnist "Fashion-MNIST, the training data"
}

# Sets nvcc, to nothing if there is none, and wants what a newer Meson needs if this one is too old for it.
find_nvcc() {
    nvcc=$(command -v nvcc || true)
    if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then
        nvcc=/usr/local/cuda/bin/nvcc
        PATH=$PATH:/usr/local/cuda/bin # Meson looks for it there
        export PATH
    fi
    if [ -n "$nvcc" ] && ! knows_cuda "$("$MESON" --version 2>/dev/null || echo 0)"; then
        has_venv ||
            want python3-venv "a newer Meson, which knows the headers of .cu files, gets an environment of its own"
    fi
}

knows_cuda() { # MESON_VERSION
    case $1 in 0 | 0.* | 1.[0-3] | 1.[0-3].*) return 1 ;; esac
}

# Sets MESON to one that knows the headers of .cu files, from PyPI if need be. Without one nvcc is called directly.
use_newer_meson() {
    ! knows_cuda "$meson_version" || return 0
    own_meson=$root/build/meson
    if ! "$own_meson/bin/meson" --version >/dev/null 2>&1; then
        echo "Meson $meson_version does not know the headers of .cu files: installing Meson 1.12.1 from PyPI into $own_meson" >&2
        rm -rf "$own_meson"
        mkdir -p "$root/build"
        if ! { python3 -m venv "$own_meson" && "$own_meson/bin/python3" -m pip install --quiet meson==1.12.1; } \
            >"$own_meson.log" 2>&1; then
            echo "that failed ($own_meson.log); going on with Meson $meson_version, nvcc is called directly" >&2
            rm -rf "$own_meson"
            return 0
        fi
    fi
    MESON=$own_meson/bin/meson
    meson_version=$("$MESON" --version)
}

install_packages() {
    [ -z "$packages" ] || install_with_apt
    meson_version=$("$MESON" --version) || meson_version=''
    case $meson_version in
    '') stop "'$MESON --version' fails or says nothing: set MESON to the command of Meson, or leave it out" ;;
    0.* | 1.0.0*) stop "Meson $meson_version is too old, 1.0.1 is needed: set MESON to a newer one (python3 -m pip install meson)" ;;
    esac
}

install_with_apt() {
    printf 'Missing on this machine:\n%s' "$reasons" >&2
    command -v apt-get >/dev/null 2>&1 ||
        stop "this system has no apt-get: install the equivalents of$packages, then run this again"

    as_root=''
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 && as_root=sudo
        [ -n "$as_root" ] || stop "neither root nor sudo: have an administrator run
  apt-get update && apt-get install --yes --no-install-recommends$packages"
    fi
    command="${as_root:+$as_root }apt-get update && ${as_root:+$as_root }apt-get install --yes --no-install-recommends$packages"
    echo "Installing them: $command" >&2
    apt_log=$(mktemp)
    # Old lists may still do, so a failure here decides nothing.
    $as_root apt-get update >"$apt_log" 2>&1 || echo 'apt-get update failed, trying with the lists there are' >&2

    # Debian has all of them. A derived system may lack one: then the others are installed all the same.
    there=''
    for package in $packages; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then
            there="$there $package"
            continue
        fi
        echo "apt knows no package $package here (Ubuntu: is the component 'universe' enabled?)" >&2
        case $package in
        dataset-fashion-mnist) echo "going on without it: give its four files with --data DIRECTORY" >&2 ;;
        ccache | clang | cmake | debootstrap | libclang-rt-dev | libdnnl-dev | make | pkg-config) echo "going on without it" >&2 ;;
        *) stop "$package cannot be done without, install it by other means" ;;
        esac
        mkdir -p "$root/build/unavailable"
        touch "$root/build/unavailable/$package"
    done
    if [ -n "$there" ]; then
        # shellcheck disable=SC2086
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $there >>"$apt_log" 2>&1 || {
            tail -n 20 "$apt_log" >&2
            stop "the installation failed; try it by hand:
  $command"
        }
    fi
    rm -f "$apt_log"
    packages=''
    for package in $there; do # data tell a build folder nothing new
        case $package in bible-kjv | dataset-fashion-mnist | miscfiles) ;; *) installed=yes ;; esac
    done
    case " $there " in *' g++'*) find_cxx ;; esac
    [ -z "$packages" ] || stop "no C++ compiler that is new enough: set CXX to one (g++ 12, clang++ 14 or newer)"
}

# Configures a build folder unless it is up to date: anew with another Meson, another compiler or other options (Meson
# would keep those that are not given any more), or if packages have just been installed (it remembers what a compiler did
# not find); again with other sources (a new file is found only then). Fails if Meson does.
configure() { # FOLDER COMPILER SETUP_OPTIONS...
    folder=$1 compiler=$2
    shift 2
    # shellcheck disable=SC2086
    tools="Meson $meson_version, $compiler, $($compiler --version | head -n 1), $*"
    inputs=$(cd "$root" && python3 tests/scan.py tests && python3 tests/scan.py examples)
    if [ ! -e "$folder/build.ninja" ] || [ -n "$installed" ] || [ "$tools" != "$(cat "$folder/made_with" 2>/dev/null)" ]; then
        rm -rf "$folder"
        env CXX="$compiler" "$MESON" setup "$folder" "$root" "$@" || return 1
    elif [ "$inputs" != "$(cat "$folder/made_from" 2>/dev/null)" ]; then
        "$MESON" setup --reconfigure "$folder" "$root" "$@" || return 1
    fi
    echo "$tools" >"$folder/made_with"
    echo "$inputs" >"$folder/made_from"
}

stop() { # MESSAGE: what is missing cannot be installed here
    printf '%s: %s\n' "$0" "$1" >&2
    exit 3
}
